"""Values of every type, through a real run: the same text and the same bytes, whatever the session's settings are."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import FIRST_DAY, History, checked, manifest_text

DIGITS = "1" * 131072
VALUES: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "smallint": ("-32768", "32767"),
    "integer": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "numeric": ("NaN", "Infinity", "-Infinity", DIGITS + "." + "9" * 16383, "-0.00", "1e-16383", "1.500"),
    "numeric(12,3)": ("NaN", "-999999999.999", "0.5"),
    "numeric(3,-2)": ("12300", "-99900"),
    "real": ("NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e38", "0.1"),
    "double precision": ("NaN", "Infinity", "-Infinity", "-0", "5e-324", "1.7976931348623157e308", "0.1"),
    "money": ("-92233720368547758.08", "92233720368547758.07"),
    "text": (
        "",
        "a\tb",
        "a\nb\r\nc",
        "\\",
        "\\N",
        "\\.",
        "\\t",
        "NULL",
        '"quoted"',
        "👩‍🚀 é e\u0301 ﷽",
        " padded ",
    ),
    "character varying(5)": ("", "ab   ", "日本語日本"),
    "character(5)": ("", "ab", "日本"),
    "bpchar": ("ab  ",),
    "name": ("a" * 63, ""),
    '"char"': ("a", "", "\\377"),
    "bytea": ("", "\\x00ff0a5c2e0d", "\\x5c4e"),
    "date": ("infinity", "-infinity", "4713-01-01 BC", "0001-12-31 BC", "5874897-12-31", "2013-02-01"),
    "time without time zone": ("00:00:00", "24:00:00", "23:59:59.999999"),
    "time(2) with time zone": ("24:00:00-15:59:59", "00:00:00.01+15:59:59"),
    "timestamp without time zone": (
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
    ),
    "timestamp(3) without time zone": ("2013-10-27 02:30:00.123",),
    "timestamp with time zone": (
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00+00 BC",
        "294276-12-31 23:59:59.999999+00",
        "2013-10-27 02:30:00+02",
        "2013-10-27 02:30:00+01",
    ),
    "interval": (
        "infinity",
        "-infinity",
        "1 mon -3 days 04:05:06.789",
        "-178000000 years",
        "00:00:00",
        "24:00:00",
        "1 day",
    ),
    "interval day to second(2)": ("3 days 04:05:06.79",),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "json": (' {"a" : 1, "a":2} ', "null", '"\\u0000"', "1.50", "[]"),
    "jsonb": ('{"a": [1.50, null, "\\u2603"]}', "null", '""', "1e400"),
    "jsonpath": ("$.a[*] ? (@ > 1)", "strict $"),
    "xml": ("<a b='1'>&lt; ☃</a>", "text <b/> and more", ""),
    "inet": ("10.0.0.1/8", "::1", "2001:db8::ff/64", "10.0.0.1"),
    "cidr": ("10.0.0.0/8", "::/0"),
    "macaddr": ("08:00:2b:01:02:03",),
    "macaddr8": ("08:00:2b:ff:fe:01:02:03",),
    "bit(3)": ("101", "000"),
    "bit varying": ("", "1", "0" * 1001),
    "bit varying(9)": ("10101",),
    "tsvector": ("'fat':2A 'cat':3B,4 'it''s':1", ""),
    "tsquery": ("'fat' & !( 'rat':AB | 'cat' <2> 'dog':* )",),
    "point": ("(1.5,-0)", "(Infinity,NaN)"),
    "line": ("{1,-1,0}",),
    "lseg": ("[(0,0),(1,1)]",),
    "box": ("(1,1),(0,0)",),
    "path": ("((0,0),(1,1),(2,0))", "[(0,0),(1,1)]"),
    "polygon": ("((0,0),(1,1),(2,0))",),
    "circle": ("<(0,0),2.5>",),
    "int4range": ("empty", "[1,5)", "(,)", "[1,)"),
    "int8range": ("[-9223372036854775808,9223372036854775807)",),
    "numrange": ("[1.50,NaN]", "(,1.5]"),
    "daterange": ("[2013-01-01,infinity)", "[,]"),
    "tsrange": ("(2013-01-01 00:00:00,infinity]",),
    "tstzrange": ("[2013-01-01 00:00:00+00,)",),
    "int4multirange": ("{}", "{[1,3),[5,9)}"),
    "int8multirange": ("{(,)}",),
    "nummultirange": ("{[1.5,2.5],(3,)}",),
    "datemultirange": ("{[2013-01-01,2013-02-01)}",),
    "tsmultirange": ("{[2013-01-01 00:00:00,2013-01-02 00:00:00]}",),
    "tstzmultirange": ("{[2013-01-01 00:00:00+00,)}",),
    "oid": ("0", "4294967295"),
    "xid": ("4294967295",),
    "xid8": ("18446744073709551615",),
    "cid": ("7",),
    "tid": ("(4294967295,65535)",),
    "pg_lsn": ("FFFFFFFF/FFFFFFFF", "0/0"),
    "pg_snapshot": ("10:20:10,14,15",),
    "txid_snapshot": ("10:20:10,14,15",),
    "refcursor": ("c",),
    "oidvector": ("1 2 3",),
    "int2vector": ("1 2",),
    "integer[]": ("{}", "{NULL,1}", "{{1,2},{3,NULL}}", "[2:3]={7,8}", "{{{1}}}"),
    "text[]": ('{"NULL",NULL,"","a,b","\\"\\\\"}',),
    "numeric(5,2)[]": ("{1.50,NaN}",),
    "character varying(3)[]": ("{ab,''}",),
    "character(3)[]": ("{a}",),
    "jsonb[]": ('{"{\\"a\\": 1}"}',),
    "int4range[]": ('{"[1,3)",empty}',),
    "timestamp(3) with time zone[]": ("{infinity}",),
    "box[]": ("{(1,1),(0,0);(2,2),(1,1)}",),
}
"""Type: the literals of its values; a row without one is added to each."""

SETTINGS = {
    "timezone": "Asia/Kolkata",
    "datestyle": "SQL, DMY",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "xmloption": "document",
    "lc_monetary": "C",
    "transform_null_equals": "on",
    "array_nulls": "off",
}


def make_source(history: History) -> None:
    """Make a table with a column a type, a row a value; the last row has none at all."""
    history.sql("DROP TABLE source.history, target.history")
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(VALUES))
    history.sql(f"CREATE TABLE source.history (day date, id integer, {columns})")
    for number, (name, literals) in enumerate(VALUES.items()):
        values = () if name == "xml" and not has_xml(history) else literals
        for row, value in enumerate((*values, None)):
            history.sql(
                f"INSERT INTO source.history (day, id, c{number}) VALUES ('{FIRST_DAY}', %s, %s)",
                number * 100 + row,
                value,
            )


def has_xml(history: History) -> bool:
    """Whether the server was built with the library that xml needs; the embedded one is not."""
    return bool(history.value("SELECT EXISTS (SELECT FROM pg_config WHERE setting LIKE '%--with-libxml%')"))


def copied(history: History, table: str, columns: str = "*") -> bytes:
    """Give a table's rows as the server sends them in binary."""
    with (
        history.cursor() as cursor,
        cursor.copy(
            f"COPY (SELECT {columns} FROM {table} ORDER BY id) TO STDOUT (FORMAT binary)".encode()
        ) as copy,
    ):
        return b"".join(copy)


MADE = """
CREATE TYPE source.made AS (a integer, b text);
ALTER TABLE source.history ADD made source.made;
UPDATE source.history SET made = (id, E'\\t"\\\\,(') WHERE id % 2 = 0
"""
"""A column because of which all the others travel as text."""


@pytest.mark.parametrize("created", [True, False], ids=["created", "existing"])
@pytest.mark.parametrize("copy_format", ["binary", "text"])
def test_every_value_of_every_type_survives(history: History, created: bool, copy_format: str) -> None:
    make_source(history)
    if copy_format == "text":
        history.sql(MADE)
    if not created:
        history.sql("CREATE TABLE target.history (LIKE source.history)")
    name = history.value("SELECT quote_ident(current_database())")
    for setting, value in SETTINGS.items():
        history.sql(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    planned = history.run("backfill", "plan", history.manifest(manifest_text(1)), "--connect")
    assert (copy_format == "text") == ("rows travel as text" in planned.stdout), planned.output
    done = history.run("run", history.manifest(checked(manifest_text(1))))
    assert 0 == done.exit_code, done.output
    assert history.value("SELECT count(*) FROM target.history") == history.value(
        "SELECT count(*) FROM source.history"
    )
    assert history.content("source.history") == history.content("target.history")
    assert copied(history, "source.history") == copied(history, "target.history")
    shape = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert history.sql(shape, "source.history") == history.sql(shape, "target.history")


def test_every_type_of_the_server_is_tried_or_refused(history: History) -> None:
    found = history.sql(
        "SELECT format_type(oid, NULL) FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace"
        " AND typtype IN ('b', 'r', 'm') AND typcategory <> 'A' AND typsend <> 0 AND typreceive <> 0"
    )
    tried = {str(history.value(f"SELECT format_type(pg_typeof(NULL::{name})::oid, NULL)")) for name in VALUES}
    left = {str(row[0]) for row in found} - tried - {"oidvector", "int2vector"}
    refused = {name for name in left if name.startswith(("reg", "pg_"))}
    assert set() == left - refused


@pytest.mark.parametrize(
    "type_name, told",
    [
        ("regclass", "odd is regclass: a number that names an object of its own database only"),
        ("regtype[]", "odd[] is regtype: a number that names an object of its own database only"),
        ("pg_node_tree", "odd is pg_node_tree, which no server reads"),
        ("source.odd_pair", "odd.names[].b is regclass: a number"),
    ],
)
@pytest.mark.parametrize("created", [True, False], ids=["created", "existing"])
def test_what_cannot_be_kept_is_refused_by_name(
    history: History, type_name: str, told: str, created: bool
) -> None:
    history.sql(
        "CREATE TYPE source.inner_pair AS (a integer, b regclass);"
        "CREATE TYPE source.odd_pair AS (a integer, names source.inner_pair[])"
    )
    for schema in ("source", "target"):
        history.sql(f"ALTER TABLE {schema}.history ADD COLUMN odd {type_name}")
    if created:
        history.sql("DROP TABLE target.history")
    refused = history.run("run", history.manifest())
    assert (2, "DPONE_COLUMNS_DIFFER") == (refused.exit_code, refused.error_code), refused.output
    assert told in refused.stderr
    assert not history.has_ledger_rows()


ENUM = "CREATE TYPE {0}.mood AS ENUM ('it''s', '', 'ok ☃'); ALTER TABLE {0}.history ADD COLUMN mood {0}.mood"


def test_an_enum_goes_into_one_with_the_same_labels_and_into_text(history: History) -> None:
    history.sql(ENUM.format("source"))
    history.sql(
        "UPDATE source.history SET mood = (enum_range(NULL::source.mood))[id % 3 + 1] WHERE id % 4 > 0"
    )
    history.sql(ENUM.format("target"))
    history.sql(
        "ALTER TABLE source.history ADD COLUMN word source.mood; UPDATE source.history SET word = mood"
    )
    history.sql("ALTER TABLE target.history ADD COLUMN word text")
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


@pytest.mark.parametrize("labels, told", [("'ok ☃', ''", "lacks"), ("'', 'it''s', 'ok ☃'", "order")])
def test_an_enum_with_other_labels_is_refused(history: History, labels: str, told: str) -> None:
    history.sql(ENUM.format("source"))
    history.sql(
        f"CREATE TYPE target.mood AS ENUM ({labels}); ALTER TABLE target.history ADD COLUMN mood target.mood"
    )
    refused = history.run("run", history.manifest())
    assert (2, "DPONE_COLUMNS_DIFFER") == (refused.exit_code, refused.error_code), refused.output
    assert told in refused.stderr
    assert "mood" in refused.stderr
    assert not history.has_ledger_rows()


def test_a_domain_counts_as_the_type_that_it_is_made_of(history: History) -> None:
    history.sql(
        "CREATE DOMAIN source.code AS varchar(5); CREATE DOMAIN source.short_code AS source.code CHECK (value <> 'x');"
        "CREATE DOMAIN target.whole AS bigint CHECK (value <> 41);"
        "ALTER TABLE source.history ADD COLUMN code source.short_code, ADD COLUMN number integer;"
        "ALTER TABLE target.history ADD COLUMN code text, ADD COLUMN number target.whole;"
        "UPDATE source.history SET code = 'c' || id, number = id"
    )
    failed = history.run("run", history.manifest())
    assert 1 == failed.exit_code, failed.output
    assert "whole_check" in failed.stderr
    history.sql("ALTER DOMAIN target.whole DROP CONSTRAINT whole_check")
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


def test_a_created_target_has_base_types_and_the_collations_that_every_server_has(history: History) -> None:
    history.sql(
        'CREATE DOMAIN source.code AS varchar(5) COLLATE "C";'
        "CREATE COLLATION source.own (locale = 'C');"
        'ALTER TABLE source.history ADD COLUMN code source.code, ADD COLUMN a text COLLATE "C",'
        " ADD COLUMN b text COLLATE source.own, ADD COLUMN twice integer GENERATED ALWAYS AS (id * 2) STORED,"
        " ADD COLUMN number integer GENERATED ALWAYS AS IDENTITY; DROP TABLE target.history"
    )
    planned = history.run("backfill", "plan", history.manifest(), "--connect")
    assert '"a" text COLLATE "pg_catalog"."C"' in planned.stdout
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)
    assert [("code", "character varying", "C"), ("a", "text", "C"), ("b", "text", None)] == history.sql(
        "SELECT column_name, data_type, collation_name FROM information_schema.columns"
        " WHERE table_schema = 'target' AND column_name IN ('a', 'b', 'code') ORDER BY ordinal_position"
    )
    assert [(False,)] == history.sql(
        "SELECT bool_or(attgenerated <> '' OR attidentity <> '') FROM pg_attribute"
        " WHERE attrelid = 'target.history'::regclass AND attnum > 0"
    )


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
def test_identity_columns_keep_the_values_of_the_source(history: History, kind: str) -> None:
    history.sql(f"ALTER TABLE target.history ALTER id ADD GENERATED {kind} AS IDENTITY")
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


@pytest.mark.parametrize("storage", ["STORED", "VIRTUAL"])
def test_a_column_that_both_sides_generate_alike_is_left_to_the_target(
    history: History, storage: str
) -> None:
    if storage == "VIRTUAL" and int(str(history.value("SHOW server_version_num"))) < 180000:
        pytest.skip("virtual columns came with 18")
    for schema in ("source", "target"):
        history.sql(
            f"ALTER TABLE {schema}.history ADD COLUMN twice integer GENERATED ALWAYS AS (id * 2) {storage}"
        )
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


@pytest.mark.parametrize("source", ["integer", "integer GENERATED ALWAYS AS (id * 3) STORED"])
def test_a_column_that_the_target_alone_generates_is_refused(history: History, source: str) -> None:
    history.sql(f"ALTER TABLE source.history ADD COLUMN twice {source}")
    history.sql("ALTER TABLE target.history ADD COLUMN twice integer GENERATED ALWAYS AS (id * 2) STORED")
    refused = history.run("run", history.manifest())
    assert (2, "DPONE_COLUMNS_DIFFER") == (refused.exit_code, refused.error_code), refused.output
    assert "twice is generated by the target" in refused.stderr
