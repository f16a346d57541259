-- name: describe_table
-- No row: there is no such relation, or this user cannot see its schema.
-- Then comes what may make a target unfit: children that inherit, rules, a partition that is foreign or not logged; and last the
-- triggers on DELETE, of partitions too, which may keep a row or add one.
SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text, pg_catalog.row_security_active(c.oid),
       CASE WHEN c.relispartition THEN pg_catalog.pg_partition_root(c.oid)::oid::bigint ELSE c.oid::bigint END,
       ARRAY(SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p WHERE has_table_privilege(c.oid, p)
              UNION ALL SELECT 'USAGE' WHERE has_schema_privilege(n.oid, 'USAGE')),
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid),
       ARRAY(SELECT DISTINCT CASE r.ev_type WHEN '2' THEN 'UPDATE' WHEN '3' THEN 'INSERT' ELSE 'DELETE' END
               FROM pg_catalog.pg_rewrite r
              WHERE c.relkind IN ('r', 'p') AND r.ev_class = c.oid AND r.ev_type IN ('2', '3', '4') AND r.ev_enabled <> 'D'),
       CASE WHEN c.relkind = 'p' THEN (
         SELECT l.oid::regclass::text FROM pg_catalog.pg_partition_tree(c.oid) t JOIN pg_catalog.pg_class l ON l.oid = t.relid
          WHERE t.isleaf AND (l.relkind <> 'r' OR l.relpersistence <> 'p') AND l.oid <> c.oid ORDER BY 1 LIMIT 1) END,
       ARRAY(SELECT DISTINCT g.tgname::text FROM pg_catalog.pg_trigger g
              WHERE (g.tgrelid = c.oid OR g.tgrelid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(c.oid) t))
                AND NOT g.tgisinternal AND g.tgenabled <> 'D' AND g.tgtype & 8 <> 0 ORDER BY 1)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :schema AND c.relname = :name

-- name: describe_columns
-- What a domain requires and brings counts as the column's own, except that a view's column of it may be NULL all the same.
WITH RECURSIVE described AS (
  SELECT a.attnum, a.atttypid AS type, false AS required FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = :relation AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT d.attnum, t.typbasetype, d.required OR t.typnotnull
    FROM described d JOIN pg_catalog.pg_type t ON t.oid = d.type WHERE t.typtype = 'd')
SELECT a.attnum, a.attname, NOT a.attnotnull, a.attgenerated <> '',
       NOT (a.attnotnull OR d.required) OR a.atthasdef OR a.attidentity <> '' OR o.typdefault IS NOT NULL,
       CASE WHEN a.attgenerated <> '' THEN pg_catalog.pg_get_expr(x.adbin, x.adrelid) ELSE '' END,
       CASE WHEN a.attcollation <> t.typcollation AND n.nspname = 'pg_catalog' THEN c.collname::text ELSE '' END,
       a.attidentity = 'a'
  FROM described d JOIN pg_catalog.pg_attribute a ON a.attrelid = :relation AND a.attnum = d.attnum
  JOIN pg_catalog.pg_type t ON t.oid = d.type AND t.typtype <> 'd'
  JOIN pg_catalog.pg_type o ON o.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_attrdef x ON x.adrelid = a.attrelid AND x.adnum = a.attnum
  LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
 ORDER BY a.attnum

-- name: describe_types
-- The types of a relation's columns, and those of the names, as trees: each node with the path to it, parents first.
-- A path begins with the column's number, or with the place of the name. Before release 14 pg_range has no rngmultitypid.
WITH RECURSIVE described AS (
  SELECT ARRAY[a.attnum::integer] AS path, a.attname::text AS part, a.atttypid AS type, a.atttypmod AS modifier
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = :relation AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT ARRAY[n.place::integer], n.name, pg_catalog.to_regtype(n.name)::oid, -1
    FROM unnest((:names)::text[]) WITH ORDINALITY n (name, place) WHERE pg_catalog.to_regtype(n.name) IS NOT NULL
  UNION ALL
  SELECT d.path || p.place, p.part, p.type, p.modifier
    FROM described d JOIN pg_catalog.pg_type t ON t.oid = d.type
    CROSS JOIN LATERAL (
      SELECT 1, '', t.typbasetype, CASE WHEN d.modifier = -1 THEN t.typtypmod ELSE d.modifier END WHERE t.typtype = 'd'
      UNION ALL
      SELECT 1, '', e.oid, d.modifier FROM pg_catalog.pg_type e WHERE e.oid = t.typelem AND e.typarray = t.oid
      UNION ALL
      SELECT 1, '', r.rngsubtype, -1 FROM pg_catalog.pg_range r
       WHERE t.typtype = 'r' AND t.oid >= 16384 AND r.rngtypid = t.oid
      UNION ALL
      SELECT 1, '', r.rngtypid, -1 FROM pg_catalog.pg_range r
       WHERE t.typtype = 'm' AND t.oid >= 16384 AND pg_catalog.to_jsonb(r) ->> 'rngmultitypid' = t.oid::text
      UNION ALL
      SELECT a.attnum::integer, a.attname::text, a.atttypid, a.atttypmod FROM pg_catalog.pg_attribute a
       WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) p (place, part, type, modifier))
SELECT d.path, d.part,
       CASE WHEN e.oid IS NOT NULL THEN 'array' ELSE CASE t.typtype WHEN 'b' THEN 'base' WHEN 'c' THEN 'composite'
         WHEN 'd' THEN 'domain' WHEN 'e' THEN 'enum' WHEN 'r' THEN 'range' WHEN 'm' THEN 'multirange' ELSE 'base' END END,
       t.oid < 16384,
       CASE WHEN t.oid < 16384 THEN pg_catalog.format_type(t.oid, d.modifier)
         ELSE pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(t.typname) END,
       CASE WHEN t.oid < 16384 THEN ''
         ELSE substr(pg_catalog.format_type(t.oid, d.modifier), length(pg_catalog.format_type(t.oid, NULL)) + 1) END,
       t.typsend <> 0 AND t.typreceive <> 0,
       coalesce((SELECT x.extname::text FROM pg_catalog.pg_depend p JOIN pg_catalog.pg_extension x ON x.oid = p.refobjid
         WHERE p.classid = 'pg_catalog.pg_type'::regclass AND p.objid = t.oid AND p.deptype = 'e'
           AND p.refclassid = 'pg_catalog.pg_extension'::regclass), ''),
       ARRAY(SELECT l.enumlabel::text FROM pg_catalog.pg_enum l WHERE l.enumtypid = t.oid ORDER BY l.enumsortorder)
  FROM described d JOIN pg_catalog.pg_type t ON t.oid = d.type JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
 ORDER BY d.path

-- name: seen_columns
-- A table and the declared types of its columns; cheap, since every chunk asks. No row: there is no such relation.
SELECT c.oid::bigint, c.relkind::text, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE n.nspname = :schema AND c.relname = :name

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

-- name: may_stage
-- Whether this user may make the temporary table that a merge is staged in.
SELECT has_database_privilege(current_database(), 'TEMPORARY')

-- name: unique_keys
-- The columns of each index that may decide a conflict: of plain columns, whole, valid, checked at once.
SELECT ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
              WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::smallint[])[0:i.indnkeyatts - 1]))
  FROM pg_catalog.pg_index i
 WHERE i.indrelid = :relation AND i.indisunique AND i.indisvalid AND i.indimmediate
   AND i.indpred IS NULL AND i.indexprs IS NULL
