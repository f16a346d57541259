-- name: describe_table
-- No row: there is no such relation, or this user cannot see its schema.
-- Last come what makes a target unfit: children that inherit, a rule on DELETE, a partition that is foreign or not logged.
SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text, pg_catalog.row_security_active(c.oid),
       CASE WHEN c.relispartition THEN pg_catalog.pg_partition_root(c.oid)::oid::bigint ELSE c.oid::bigint END,
       has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'DELETE'),
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid),
       c.relkind IN ('r', 'p') AND EXISTS (
         SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type = '4' AND r.ev_enabled <> 'D'),
       CASE WHEN c.relkind = 'p' THEN (
         SELECT l.oid::regclass::text FROM pg_catalog.pg_partition_tree(c.oid) t JOIN pg_catalog.pg_class l ON l.oid = t.relid
          WHERE t.isleaf AND (l.relkind <> 'r' OR l.relpersistence <> 'p') AND l.oid <> c.oid ORDER BY 1 LIMIT 1) END
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :schema AND c.relname = :name

-- name: describe_columns
-- A domain is described as the type that it is made of, which is what COPY writes.
WITH RECURSIVE described AS (
  SELECT a.attnum, a.atttypid AS type, a.atttypmod AS modifier FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = :relation AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT d.attnum, t.typbasetype, CASE WHEN d.modifier = -1 THEN t.typtypmod ELSE d.modifier END
    FROM described d JOIN pg_catalog.pg_type t ON t.oid = d.type WHERE t.typtype = 'd')
SELECT a.attname, pg_catalog.format_type(d.type, d.modifier), NOT a.attnotnull, d.type < 16384,
       a.attgenerated <> '', a.atthasdef OR a.attidentity <> '',
       CASE WHEN a.attgenerated <> '' THEN pg_catalog.pg_get_expr(x.adbin, x.adrelid) ELSE '' END,
       ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = d.type ORDER BY e.enumsortorder),
       t.typsend <> 0 AND t.typreceive <> 0 AND (t.typelem = 0 OR i.typsend <> 0 AND i.typreceive <> 0),
       t.typtype = 'c' OR i.typtype = 'c',
       CASE WHEN a.attcollation <> t.typcollation AND n.nspname = 'pg_catalog' THEN c.collname::text ELSE '' END
  FROM described d JOIN pg_catalog.pg_attribute a ON a.attrelid = :relation AND a.attnum = d.attnum
  JOIN pg_catalog.pg_type t ON t.oid = d.type AND t.typtype <> 'd'
  LEFT JOIN pg_catalog.pg_type i ON i.oid = t.typelem
  LEFT JOIN pg_catalog.pg_attrdef x ON x.adrelid = a.attrelid AND x.adnum = a.attnum
  LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
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
