-- name: table_contract
-- Everything that makes up an ordinary table but its rows and its name, a line each: what, and how it is. Two tables with the same
-- lines are the same table. Names of indexes are left out, since two tables cannot share them; so are those of what is not shared
-- with them. Privileges count as they work, whether they were ever spelt out or not.
WITH t AS (SELECT c.* FROM pg_catalog.pg_class c WHERE c.oid = :relation)
SELECT 'table', pg_catalog.concat_ws(' ', a.amname, CASE WHEN t.relpersistence = 'u' THEN 'unlogged' END,
         'replica identity ' || t.relreplident::text,
         'tablespace ' || s.spcname,
         'with ' || (SELECT pg_catalog.string_agg(o, ', ' ORDER BY o) FROM unnest(t.reloptions) o),
         'toast with ' || (SELECT pg_catalog.string_agg(o, ', ' ORDER BY o) FROM unnest(x.reloptions) o))
  FROM t LEFT JOIN pg_catalog.pg_am a ON a.oid = t.relam LEFT JOIN pg_catalog.pg_tablespace s ON s.oid = t.reltablespace
  LEFT JOIN pg_catalog.pg_class x ON x.oid = t.reltoastrelid
UNION ALL
SELECT 'owner', pg_catalog.pg_get_userbyid(t.relowner)::text FROM t
UNION ALL
SELECT 'comment', pg_catalog.obj_description(t.oid, 'pg_class') FROM t
 WHERE pg_catalog.obj_description(t.oid, 'pg_class') IS NOT NULL
UNION ALL
SELECT 'privilege', pg_catalog.format('%s to %s%s by %s', p.privilege_type,
         CASE WHEN p.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(p.grantee)) END,
         CASE WHEN p.is_grantable THEN ' with grant option' ELSE '' END, pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(p.grantor)))
  FROM t, pg_catalog.aclexplode(coalesce(t.relacl, pg_catalog.acldefault('r', t.relowner))) p
UNION ALL
SELECT 'column', pg_catalog.concat_ws(' ',
         pg_catalog.lpad((pg_catalog.row_number() OVER (ORDER BY a.attnum))::text, 4, '0'), pg_catalog.quote_ident(a.attname),
         pg_catalog.format_type(a.atttypid, a.atttypmod),
         (SELECT 'collate ' || pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.collname)
            FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
           WHERE c.oid = a.attcollation AND a.attcollation <> y.typcollation),
         CASE WHEN a.attnotnull THEN 'not null' END,
         CASE WHEN a.attgenerated = '' THEN 'default ' ELSE 'generated ' || a.attgenerated::text || ' ' END
           || pg_catalog.pg_get_expr(d.adbin, d.adrelid),
         CASE WHEN a.attidentity <> '' THEN 'identity ' || a.attidentity::text END,
         'storage ' || a.attstorage::text,
         'compression ' || nullif(pg_catalog.to_jsonb(a) ->> 'attcompression', ''),
         'statistics ' || nullif(a.attstattarget, -1),
         'with ' || pg_catalog.array_to_string(a.attoptions, ', '),
         'comment ' || pg_catalog.quote_literal(pg_catalog.col_description(a.attrelid, a.attnum)))
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = :relation AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint', pg_catalog.concat_ws(' ', CASE WHEN k.contype = 'c' THEN pg_catalog.quote_ident(k.conname) END,
         pg_catalog.pg_get_constraintdef(k.oid),
         'comment ' || pg_catalog.quote_literal(pg_catalog.obj_description(k.oid, 'pg_constraint')))
  FROM pg_catalog.pg_constraint k WHERE k.conrelid = :relation AND k.contype IN ('c', 'n', 'p', 'u', 'x')
UNION ALL
SELECT CASE WHEN i.indisunique THEN 'unique index' ELSE 'index' END, pg_catalog.concat_ws(' ', i.definition,
         'tablespace ' || s.spcname, 'comment ' || pg_catalog.quote_literal(pg_catalog.obj_description(i.indexrelid, 'pg_class')),
         CASE WHEN i.indisclustered THEN 'clustered' END, CASE WHEN NOT i.indisvalid THEN 'not valid' END)
  FROM (SELECT i.*, c.reltablespace, pg_catalog.substr(pg_catalog.pg_get_indexdef(i.indexrelid), 1 + pg_catalog.length(
                 pg_catalog.format('CREATE %sINDEX %I ON %I.%I ', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, c.relname,
                                   n.nspname, t.relname))) AS definition
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN t ON t.oid = i.indrelid
          JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace) i
  LEFT JOIN pg_catalog.pg_tablespace s ON s.oid = i.reltablespace
 ORDER BY 1, 2

-- name: table_surfaces
-- What hangs on a table and stays with it when it is renamed, or what a new table cannot be given: each by kind and name.
WITH t AS (SELECT c.* FROM pg_catalog.pg_class c WHERE c.oid = :relation)
SELECT 'it is partitioned', NULL FROM t WHERE t.relkind = 'p'
UNION ALL
SELECT 'it is a partition, or inherits, of', h.inhparent::regclass::text FROM pg_catalog.pg_inherits h WHERE h.inhrelid = :relation
UNION ALL
SELECT 'it is inherited by', h.inhrelid::regclass::text FROM pg_catalog.pg_inherits h
 WHERE h.inhparent = :relation AND EXISTS (SELECT FROM t WHERE relkind <> 'p')
UNION ALL
SELECT 'it is of the type', t.reloftype::regtype::text FROM t WHERE t.reloftype <> 0
UNION ALL
SELECT 'trigger', g.tgname::text FROM pg_catalog.pg_trigger g WHERE g.tgrelid = :relation AND NOT g.tgisinternal
UNION ALL
SELECT 'rule', r.rulename::text FROM pg_catalog.pg_rewrite r WHERE r.ev_class = :relation
UNION ALL
SELECT 'row security', NULL FROM t WHERE t.relrowsecurity OR t.relforcerowsecurity
UNION ALL
SELECT 'policy', p.polname::text FROM pg_catalog.pg_policy p WHERE p.polrelid = :relation
UNION ALL
SELECT 'foreign key', k.conname::text FROM pg_catalog.pg_constraint k WHERE k.conrelid = :relation AND k.contype = 'f'
UNION ALL
SELECT 'foreign key of ' || k.conrelid::regclass::text, k.conname::text FROM pg_catalog.pg_constraint k
 WHERE k.confrelid = :relation AND k.conrelid <> :relation AND k.contype = 'f'
UNION ALL
SELECT 'identity column', a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = :relation AND a.attidentity <> ''
UNION ALL
SELECT 'sequence that the table owns', d.objid::regclass::text
  FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class q ON q.oid = d.objid AND q.relkind = 'S'
 WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = :relation
   AND d.deptype = 'a'
UNION ALL
SELECT 'privileges on column', a.attname::text FROM pg_catalog.pg_attribute a
 WHERE a.attrelid = :relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attacl IS NOT NULL
UNION ALL
SELECT 'privileges that another than its owner has granted', pg_catalog.pg_get_userbyid(p.grantor)::text
  FROM t, pg_catalog.aclexplode(t.relacl) p WHERE p.grantor <> t.relowner
UNION ALL
SELECT 'index that is not valid', i.indexrelid::regclass::text FROM pg_catalog.pg_index i
 WHERE i.indrelid = :relation AND NOT (i.indisvalid AND i.indisready)
UNION ALL
SELECT 'mark of CLUSTER on index', i.indexrelid::regclass::text FROM pg_catalog.pg_index i WHERE i.indrelid = :relation AND i.indisclustered
UNION ALL
SELECT 'replica identity', NULL FROM t WHERE t.relreplident <> 'd'
UNION ALL
SELECT 'extended statistics', e.stxname::text FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = :relation
UNION ALL
SELECT 'publication', p.pubname::text FROM pg_catalog.pg_publication_tables p
  JOIN t ON p.tablename = t.relname JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace AND p.schemaname = n.nspname
UNION ALL
SELECT 'it is filled by', pg_catalog.pg_describe_object('pg_catalog.pg_subscription'::regclass, r.srsubid, 0)
  FROM pg_catalog.pg_subscription_rel r WHERE r.srrelid = :relation
UNION ALL
SELECT 'statistics target of index', i.indexrelid::regclass::text FROM pg_catalog.pg_index i
 WHERE i.indrelid = :relation AND EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indexrelid AND a.attstattarget >= 0)
UNION ALL
SELECT 'privileges or a comment on its row type', NULL FROM t JOIN pg_catalog.pg_type y ON y.oid = t.reltype
 WHERE y.typacl IS NOT NULL OR pg_catalog.obj_description(y.oid, 'pg_type') IS NOT NULL
UNION ALL
SELECT 'security label of', l.provider FROM pg_catalog.pg_seclabel l
 WHERE l.classoid = 'pg_catalog.pg_class'::regclass AND l.objoid = :relation
UNION ALL
SELECT 'it belongs to extension', e.extname::text
  FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
 WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = :relation AND d.deptype = 'e'
   AND d.refclassid = 'pg_catalog.pg_extension'::regclass
UNION ALL
SELECT 'used by', pg_catalog.pg_describe_object(u.classid, u.objid, u.objsubid)
  FROM t, LATERAL (
    SELECT DISTINCT d.classid, d.objid, d.objsubid FROM pg_catalog.pg_depend d
     WHERE (d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = t.oid
         OR d.refclassid = 'pg_catalog.pg_type'::regclass AND d.refobjid IN
            (SELECT y.oid FROM pg_catalog.pg_type y WHERE y.oid = t.reltype
             UNION ALL SELECT y.typarray FROM pg_catalog.pg_type y WHERE y.oid = t.reltype))
       AND d.deptype IN ('n', 'a') AND NOT (d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = t.oid)) u
 WHERE CASE u.classid
         WHEN 'pg_catalog.pg_class'::regclass THEN NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = u.objid
                                                                AND c.relkind IN ('i', 'S', 't'))
         WHEN 'pg_catalog.pg_constraint'::regclass THEN NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
                                                                     WHERE k.oid = u.objid AND (k.conrelid = t.oid OR k.confrelid = t.oid))
         WHEN 'pg_catalog.pg_attrdef'::regclass THEN NOT EXISTS (SELECT FROM pg_catalog.pg_attrdef f WHERE f.oid = u.objid AND f.adrelid = t.oid)
         WHEN 'pg_catalog.pg_rewrite'::regclass THEN NOT EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.oid = u.objid AND r.ev_class = t.oid)
         WHEN 'pg_catalog.pg_policy'::regclass THEN NOT EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.oid = u.objid AND p.polrelid = t.oid)
         WHEN 'pg_catalog.pg_trigger'::regclass THEN NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.oid = u.objid AND g.tgrelid = t.oid)
         WHEN 'pg_catalog.pg_statistic_ext'::regclass THEN false
         WHEN 'pg_catalog.pg_publication_rel'::regclass THEN false
         WHEN 'pg_catalog.pg_type'::regclass THEN u.objid <> t.reltype AND NOT EXISTS (SELECT FROM pg_catalog.pg_type y
                                                                                       WHERE y.oid = t.reltype AND y.typarray = u.objid)
         ELSE true END
 ORDER BY 1, 2

-- name: table_of_name
-- No row: there is no relation of this name. Its object id, its comment, whether this user is its owner or may act as such, and
-- whether this user may create tables there, and may give one to its owner.
SELECT c.oid::bigint, pg_catalog.obj_description(c.oid, 'pg_class'), pg_catalog.pg_has_role(c.relowner, 'USAGE'),
       pg_catalog.pg_get_userbyid(c.relowner)::text, pg_catalog.has_schema_privilege(n.oid, 'CREATE'),
       pg_catalog.has_schema_privilege(c.relowner, n.oid, 'CREATE')
         OR (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :schema AND c.relname = :name

-- name: shadow_options
-- What `LIKE` leaves out of a new table: access method, storage parameters and tablespace of the live one.
SELECT pg_catalog.concat(' USING ' || pg_catalog.quote_ident(a.amname),
         ' WITH (' || (SELECT pg_catalog.string_agg(
             CASE WHEN o LIKE 'toast.%' THEN 'toast.' || pg_catalog.quote_ident(pg_catalog.substr(pg_catalog.split_part(o, '=', 1), 7))
                  ELSE pg_catalog.quote_ident(pg_catalog.split_part(o, '=', 1)) END
               || ' = ' || pg_catalog.quote_literal(pg_catalog.substr(o, pg_catalog.strpos(o, '=') + 1)), ', ')
           FROM (SELECT unnest(c.reloptions) UNION ALL SELECT 'toast.' || unnest(x.reloptions)) f (o)) || ')',
         ' TABLESPACE ' || pg_catalog.quote_ident(s.spcname))
  FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_am a ON a.oid = c.relam
  LEFT JOIN pg_catalog.pg_tablespace s ON s.oid = c.reltablespace LEFT JOIN pg_catalog.pg_class x ON x.oid = c.reltoastrelid
 WHERE c.oid = :relation

-- name: shadow_details
-- The statements that give a shadow what `LIKE` and its options did not: owner, privileges, statistics and options of columns.
SELECT pg_catalog.format('ALTER TABLE %1$s OWNER TO %2$I', :shadow::regclass, pg_catalog.pg_get_userbyid(l.relowner))
  FROM pg_catalog.pg_class l JOIN pg_catalog.pg_class s ON s.oid = :shadow::regclass WHERE l.oid = :relation AND l.relowner <> s.relowner
UNION ALL
SELECT pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', :shadow::regclass, a.attname, a.attstattarget)
  FROM pg_catalog.pg_attribute a
 WHERE a.attrelid = :relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attstattarget >= 0
UNION ALL
SELECT pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', :shadow::regclass, a.attname,
         pg_catalog.array_to_string(a.attoptions, ', '))
  FROM pg_catalog.pg_attribute a
 WHERE a.attrelid = :relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attoptions IS NOT NULL

-- name: shadow_privileges
-- The statements that give a shadow the live table's privileges, and no other; asked once it has its owner. First what goes.
SELECT pg_catalog.format('REVOKE ALL ON %s FROM %s', :shadow::regclass,
         CASE WHEN p.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(p.grantee)) END)
  FROM pg_catalog.pg_class s JOIN pg_catalog.pg_class l ON l.oid = :relation AND coalesce(l.relacl, pg_catalog.acldefault('r', l.relowner))
         IS DISTINCT FROM coalesce(s.relacl, pg_catalog.acldefault('r', s.relowner)),
       (SELECT DISTINCT x.grantee FROM pg_catalog.pg_class c, pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) x
         WHERE c.oid = :shadow::regclass) p
 WHERE s.oid = :shadow::regclass
UNION ALL
SELECT pg_catalog.format('GRANT %s ON %s TO %s%s', p.privilege_type, :shadow::regclass,
         CASE WHEN p.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(p.grantee)) END,
         CASE WHEN p.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
  FROM pg_catalog.pg_class s JOIN pg_catalog.pg_class l ON l.oid = :relation AND coalesce(l.relacl, pg_catalog.acldefault('r', l.relowner))
         IS DISTINCT FROM coalesce(s.relacl, pg_catalog.acldefault('r', s.relowner)),
       pg_catalog.aclexplode(coalesce(l.relacl, pg_catalog.acldefault('r', l.relowner))) p
 WHERE s.oid = :shadow::regclass

-- name: indexes
-- A table's indexes: name, everything but the name, so that those of two like tables can be paired, what follows the table in
-- the statement that makes it, whether it keeps rows out, its first column, where that is one, its tablespace and comment.
SELECT d.name, pg_catalog.concat_ws(' ', CASE WHEN d.indisunique THEN 'unique' END, d.definition, d.constraint_definition,
         'tablespace ' || d.tablespace, 'comment ' || pg_catalog.quote_literal(d.comment)), d.definition,
       d.indisunique OR d.constraint_definition IS NOT NULL, d.first_column, d.tablespace, d.comment
  FROM (SELECT c.relname::text AS name, i.indisunique, s.spcname::text AS tablespace,
               pg_catalog.substr(pg_catalog.pg_get_indexdef(i.indexrelid), 1 + pg_catalog.length(
                 pg_catalog.format('CREATE %sINDEX %I ON %I.%I ', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, c.relname,
                                   n.nspname, t.relname))) AS definition,
               (SELECT pg_catalog.pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k
                 WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')) AS constraint_definition,
               (SELECT a.attname::text FROM pg_catalog.pg_attribute a
                 WHERE a.attrelid = i.indrelid AND a.attnum = i.indkey[0] AND a.attnum > 0) AS first_column,
               pg_catalog.obj_description(i.indexrelid, 'pg_class') AS comment
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
          JOIN pg_catalog.pg_class t ON t.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
          LEFT JOIN pg_catalog.pg_tablespace s ON s.oid = c.reltablespace
         WHERE i.indrelid = :relation) d
 ORDER BY 2, 1

-- name: table_holders
-- Who holds a table, the longest first.
SELECT a.pid, coalesce(a.application_name, ''), coalesce(a.usename::text, ''), coalesce(a.state, '')
  FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'relation' AND l.relation = :relation AND l.granted AND l.pid <> pg_catalog.pg_backend_pid()
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
 GROUP BY a.pid, a.application_name, a.usename, a.state, a.xact_start ORDER BY a.xact_start NULLS LAST LIMIT 5

-- name: settings
SELECT n, pg_catalog.current_setting(n) FROM unnest(:names::text[]) n
