-- name: ddl_lock
-- Database-wide, for the length of the transaction: CREATE ... IF NOT EXISTS raises when two sessions race.
SELECT pg_advisory_xact_lock(:lock)

-- name: ledger_tables
-- Which of the ledger's tables are there, by what follows their prefix; and `shadows`, where campaigns can have one.
SELECT substr(c.relname, 19) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :schema AND c.relkind = 'r'
   AND c.relname IN ('__dpone__backfill_campaigns', '__dpone__backfill_chunks', '__dpone__backfill_tallies',
                     '__dpone__backfill_events')
UNION ALL
SELECT 'shadows' FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'object_contract' AND NOT a.attisdropped
 WHERE n.nspname = :schema AND c.relkind = 'r' AND c.relname = '__dpone__backfill_campaigns'

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS {schema}

-- name: create_campaigns
CREATE TABLE IF NOT EXISTS {campaigns} (
  run_key text PRIMARY KEY,
  status text NOT NULL CHECK (status IN ('open','cancel_requested','halted','closed','complete','published')),
  revision bigint NOT NULL,
  round integer NOT NULL,
  plan_hash text NOT NULL,
  config_hash text NOT NULL,
  chunks_total integer NOT NULL,
  dataset text NOT NULL,
  inner_mode text NOT NULL,
  templated boolean NOT NULL,
  window_column text NOT NULL,
  window_kind text NOT NULL,
  window_lower text NOT NULL,
  window_upper text NOT NULL,
  window_everything boolean NOT NULL,
  source_server text NOT NULL,
  source_database text NOT NULL,
  source_relation text NOT NULL,
  source_name text NOT NULL,
  target_server text NOT NULL,
  target_database text NOT NULL,
  target_relation text NOT NULL,
  target_name text NOT NULL,
  loaded_columns text[] NOT NULL,
  shadow_relation text,
  shadow_name text,
  object_contract text,
  reason text,
  requested_by text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
)

-- name: add_shadows
-- For a ledger of an earlier release. Of a campaign that is published by a swap: the table that it loads until then, and the
-- fingerprint of what the live one is.
ALTER TABLE {campaigns} ADD COLUMN IF NOT EXISTS shadow_relation text, ADD COLUMN IF NOT EXISTS shadow_name text,
  ADD COLUMN IF NOT EXISTS object_contract text

-- name: create_campaigns_index
CREATE INDEX IF NOT EXISTS __dpone__backfill_campaigns_target ON {campaigns} (target_relation)

-- name: create_chunks
CREATE TABLE IF NOT EXISTS {chunks} (
  run_key text NOT NULL,
  chunk_index integer NOT NULL,
  status text NOT NULL CHECK (status IN ('pending','running','committed','failed')),
  revision bigint NOT NULL,
  round integer NOT NULL,
  attempt integer NOT NULL,
  owner text,
  lease_expires_at timestamptz,
  idempotency_key text NOT NULL,
  lower_bound text NOT NULL,
  upper_bound text NOT NULL,
  rows_extracted bigint,
  rows_loaded bigint,
  content_digest text,
  error_code text,
  error_message text,
  dag_run_id text,
  started_at timestamptz,
  finished_at timestamptz,
  PRIMARY KEY (run_key, chunk_index)
) WITH (fillfactor = 70)

-- name: create_chunks_running
CREATE INDEX IF NOT EXISTS __dpone__backfill_chunks_running ON {chunks} (run_key) WHERE status = 'running'

-- name: create_chunks_failed
CREATE INDEX IF NOT EXISTS __dpone__backfill_chunks_failed ON {chunks} (run_key, chunk_index) WHERE status = 'failed'

-- name: create_tallies
-- How many chunks of a round are committed, in parts that are added up: commits that come together seldom write one row.
CREATE TABLE IF NOT EXISTS {tallies} (
  run_key text NOT NULL,
  round integer NOT NULL,
  slot integer NOT NULL,
  committed bigint NOT NULL,
  PRIMARY KEY (run_key, round, slot)
) WITH (fillfactor = 50)

-- name: fill_tallies
-- Counts what was committed before there were tallies; nothing where they are kept already.
INSERT INTO {tallies} (run_key, round, slot, committed)
SELECT run_key, round, 0, count(*) FROM {chunks}
 WHERE status = 'committed' AND NOT EXISTS (SELECT FROM {tallies}) GROUP BY run_key, round

-- name: create_events
-- run_key is NOT NULL on purpose: complete_chunk writes a NULL there when its guard matched no row, which undoes all.
CREATE TABLE IF NOT EXISTS {events} (
  event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_key text NOT NULL,
  kind text NOT NULL,
  round integer NOT NULL,
  revision bigint NOT NULL,
  chunk_index integer,
  attempt integer,
  owner text,
  detail text,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
)

-- name: create_events_index
CREATE INDEX IF NOT EXISTS __dpone__backfill_events_chunk ON {events} (run_key, chunk_index)
