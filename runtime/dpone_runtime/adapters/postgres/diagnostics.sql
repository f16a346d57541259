-- name: missing_rights
-- Of the ledger's tables that are there.
SELECT c.relname, string_agg(needed.privilege, ', ' ORDER BY needed.place)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 CROSS JOIN (VALUES (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE')) needed (place, privilege)
 WHERE n.nspname = :schema AND c.relkind = 'r'
   AND c.relname IN ('__dpone__backfill_campaigns', '__dpone__backfill_chunks', '__dpone__backfill_tallies',
                     '__dpone__backfill_events')
   AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, needed.privilege))
 GROUP BY c.relname ORDER BY c.relname

-- name: read_only
SELECT pg_catalog.pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean

-- name: locking_sessions
-- Sessions of dpone in this database that hold advisory locks or locks on tables that exclude writers; with the advisory keys.
SELECT a.pid, a.application_name, a.state, clock_timestamp() - a.xact_start, cardinality(pg_blocking_pids(a.pid)) > 0,
       array_agg(DISTINCT (l.classid::bigint << 32) | l.objid::bigint) FILTER (WHERE l.locktype = 'advisory'),
       array_agg(DISTINCT l.relation::regclass::text) FILTER (WHERE l.locktype = 'relation')
  FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_locks l ON l.pid = a.pid AND l.granted
 WHERE a.datname = current_database() AND a.application_name LIKE 'dpone%' AND a.pid <> pg_backend_pid()
   AND (l.locktype = 'advisory' AND l.objsubid = 1
        OR l.locktype = 'relation' AND l.database <> 0 AND l.mode <> 'AccessShareLock')
 GROUP BY a.pid, a.application_name, a.state, a.xact_start ORDER BY a.pid LIMIT :count
