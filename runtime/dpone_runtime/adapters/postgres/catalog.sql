-- name: describe_table
-- No row: there is no such relation, or this user cannot see its schema.
SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text, c.relrowsecurity,
       CASE WHEN c.relispartition THEN pg_catalog.pg_partition_root(c.oid)::oid::bigint ELSE c.oid::bigint END,
       has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'DELETE')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :schema AND c.relname = :name

-- name: describe_columns
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.atttypid < 16384,
       a.attgenerated <> '' OR a.attidentity = 'a', a.atthasdef OR a.attidentity = 'd'
  FROM pg_catalog.pg_attribute a WHERE a.attrelid = :relation AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum

-- name: server_identity
SELECT s.system_identifier::text, current_database() FROM pg_catalog.pg_control_system() s

-- name: relation_names
-- Names like the one that was not found, for the message.
SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r','p','v','m','f') AND n.nspname NOT IN ('pg_catalog','information_schema')
   AND (lower(c.relname) = lower(:name) OR lower(n.nspname) = lower(:schema)) ORDER BY 1 LIMIT 50

-- name: leading_index
-- Whether an index begins with the column.
SELECT EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a
   ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
 WHERE i.indrelid = :relation AND i.indisvalid AND a.attname = :column)

-- name: merge_rights
-- What an upsert through a temporary table needs beyond what every load needs.
SELECT has_table_privilege(:relation::oid, 'UPDATE'), has_database_privilege(current_database(), 'TEMPORARY')

-- name: unique_keys
-- The columns of each index that may decide a conflict: of plain columns, whole, valid, checked at once.
SELECT ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
              WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::smallint[])[0:i.indnkeyatts - 1]))
  FROM pg_catalog.pg_index i
 WHERE i.indrelid = :relation AND i.indisunique AND i.indisvalid AND i.indimmediate
   AND i.indpred IS NULL AND i.indexprs IS NULL
