-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: savepoint
SAVEPOINT before_decision

-- name: rollback_to_savepoint
-- Gives back every lock, and takes back every setting, since the savepoint.
ROLLBACK TO SAVEPOINT before_decision

-- name: pause
SELECT pg_sleep(1)

-- name: lock
-- A transaction lock of one purpose; waits as long as lock_timeout lets it.
SELECT pg_advisory_xact_lock(:lock)

-- name: lock_shared
SELECT pg_advisory_xact_lock_shared(:lock)

-- name: clock
SELECT clock_timestamp()

-- name: read_campaign
-- No row: the campaign was never opened.
SELECT run_key, status, revision, round, plan_hash, config_hash, chunks_total, dataset, inner_mode, templated,
       window_column, window_kind, window_lower, window_upper, window_everything,
       source_server, source_database, source_relation, source_name,
       target_server, target_database, target_relation, target_name,
       reason, requested_by, created_at, updated_at, loaded_columns, shadow_relation, shadow_name, object_contract
  FROM {campaigns} WHERE run_key = :run_key

-- name: read_chunk
-- No row: the chunk was never claimed.
SELECT run_key, chunk_index, status, revision, round, attempt, owner, lease_expires_at, idempotency_key,
       lower_bound, upper_bound, rows_extracted, rows_loaded, content_digest, error_code, error_message,
       dag_run_id, started_at, finished_at
  FROM {chunks} WHERE run_key = :run_key AND chunk_index = :chunk_index

-- name: count_live
SELECT count(*) FROM {chunks}
 WHERE run_key = :run_key AND status = 'running' AND lease_expires_at > clock_timestamp()

-- name: insert_campaign
-- No row: another opener was first; nothing is written.
WITH changed AS (
  INSERT INTO {campaigns} (run_key, status, revision, round, plan_hash, config_hash, chunks_total, dataset, inner_mode,
         templated, window_column, window_kind, window_lower, window_upper, window_everything,
         source_server, source_database, source_relation, source_name,
         target_server, target_database, target_relation, target_name, loaded_columns, shadow_relation, shadow_name,
         object_contract, reason, requested_by)
  VALUES (:run_key, :status, :revision, :round, :plan_hash, :config_hash, :chunks_total, :dataset, :inner_mode,
         :templated, :window_column, :window_kind, :window_lower, :window_upper, :window_everything,
         :source_server, :source_database, :source_relation, :source_name,
         :target_server, :target_database, :target_relation, :target_name, :loaded_columns, :shadow_relation, :shadow_name,
         :object_contract, :reason, :requested_by)
  ON CONFLICT (run_key) DO NOTHING RETURNING run_key, round, revision)
INSERT INTO {events} (run_key, kind, round, revision, detail)
SELECT run_key, :event_kind, round, revision, :event_detail FROM changed RETURNING event_id

-- name: update_campaign
-- No row: the revision moved; nothing is written. What is published has another table as its target.
WITH changed AS (
  UPDATE {campaigns} SET status = :status, revision = :revision, round = :round, reason = :reason,
         requested_by = :requested_by, loaded_columns = :loaded_columns, target_relation = :target_relation,
         shadow_relation = :shadow_relation, shadow_name = :shadow_name, object_contract = :object_contract,
         updated_at = clock_timestamp()
   WHERE run_key = :run_key AND revision = :revision - 1 RETURNING run_key, round, revision)
INSERT INTO {events} (run_key, kind, round, revision, detail)
SELECT run_key, :event_kind, round, revision, :event_detail FROM changed RETURNING event_id

-- name: insert_chunk
-- No row: another claim was first; nothing is written.
WITH changed AS (
  INSERT INTO {chunks} (run_key, chunk_index, status, revision, round, attempt, owner, lease_expires_at,
         idempotency_key, lower_bound, upper_bound, dag_run_id, started_at)
  VALUES (:run_key, :chunk_index, :status, :revision, :round, :attempt, :owner,
         clock_timestamp() + :lease_ttl, :idempotency_key, :lower_bound, :upper_bound, :dag_run_id,
         clock_timestamp())
  ON CONFLICT (run_key, chunk_index) DO NOTHING RETURNING run_key, chunk_index, round, revision, attempt, owner)
INSERT INTO {events} (run_key, kind, round, revision, chunk_index, attempt, owner, detail)
SELECT run_key, :event_kind, round, revision, chunk_index, attempt, owner, :event_detail FROM changed
RETURNING event_id

-- name: claim_chunk
-- No row: the revision moved; nothing is written. A new attempt forgets what the last one reported.
WITH changed AS (
  UPDATE {chunks} SET status = :status, revision = :revision, round = :round, attempt = :attempt, owner = :owner,
         lease_expires_at = clock_timestamp() + :lease_ttl, idempotency_key = :idempotency_key,
         lower_bound = :lower_bound, upper_bound = :upper_bound, rows_extracted = NULL, rows_loaded = NULL,
         content_digest = NULL, error_code = NULL, error_message = NULL, dag_run_id = :dag_run_id,
         started_at = clock_timestamp(), finished_at = NULL
   WHERE run_key = :run_key AND chunk_index = :chunk_index AND revision = :revision - 1
  RETURNING run_key, chunk_index, round, revision, attempt, owner)
INSERT INTO {events} (run_key, kind, round, revision, chunk_index, attempt, owner, detail)
SELECT run_key, :event_kind, round, revision, chunk_index, attempt, owner, :event_detail FROM changed
RETURNING event_id

-- name: end_chunk
-- Failed or released. No row: the revision moved; nothing is written.
WITH changed AS (
  UPDATE {chunks} SET status = :status, revision = :revision, owner = :owner, lease_expires_at = NULL,
         error_code = :error_code, error_message = :error_message,
         finished_at = CASE WHEN :has_finished THEN clock_timestamp() END
   WHERE run_key = :run_key AND chunk_index = :chunk_index AND revision = :revision - 1
  RETURNING run_key, chunk_index, round, revision, attempt)
INSERT INTO {events} (run_key, kind, round, revision, chunk_index, attempt, owner, detail)
SELECT run_key, :event_kind, round, revision, chunk_index, attempt, :event_owner, :event_detail FROM changed
RETURNING event_id

-- name: carry_chunks
-- Takes what is committed in the round before over into a new one, all but the chunks of a JSON list of indexes.
-- No row: none but those was committed.
WITH changed AS (
  UPDATE {chunks} SET round = :round, revision = revision + 1
   WHERE run_key = :run_key AND status = 'committed' AND round = :round - 1
     AND chunk_index NOT IN (SELECT value::integer FROM json_array_elements_text(:reloaded::json))
  RETURNING run_key, chunk_index, round, revision, attempt, owner),
counted AS (
  INSERT INTO {tallies} (run_key, round, slot, committed)
  SELECT run_key, round, 0, count(*) FROM changed GROUP BY run_key, round)
INSERT INTO {events} (run_key, kind, round, revision, chunk_index, attempt, owner)
SELECT run_key, 'carried', round, revision, chunk_index, attempt, owner FROM changed

-- name: guard_chunk
-- First statement of the data transaction after the chunk's lock. No row: another attempt owns the chunk.
SELECT attempt FROM {chunks}
 WHERE run_key = :run_key AND chunk_index = :chunk_index AND status = 'running'
   AND revision = :revision AND owner = :owner AND round = :round

-- name: complete_chunk
-- Ends the data transaction, in one batch with COMMIT. Where another attempt owns the chunk, or the campaign is closed
-- or in another round, the event's run_key is NULL, which is refused, so that COMMIT undoes rows and status alike. The tally
-- is the last row that is locked, and nobody who has it waits for another.
WITH done AS (
  UPDATE {chunks} c SET status = 'committed', revision = c.revision + 1, lease_expires_at = NULL,
         rows_extracted = :rows_extracted, rows_loaded = :rows_loaded, content_digest = :content_digest,
         error_code = NULL, error_message = NULL, finished_at = clock_timestamp()
   WHERE c.run_key = :run_key AND c.chunk_index = :chunk_index AND c.status = 'running'
     AND c.revision = :revision AND c.owner = :owner AND c.round = :round
     AND EXISTS (SELECT FROM {campaigns} g
                  WHERE g.run_key = :run_key AND g.status <> 'closed' AND g.round = :round)
  RETURNING c.run_key, c.round, c.revision, c.chunk_index, c.attempt, c.owner),
counted AS (
  INSERT INTO {tallies} AS t (run_key, round, slot, committed) SELECT done.run_key, done.round, :slot, 1 FROM done
  ON CONFLICT (run_key, round, slot) DO UPDATE SET committed = t.committed + 1)
INSERT INTO {events} (run_key, kind, round, revision, chunk_index, attempt, owner, detail)
SELECT done.run_key, 'committed', :round, coalesce(done.revision, 0), :chunk_index, done.attempt, done.owner, :detail
  FROM (SELECT 1) one LEFT JOIN done ON true

-- name: renew_chunk
-- Changes the expiry alone. No row: the lease lapsed, or the row is no longer this owner's at this revision.
UPDATE {chunks} SET lease_expires_at = clock_timestamp() + :lease_ttl
 WHERE run_key = :run_key AND chunk_index = :chunk_index AND status = 'running' AND revision = :revision
   AND owner = :owner AND lease_expires_at > clock_timestamp()
RETURNING chunk_index

-- name: read_chunks
SELECT run_key, chunk_index, status, revision, round, attempt, owner, lease_expires_at, idempotency_key,
       lower_bound, upper_bound, rows_extracted, rows_loaded, content_digest, error_code, error_message,
       dag_run_id, started_at, finished_at
  FROM {chunks} WHERE run_key = :run_key AND chunk_index BETWEEN :first AND :last ORDER BY chunk_index

-- name: insert_event
-- Of what a verification found, which changes no row of another table. It always writes. No row is ever given back.
INSERT INTO {events} (run_key, kind, round, revision, chunk_index, attempt, owner, detail)
VALUES (:run_key, :kind, :round, :revision, :chunk_index, :attempt, :owner, :detail)

-- name: campaign_events
SELECT event_id, at, run_key, kind, round, revision, chunk_index, attempt, owner, detail
  FROM {events} WHERE run_key = :run_key AND chunk_index IS NULL ORDER BY event_id

-- name: verdicts
SELECT event_id, at, run_key, kind, round, revision, chunk_index, attempt, owner, detail
  FROM {events}
 WHERE run_key = :run_key AND chunk_index BETWEEN :first AND :last AND event_id > :after
   AND kind IN ('verified', 'differs')
 ORDER BY event_id

-- name: committed_chunks
SELECT chunk_index FROM {chunks}
 WHERE run_key = :run_key AND chunk_index BETWEEN :first AND :last AND status = 'committed' AND round = :round

-- name: receipts
-- Of the campaign's round, all that is committed: how many chunks, with how many rows. Only a publication asks.
SELECT count(*), coalesce(sum(rows_loaded), 0)::bigint FROM {chunks}
 WHERE run_key = :run_key AND status = 'committed' AND round = (SELECT round FROM {campaigns} WHERE run_key = :run_key)

-- name: count_statuses
-- Of a round, all but what is pending. What is committed is never counted: its tallies are added up.
SELECT 'committed', coalesce(sum(committed), 0)::bigint FROM {tallies} WHERE run_key = :run_key AND round = :round
UNION ALL
SELECT 'failed', count(*) FROM {chunks} WHERE run_key = :run_key AND status = 'failed' AND round = :round
UNION ALL
SELECT CASE WHEN lease_expires_at > clock_timestamp() THEN 'running' ELSE 'lease_expired' END, count(*)
  FROM {chunks} WHERE run_key = :run_key AND status = 'running' GROUP BY 1

-- name: list_statuses
SELECT c.chunk_index,
       CASE WHEN c.status IN ('committed', 'failed') AND c.round <> g.round THEN 'pending'
            WHEN c.status = 'running' AND c.lease_expires_at <= clock_timestamp() THEN 'lease_expired'
            ELSE c.status END
  FROM {chunks} c JOIN {campaigns} g USING (run_key)
 WHERE c.run_key = :run_key AND c.chunk_index BETWEEN :first AND :last ORDER BY c.chunk_index

-- name: list_failures
SELECT run_key, chunk_index, status, revision, round, attempt, owner, lease_expires_at, idempotency_key,
       lower_bound, upper_bound, rows_extracted, rows_loaded, content_digest, error_code, error_message,
       dag_run_id, started_at, finished_at
  FROM {chunks}
 WHERE run_key = :run_key AND status = 'failed' AND round = (SELECT round FROM {campaigns} WHERE run_key = :run_key)
 ORDER BY chunk_index LIMIT :count

-- name: list_failed_or_lapsed
-- What is failed in the campaign's round and what is marked running with a lapsed lease: each through its own partial index.
(SELECT run_key, chunk_index, status, revision, round, attempt, owner, lease_expires_at, idempotency_key,
       lower_bound, upper_bound, rows_extracted, rows_loaded, content_digest, error_code, error_message,
       dag_run_id, started_at, finished_at
  FROM {chunks}
 WHERE run_key = :run_key AND status = 'failed' AND chunk_index BETWEEN :first AND :last
   AND round = (SELECT round FROM {campaigns} WHERE run_key = :run_key)
 ORDER BY chunk_index LIMIT :count)
UNION ALL
(SELECT run_key, chunk_index, status, revision, round, attempt, owner, lease_expires_at, idempotency_key,
       lower_bound, upper_bound, rows_extracted, rows_loaded, content_digest, error_code, error_message,
       dag_run_id, started_at, finished_at
  FROM {chunks}
 WHERE run_key = :run_key AND status = 'running' AND chunk_index BETWEEN :first AND :last
   AND lease_expires_at <= clock_timestamp()
 ORDER BY chunk_index LIMIT :count)
 ORDER BY chunk_index LIMIT :count

-- name: count_failed
-- Of the campaign's round, since it was last opened: while it is open its row changes no more.
SELECT count(*) FROM {chunks} c JOIN {campaigns} g USING (run_key)
 WHERE c.run_key = :run_key AND c.status = 'failed' AND c.round = g.round AND c.finished_at >= g.updated_at

-- name: group_failures
SELECT coalesce(c.error_code, ''), count(*), min(c.chunk_index) FROM {chunks} c JOIN {campaigns} g USING (run_key)
 WHERE c.run_key = :run_key AND c.status = 'failed' AND c.round = g.round
 GROUP BY 1 ORDER BY 2 DESC, 1

-- name: list_running
-- With what each lease has left.
SELECT run_key, chunk_index, status, revision, round, attempt, owner, lease_expires_at, idempotency_key,
       lower_bound, upper_bound, rows_extracted, rows_loaded, content_digest, error_code, error_message,
       dag_run_id, started_at, finished_at, coalesce(lease_expires_at - clock_timestamp(), interval '0')
  FROM {chunks} WHERE run_key = :run_key AND status = 'running' ORDER BY chunk_index LIMIT :count

-- name: find_ledgers
-- Every audit schema of this database whose campaigns and chunks this user may read.
SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_class k ON k.relnamespace = n.oid AND k.relname = '__dpone__backfill_chunks' AND k.relkind = 'r'
 WHERE c.relname = '__dpone__backfill_campaigns' AND c.relkind = 'r'
   AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
   AND has_table_privilege(k.oid, 'SELECT')
 ORDER BY n.nspname

-- name: relations_of_name
-- Which tables the name of a target leads to; more than one where names have dots in them. No row: it is gone.
SELECT (CASE WHEN c.relispartition THEN pg_catalog.pg_partition_root(c.oid)::oid ELSE c.oid END)::text
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname || '.' || c.relname = :name

-- name: campaigns_on_target
-- Those that may still write there, with their chunks at work; with :over those too that no longer can. The ledger may be of
-- another release, whose campaigns have no shadow.
SELECT g.run_key, g.status, g.revision, g.round, g.plan_hash, g.config_hash, g.chunks_total, g.dataset, g.inner_mode,
       g.templated, g.window_column, g.window_kind, g.window_lower, g.window_upper, g.window_everything,
       g.source_server, g.source_database, g.source_relation, g.source_name,
       g.target_server, g.target_database, g.target_relation, g.target_name,
       g.reason, g.requested_by, g.created_at, g.updated_at, g.loaded_columns,
       to_jsonb(g) ->> 'shadow_relation', to_jsonb(g) ->> 'shadow_name', to_jsonb(g) ->> 'object_contract',
       (SELECT count(*) FROM {chunks} c
         WHERE c.run_key = g.run_key AND c.status = 'running' AND c.lease_expires_at > clock_timestamp())
  FROM {campaigns} g
 WHERE g.target_server = :server AND g.target_database = :database AND g.target_relation = :relation
   AND (:over OR g.status NOT IN ('complete', 'published', 'closed')
        OR g.status = 'complete' AND to_jsonb(g) ->> 'shadow_relation' IS NOT NULL)
 ORDER BY g.run_key

-- name: committed_ranges
-- Bounds of each run of adjacent chunks of which some round was committed. A later round leaves the rows of the one before in
-- place where it does not come so far; what it has claimed may have been committed before. No row: nothing of the campaign is in its target.
WITH done AS (
  SELECT c.chunk_index, c.chunk_index - row_number() OVER (ORDER BY c.chunk_index) AS island
    FROM {chunks} c
   WHERE c.run_key = :run_key AND (c.status = 'committed' OR c.round > 1))
SELECT f.lower_bound, l.upper_bound
  FROM (SELECT min(chunk_index) AS first, max(chunk_index) AS last FROM done GROUP BY island) r
  JOIN {chunks} f ON f.run_key = :run_key AND f.chunk_index = r.first
  JOIN {chunks} l ON l.run_key = :run_key AND l.chunk_index = r.last
 ORDER BY r.first

-- name: chunk_lock_holders
-- Sessions of dpone that hold a chunk's lock now, each ended; only those of this database and of our name.
SELECT pg_terminate_backend(l.pid) FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND l.classid::bigint = (:lock::bigint >> 32) & 4294967295 AND l.objid::bigint = :lock::bigint & 4294967295
   AND a.application_name LIKE 'dpone%' AND l.pid <> pg_backend_pid()

-- name: claimed_chunks
-- Chunks of a campaign that are marked running, live or not.
SELECT chunk_index FROM {chunks} WHERE run_key = :run_key AND status = 'running' ORDER BY chunk_index

-- name: session_lock
-- A lock of the session; waits as long as lock_timeout lets it.
SELECT pg_advisory_lock(:lock)

-- name: fence_take
-- A session lock. False: another session has it.
SELECT pg_try_advisory_lock(:lock), pg_backend_pid()

-- name: fence_held
-- Whether this very session still holds it.
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks
 WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() AND objsubid = 1
   AND classid::bigint = (:lock::bigint >> 32) & 4294967295 AND objid::bigint = :lock::bigint & 4294967295)

-- name: end_silent_run
-- Ends the session that holds a fence, where it has asked for nothing for so long, no chunk of its campaign has a live lease, and
-- none is being published: an index may be built for hours, in which a run asks for nothing. No row: the run lives, or its activity
-- may not be seen.
SELECT pg_terminate_backend(l.pid) FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND l.classid::bigint = (:lock::bigint >> 32) & 4294967295 AND l.objid::bigint = :lock::bigint & 4294967295
   AND a.application_name LIKE 'dpone%' AND a.state = 'idle' AND a.state_change < clock_timestamp() - :silence::interval
   AND NOT EXISTS (SELECT FROM {chunks} c
                    WHERE c.run_key = :run_key AND c.status = 'running' AND c.lease_expires_at > clock_timestamp())
   AND NOT EXISTS (SELECT FROM {campaigns} g JOIN pg_catalog.pg_locks h ON h.relation = (to_jsonb(g) ->> 'shadow_relation')::oid
                     JOIN pg_catalog.pg_stat_activity p ON p.pid = h.pid
                    WHERE g.run_key = :run_key AND h.database = l.database AND h.granted AND p.application_name = 'dpone ledger'
                      AND p.pid <> pg_backend_pid())
