"""Types that somebody has made, from one database into another in which every one of them has another number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.conftest import created_database
from tests.integration.campaigns import FIRST_DAY, History, checked, manifest_text
from tests.integration.inner_modes import KEY, mode_text
from tests.integration.test_types import MADE, SETTINGS, VALUES, make_source

OTHER_SETTINGS = {
    "timezone": "America/New_York",
    "datestyle": "German, MDY",
    "intervalstyle": "sql_standard",
    "extra_float_digits": "-5",
    "bytea_output": "hex",
    "array_nulls": "on",
}
TYPES = r"""
CREATE TYPE source.mood AS ENUM ('it''s', '', 'ok ☃', 'a,b');
CREATE DOMAIN source.code AS varchar(5) NOT NULL CHECK (value <> 'never');
CREATE DOMAIN source.moods AS source.mood[];
CREATE TYPE source.inner_pair AS (mood source.mood, code source.code, at timestamp(3) with time zone, f double precision);
CREATE DOMAIN source.known_pair AS source.inner_pair CHECK ((value).f IS NULL OR (value).f <> 0);
CREATE TYPE source."Outer ""pair"" 1" AS ("some, name" text, inners source.inner_pair[], one source.known_pair, b bytea);
CREATE TYPE source.mood_range AS RANGE (subtype = source.mood);
CREATE TYPE source.word;
CREATE FUNCTION source.word_in(cstring) RETURNS source.word LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION source.word_out(source.word) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE source.word (INPUT = source.word_in, OUTPUT = source.word_out, LIKE = text);
CREATE SCHEMA tools;
CREATE EXTENSION vector SCHEMA tools;
"""
COLUMNS: dict[str, tuple[str, ...]] = {
    "source.mood": ("it's", "", "ok ☃"),
    "source.mood[]": ('{"it\'s",NULL,"","a,b"}', "{}", "[2:3]={ok ☃,ok ☃}"),
    "source.moods": ("{ok ☃}",),
    "source.code": ("", "\\N", "a\tb"),
    "source.code[]": ('{"","\\\\N"}',),
    "source.inner_pair": (
        "(,a,,)",
        r"""("it's","a,\\b",infinity,1e-320)""",
        '("","","4713-01-01 00:00:00+00 BC",NaN)',
    ),
    "source.known_pair": ("(ok ☃,x,,0.1)",),
    'source."Outer ""pair"" 1"': (
        "(,,,)",
        r'("tab	 ""quoted"" \\ \\. \\N","{""(,a,,)"",NULL,""(\\""a,b\\"",\\""\\"",,-0)""}","(ok ☃,x,,1)","\\x00ff5c2e")',
    ),
    'source."Outer ""pair"" 1"[]': ('{"(a,,,)"}',),
    "source.mood_range": ("empty", '["",a\\,b)', '["it\'s",)'),
    "source.mood_multirange": ('{["it\'s",""),["ok ☃",]}', "{}"),
    "source.mood_range[]": ('{empty,"[\\"\\",]"}',),
    "source.word": (
        "",
        "tab\t\\N ☃",
    ),
    "source.word[]": ('{NULL,"NULL",""}',),
    "tools.vector(3)": ("[1,-0.1,1e-38]",),
    "tools.halfvec(2)[]": ('{"[1,2]"}',),
    "tools.sparsevec(5)": ("{1:1.5,3:-2}/5",),
    "aclitem": ("=r/postgres", "postgres=arwdDxt/postgres"),
    "aclitem[]": ("{=r/postgres,postgres=a*/postgres}",),
}
"""Type: the literals of its values; a row without one is added to each."""


@dataclass
class Far:
    """Another database, into which the runs of a history then load."""

    history: History
    connection: psycopg.Connection[tuple[object, ...]]

    def sql(self, text: str) -> list[tuple[object, ...]]:
        """Run SQL there."""
        cursor = self.connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []

    def rows(self, options: str = "", columns: str = "*") -> tuple[bytes, bytes]:
        """Give the rows of source and target as their servers write them, all settings being the same."""
        with self.history.cursor() as near, self.connection.cursor() as far:
            found = []
            for cursor, table in ((near, "source.history"), (far, "target.history")):
                text = f"COPY (SELECT {columns} FROM {table} ORDER BY id) TO STDOUT {options}"
                with cursor.copy(text.encode()) as copy:
                    found.append(b"".join(copy))
        return found[0], found[1]


@pytest.fixture
def far(history: History, server_uri: str) -> Iterator[Far]:
    with created_database(server_uri) as uri, psycopg.connect(uri, autocommit=True) as connection:
        history.environ["DPONE_CONN_TARGET_DB"] = uri
        opened = Far(history, connection)
        opened.sql("CREATE TYPE shift AS ENUM (); CREATE SCHEMA source; CREATE SCHEMA target")
        yield opened


def make_table(history: History, columns: dict[str, tuple[str, ...]]) -> None:
    """Make a source with a column a type, a row a value; the last row has none at all."""
    history.sql("DROP TABLE source.history")
    listed = ", ".join(f"c{number} {name}" for number, name in enumerate(columns))
    history.sql(
        f"CREATE TABLE source.history (day date NOT NULL, id integer NOT NULL, {listed})".replace("%", "%%")
    )
    needed = [number for number, name in enumerate(columns) if name == "source.code"]
    for number, literals in enumerate(columns.values()):
        for row, value in enumerate((*literals, None)):
            given = dict.fromkeys(needed, "x") | ({number: value} if value is not None else {})
            names = "".join(f", c{one}" for one in given)
            marks = ", %s" * len(given)
            history.sql(
                f"INSERT INTO source.history (day, id{names}) VALUES ('{FIRST_DAY}', %s{marks})",
                number * 100 + row,
                *given.values(),
            )


@pytest.mark.parametrize("created", [True, False], ids=["created", "existing"])
@pytest.mark.parametrize("mode", ["replace", "incremental_merge"])
def test_every_kind_of_made_type_survives(far: Far, created: bool, mode: str) -> None:
    far.history.sql(TYPES)
    far.sql(TYPES)
    make_table(far.history, COLUMNS)
    if not created:
        listed = ", ".join(f"c{number} {name}" for number, name in enumerate(COLUMNS))
        far.sql(f"CREATE TABLE target.history (day date, id integer, {listed}, UNIQUE (day, id))")
    text = mode_text(mode, 1, key=KEY if mode == "incremental_merge" else None)
    done = far.history.run("run", far.history.manifest(checked(text)))
    assert 0 == done.exit_code, done.output
    near_rows, far_rows = far.rows()
    assert near_rows.count(b"\n") == sum(len(literals) + 1 for literals in COLUMNS.values())
    assert near_rows == far_rows


@pytest.mark.parametrize("copy_format", ["binary", "text"])
def test_every_type_survives_between_servers_of_other_settings(far: Far, copy_format: str) -> None:
    history = far.history
    make_source(history)
    far.sql("CREATE TYPE source.made AS (a integer, b text)")
    if copy_format == "text":
        history.sql(MADE)
    for sql, settings in ((history.sql, SETTINGS), (far.sql, OTHER_SETTINGS)):
        name = sql("SELECT quote_ident(current_database())")[0][0]
        for setting, value in settings.items():
            sql(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    done = history.run("run", history.manifest(checked(manifest_text(1))))
    assert 0 == done.exit_code, done.output
    columns = ", ".join(("id", *(f"c{number}" for number in range(len(VALUES)))))
    near_rows, far_rows = far.rows("(FORMAT binary)", columns)
    assert len(near_rows) > 100_000
    assert near_rows == far_rows


# Types that are not the same.

DIFFERENT = {
    "another attribute": (
        "CREATE TYPE {}.pair AS (a integer, b text{})",
        ("", ", c text"),
        "odd is made of a, b in the source's source.pair and of a, b, c in the target's",
    ),
    "another order": (
        "CREATE TYPE {}.pair AS ({})",
        ("a integer, b text", "b text, a integer"),
        "odd is made of a, b in the source's source.pair and of b, a in the target's",
    ),
    "another attribute's type": (
        "CREATE TYPE {}.pair AS (a integer, b {})",
        ("varchar(5)", "text"),
        "odd.b is character varying(5) in the source and text in the target",
    ),
    "a type within": (
        "CREATE TYPE {0}.inner_pair AS (x {1}); CREATE TYPE {0}.pair AS (a integer, b {0}.inner_pair[])",
        ("numeric(5,2)", "numeric(5,3)"),
        "odd.b[].x is numeric(5,2) in the source and numeric(5,3) in the target",
    ),
    "labels within": (
        "CREATE TYPE {0}.mood AS ENUM ({1}); CREATE TYPE {0}.pair AS (mood {0}.mood)",
        ("'a', 'b'", "'a'"),
        "odd.mood is the enum source.mood, whose labels must be the same on both sides: the target's lacks 'b'",
    ),
    "what a range spans": (
        "CREATE TYPE {}.pair AS RANGE (subtype = {})",
        ("integer", "bigint"),
        "odd's bound is integer in the source and bigint in the target",
    ),
    "an enum and a composite": (
        "CREATE TYPE {}.pair AS {}",
        ("ENUM ()", "(a text)"),
        "odd is source.pair in the source and {}.pair in the target",
    ),
}


@pytest.mark.parametrize("created", [True, False], ids=["created", "existing"])
@pytest.mark.parametrize("statement, sides, told", DIFFERENT.values(), ids=DIFFERENT)
def test_types_that_are_made_otherwise_are_refused(
    far: Far, statement: str, sides: tuple[str, str], told: str, created: bool
) -> None:
    schema = "source" if created else "target"
    far.history.sql(statement.format("source", sides[0]) + "; ALTER TABLE source.history ADD odd source.pair")
    far.sql(statement.format(schema, sides[1]))
    if not created:
        far.sql(
            "CREATE TABLE target.history (day date, id integer, note text, amount bigint, price numeric(14,3),"
            " odd target.pair)"
        )
    refused = far.history.run("run", far.history.manifest())
    assert (2, "DPONE_COLUMNS_DIFFER") == (refused.exit_code, refused.error_code), refused.output
    assert told.format(schema) in refused.stderr
    assert not far.history.has_ledger_rows()


def test_a_type_of_an_extension_may_stand_in_another_schema(far: Far) -> None:
    far.history.sql(
        "CREATE EXTENSION vector SCHEMA source; ALTER TABLE source.history ADD v source.vector(2)"
    )
    far.history.sql("UPDATE source.history SET v = '[1,0.1]' WHERE id % 2 = 0")
    far.sql(
        "CREATE EXTENSION vector SCHEMA target; CREATE TABLE target.history"
        " (day date, id integer, note text, amount bigint, price numeric(14,3), v target.vector(2))"
    )
    done = far.history.run("run", far.history.manifest())
    assert 0 == done.exit_code, done.output
    assert [(30,)] == far.sql("SELECT count(*) FROM target.history WHERE v::text = '[1,0.1]'")
    far.sql("ALTER TABLE target.history ALTER v TYPE target.vector(3) USING NULL")
    refused = far.history.run("backfill", "plan", far.history.manifest(), "--connect")
    assert "v is source.vector(2) in the source and target.vector(3) in the target" in refused.stderr


def test_a_target_is_created_once_the_types_that_are_told_are_there(far: Far) -> None:
    far.history.sql(
        "CREATE EXTENSION vector SCHEMA public; CREATE TYPE source.mood AS ENUM ('it''s', 'b\\c%');"
        'CREATE DOMAIN source.feeling AS source.mood; CREATE TYPE source."In" AS ("m 1" source.feeling, v vector(2));'
        'CREATE TYPE source.pair AS (ins source."In"[], n numeric(5,2)); CREATE TYPE source.moods AS RANGE (subtype = source.mood);'
        "ALTER TABLE source.history ADD p source.pair, ADD m source.mood[], ADD r source.moods_multirange, ADD f source.feeling"
    )
    manifest = far.history.manifest()
    refused = far.history.run("backfill", "plan", manifest, "--connect")
    assert 2 == refused.exit_code, refused.output
    assert (
        "its database lacks the type of p source.pair, m source.mood, r source.moods_multirange, f source.mood"
        in (refused.stderr)
    )
    statements = re.search(r"run there first: (.*)$", refused.stderr, re.MULTILINE)
    assert statements is not None, refused.stderr
    assert 5 == statements[1].count("CREATE ") == statements[1].count(";"), statements[1]
    far.sql(statements[1])
    planned = far.history.run("backfill", "plan", manifest, "--connect")
    assert 0 == planned.exit_code, planned.output
    assert '"m" source.mood[]' in planned.stdout
    assert "rows travel as text, because of p, m, r" in planned.stdout
    done = far.history.run("run", manifest)
    assert 0 == done.exit_code, done.output
    columns = "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'target.history'::regclass AND attnum > 5"
    assert [("source.pair",), ("source.mood[]",), ("source.moods_multirange",), ("source.mood",)] == far.sql(
        columns
    )


def test_a_privilege_of_a_role_that_the_target_lacks_names_the_role(history: History) -> None:
    for side in ("source", "target"):
        history.sql(f"ALTER TABLE {side}.history ADD acl aclitem")
    history.sql(
        "CREATE ROLE dpone_gone; UPDATE source.history SET acl = 'dpone_gone=r/postgres'; DROP ROLE dpone_gone"
    )
    failed = history.run("run", history.manifest(manifest_text(1)))
    assert "DPONE_DATABASE_FAILED" in failed.stderr, failed.output
    assert "does not exist (SQLSTATE 42704) while loading target.history" in failed.stderr
    assert "create what the message names" in failed.stderr
