"""`verify: checksum`: what a chunk's digest is, what makes it fail, and what must not."""

import hashlib

import psycopg
import pytest

from dpone_contract.chunk_options import ChunkKind
from dpone_contract.manifest import DatabaseType, TableName
from dpone_runtime.adapters.postgres.copy import CopyStream
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.adapters.postgres.seen_table import see_table
from dpone_runtime.adapters.postgres.source import PostgresSource
from dpone_runtime.connections import resolve_connection
from dpone_runtime.ports.connectors import Column, SliceContent
from dpone_runtime.ports.type_structure import TypeStructure
from tests.integration.campaigns import History, checked, day
from tests.integration.child_runs import Finished
from tests.integration.inner_modes import KEY, SCENARIOS, UNIQUE, mode_text
from tests.integration.points import plan_of

DIGESTS = "SELECT content_digest FROM dpone_audit.__dpone__backfill_chunks ORDER BY chunk_index"
COLUMNS = "day, id, note, amount, price"
SPOILING = """
CREATE FUNCTION target.spoil() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF new.id = {spoiled} THEN new.note := 'spoilt'; END IF;
  RETURN new;
END $$;
CREATE TRIGGER spoil BEFORE INSERT OR UPDATE ON target.history FOR EACH ROW EXECUTE FUNCTION target.spoil()
"""


def load(history: History, mode: str, chunks: int = 3, **told: str) -> Finished:
    return history.run("run", history.manifest(checked(mode_text(mode, chunks, **told))))  # type: ignore[arg-type]  # text


def digest_by_hand(history: History, table: str, where: str) -> str:
    """Sum the SHA-256 of each row's text, in two halves of 64 bits, as the manual says."""
    with psycopg.connect(history.uri, options="-c TimeZone=UTC -c DateStyle=ISO") as connection:
        rows = connection.execute(
            f"SELECT ROW({COLUMNS})::text FROM {table} WHERE {where}".encode()
        ).fetchall()
    high = low = 0
    for (text,) in rows:
        found = hashlib.sha256(text.encode()).digest()
        high += int.from_bytes(found[:8], "big")
        low += int.from_bytes(found[8:16], "big")
    return f"{high % 2**64:016x}{low % 2**64:016x}"


@pytest.mark.parametrize("mode", SCENARIOS)
def test_the_digest_of_a_chunk_stays_in_its_row(history: History, mode: str) -> None:
    scenario = SCENARIOS[mode]
    scenario.prepare(history)
    # A day without rows has a digest too.
    history.sql("DELETE FROM source.history WHERE day = %s", day(2))
    text = checked(scenario.text())
    done = history.run("run", history.manifest(text))
    assert 0 == done.exit_code, done.output
    windows = (
        [f"day = '{day(number)}'" for number in (1, 2, 3)] if scenario.chunks == 3 else [f"day = '{day(1)}'"]
    )
    found = [row[0] for row in history.sql(DIGESTS)]
    assert [digest_by_hand(history, "source.history", window) for window in windows] == found
    if scenario.chunks == 3:
        assert "0" * 32 == found[1]
    assert len(set(found)) == scenario.chunks


@pytest.mark.parametrize("mode", SCENARIOS)
def test_a_row_that_was_changed_on_its_way_fails_its_chunk(history: History, mode: str) -> None:
    scenario = SCENARIOS[mode]
    scenario.prepare(history)
    spoiled = 27 if scenario.chunks == 3 else 7
    history.sql(SPOILING.format(spoiled=spoiled))
    before = history.content("target.history", f"day = '{day(scenario.victim)}'")
    refused = history.run("run", history.manifest(checked(scenario.text())))
    assert (1, "DPONE_BACKFILL_CONTENT_DIFFERS") == (refused.exit_code, refused.error_code), refused.output
    assert "spoilt" not in refused.output
    assert before == history.content("target.history", f"day = '{day(scenario.victim)}'")
    assert ("failed", 1) == history.chunks()[scenario.victim]
    # Once the trigger is gone the rest is loaded.
    history.sql("DROP TRIGGER spoil ON target.history")
    done = history.run("run", history.manifest(checked(scenario.text())))
    assert 0 == done.exit_code, done.output


def test_an_append_answers_for_its_own_rows_alone(history: History) -> None:
    history.add_stale_rows()
    done = load(history, "incremental_append")
    assert 0 == done.exit_code, done.output
    assert [digest_by_hand(history, "source.history", f"day = '{day(number)}'") for number in (1, 2, 3)] == [
        row[0] for row in history.sql(DIGESTS)
    ]


def test_a_merge_leaves_newer_rows_of_the_target_alone(history: History) -> None:
    history.sql(UNIQUE)
    history.sql(
        "ALTER TABLE source.history ADD version integer; ALTER TABLE target.history ADD version integer;"
        "UPDATE source.history SET version = nullif(id % 3, 0);"
        "INSERT INTO target.history SELECT day, id, 'newer', amount, price, 7 FROM source.history WHERE id % 20 < 5"
    )
    done = load(history, "incremental_merge", key=KEY, version="version")
    assert 0 == done.exit_code, done.output
    assert 15 == history.value(
        "SELECT count(*) FROM target.history WHERE day <= %s AND note = 'newer'", day(3)
    )


def test_a_merge_finds_a_row_of_the_same_version_that_was_changed(history: History) -> None:
    history.sql(UNIQUE)
    history.sql(
        "ALTER TABLE source.history ADD version integer; ALTER TABLE target.history ADD version integer;"
        "UPDATE source.history SET version = 1"
    )
    history.sql(SPOILING.format(spoiled=27))
    refused = load(history, "incremental_merge", key=KEY, version="version")
    assert "DPONE_BACKFILL_CONTENT_DIFFERS" == refused.error_code
    assert "1 rows of the target are not what was merged" in refused.stderr


def test_what_other_sessions_have_set_changes_no_digest(history: History) -> None:
    """Types that differ on both sides, and defaults of the database that write values in another way."""
    history.sql(
        """
        CREATE TYPE source.mood AS ENUM ('sad', 'ok');
        CREATE TABLE source.wide (day date, id integer, small smallint, price numeric(5,1), code character(3),
          born date, seen timestamptz, took interval, raw bytea, ratio float8, paid money, mood source.mood, tags text[]);
        INSERT INTO source.wide SELECT date '2013-01-01' + n % 3, n, n, n / 10.0, 'a', date '1900-01-01' + n,
          timestamptz '2013-01-01 00:00:00.123456+00' + n * interval '1 hour', n * interval '1 day -00:00:01.5',
          decode('00ff5c', 'hex'), n / 3.0::float8, n::numeric::money, 'sad', ARRAY['a', NULL, '']
          FROM generate_series(0, 29) n;
        CREATE TABLE target.wide (day date, id bigint, small numeric(8,2), price numeric(12,4), code character(10),
          born timestamp, seen timestamptz, took interval, raw bytea, ratio float8, paid money, mood text, tags text[]);
        """
    )
    name = history.value("SELECT current_database()")
    for setting in (
        "TimeZone = 'Asia/Kathmandu'",
        "DateStyle = 'German, DMY'",
        "IntervalStyle = 'sql_standard'",
        "extra_float_digits = 0",
        "bytea_output = 'escape'",
    ):
        history.sql(f'ALTER DATABASE "{name}" SET {setting}')
    text = checked(mode_text("replace")).replace("name: history }", "name: wide }")
    done = history.run("run", history.manifest(text))
    assert 0 == done.exit_code, done.output
    assert 30 == history.value("SELECT count(*) FROM target.wide")


class Meddling(PostgresSource):
    """Lets a row be added between the digest and the copy."""

    uri = ""

    def _content(self, chunk: object) -> SliceContent:
        found = super()._content(chunk)  # type: ignore[arg-type]  # as it was given
        with psycopg.connect(self.uri, autocommit=True) as other:
            other.execute("INSERT INTO source.history (day, id) VALUES ('2013-01-01', 999)")
        return found


def test_digest_and_rows_are_of_one_snapshot(history: History) -> None:
    plan = plan_of(column="day", first="2013-01-01", to="2013-01-03", step="1d")
    table = ChunkedTable(
        TableName(schema="source", name="history"),
        tuple(COLUMNS.split(", ")),
        Column("day", TypeStructure("date"), nullable=True),
        ChunkKind.DATE,
        "UTC",
    )
    environ = {"DPONE_CONN_SOURCE_DB": history.uri}
    with psycopg.connect(history.uri, autocommit=True) as session:
        seen = see_table(session, table.table)
    assert seen is not None
    connection = resolve_connection("source_db", DatabaseType.POSTGRES, environ)
    source = Meddling(connection, table, seen, digests=True)
    source.uri = history.uri
    try:
        with source.read(plan.chunk(1)) as stream:
            assert isinstance(stream, CopyStream)
            for _block in stream.blocks():
                pass
            assert stream.content is not None
            assert (20, 20) == (stream.content.rows, stream.rows)
    finally:
        source.close()
    assert 21 == history.value("SELECT count(*) FROM source.history WHERE day = '2013-01-01'")
