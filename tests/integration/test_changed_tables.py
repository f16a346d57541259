"""Tables that change in mid-campaign, between two runs and under one: no value in a wrong column, and a way to go on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from tests.integration.campaigns import FIRST_DAY, History, day, manifest_text
from tests.integration.child_runs import Finished
from tests.integration.fault_lane import BEFORE_LOAD, HOLD, KILL_LANE
from tests.integration.inner_modes import KEY, UNIQUE, mode_text
from tests.waiting import wait_until


def require_rest_was_loaded(history: History, kept: list[tuple[object, ...]]) -> None:
    """Let a run go on where it was: the first chunk is not moved again, the others are there once."""
    done = history.run("backfill", "resume", history.manifest())
    assert 0 == done.exit_code, done.output
    assert kept == history.versions(1)
    assert ("committed", 1) == history.chunks()[1]
    assert ["claimed", "committed"] == history.events(1)


def require_same(history: History, columns: str) -> None:
    window = f"day <= '{day(3)}'"
    digest = "SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM (SELECT {0} FROM {1} WHERE {2}) t"
    found = [
        history.sql(digest.format(columns, table, window)) for table in ("source.history", "target.history")
    ]
    assert found[0] == found[1]
    assert 60 == found[0][0][0]


# Under a run: the lane has its statement already.


def change_under_a_run(history: History, statements: str, text: str | None = None) -> Finished:
    """Change tables before the second chunk begins."""
    run = history.start("run", history.manifest(text), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    history.sql(statements)
    run.release()
    return run.finish()


SWAP = """
ALTER TABLE source.history ADD fee double precision;
ALTER TABLE source.history RENAME amount TO x;
ALTER TABLE source.history RENAME fee TO amount
"""
# Of the same width in binary: without a look, an amount would become a time or a fraction without a word.
CHANGES = {
    "a column of the source is dropped": (
        "ALTER TABLE source.history DROP COLUMN amount",
        "the source table source.history was changed while the run was at work: amount (bigint) is gone",
        "ALTER TABLE source.history ADD COLUMN amount bigint",
    ),
    "a column of the source is renamed": (
        "ALTER TABLE source.history RENAME amount TO total",
        "amount (bigint) is gone",
        "ALTER TABLE source.history RENAME total TO amount",
    ),
    "two columns of the source change their names": (
        SWAP,
        "amount is double precision and was bigint",
        "ALTER TABLE source.history DROP amount; ALTER TABLE source.history RENAME x TO amount",
    ),
    "a type of the source changes to one as wide": (
        "ALTER TABLE source.history ALTER amount TYPE double precision",
        "amount is double precision and was bigint",
        "ALTER TABLE source.history ALTER amount TYPE bigint",
    ),
    "a column of the target is dropped": (
        "ALTER TABLE target.history DROP COLUMN amount",
        "the target table target.history was changed while the run was at work: amount (bigint) is gone",
        "ALTER TABLE target.history ADD COLUMN amount bigint",
    ),
    "a type of the target changes to one as wide": (
        "ALTER TABLE target.history ALTER amount TYPE double precision",
        "amount is double precision and was bigint",
        "ALTER TABLE target.history ALTER amount TYPE bigint",
    ),
    "a type of the target becomes wider": (
        "ALTER TABLE target.history ALTER price TYPE numeric(15,3)",
        "price is numeric(15,3) and was numeric(14,3)",
        "ALTER TABLE target.history ALTER price TYPE numeric(14,3)",
    ),
}


@pytest.mark.parametrize("statements, told, mend", CHANGES.values(), ids=CHANGES)
def test_a_column_that_changes_under_a_run_stops_it_by_name(
    history: History, statements: str, told: str, mend: str
) -> None:
    failed = change_under_a_run(history, statements)
    assert (1, "DPONE_COLUMNS_DIFFER") == (failed.exit_code, failed.error_code), failed.output
    assert told in failed.stderr
    assert "restore it and run it again" in failed.stderr
    assert "is tried again" not in failed.stderr
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()
    history.sql(mend)
    kept = history.versions(1)
    require_rest_was_loaded(history, kept)
    require_same(history, "day, id, note, price")
    assert 40 == history.value("SELECT count(*) FROM target.history WHERE day > %s", FIRST_DAY)


REPLACED = {
    "source": "ALTER TABLE source.history RENAME TO old; CREATE TABLE source.history (LIKE source.old)",
    "target": "ALTER TABLE target.history RENAME TO old; CREATE TABLE target.history (LIKE target.old)",
}


@pytest.mark.parametrize("table", REPLACED)
def test_a_table_that_is_replaced_under_a_run_stops_it(history: History, table: str) -> None:
    failed = change_under_a_run(history, REPLACED[table])
    assert (1, "DPONE_BACKFILL_CAMPAIGN_DRIFT") == (failed.exit_code, failed.error_code), failed.output
    assert f"the {table} table {table}.history was replaced by another of its name" in failed.stderr
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()
    history.sql(f"DROP TABLE {table}.history; ALTER TABLE {table}.old RENAME TO history")
    require_rest_was_loaded(history, history.versions(1))
    history.require_loaded(3)


def test_a_table_that_is_gone_under_a_run_stops_it(history: History) -> None:
    failed = change_under_a_run(history, "ALTER TABLE source.history RENAME TO old")
    assert "DPONE_TABLE_MISSING" == failed.error_code, failed.output
    assert "is tried again" not in failed.stderr
    history.sql("ALTER TABLE source.old RENAME TO history")
    require_rest_was_loaded(history, history.versions(1))
    history.require_loaded(3)


@pytest.mark.parametrize("mode", ["full_refresh", "incremental_append", "incremental_merge"])
def test_every_inner_mode_looks_at_its_target_again(history: History, mode: str) -> None:
    history.sql(UNIQUE)
    text = mode_text(mode, 1, key=KEY if mode == "incremental_merge" else None)
    run = history.start("run", history.manifest(text), faults=[(BEFORE_LOAD, 1, HOLD)])
    run.wait_for(BEFORE_LOAD, 1)
    history.sql("ALTER TABLE target.history ALTER amount TYPE double precision")
    run.release()
    failed = run.finish()
    assert (1, "DPONE_COLUMNS_DIFFER") == (failed.exit_code, failed.error_code), failed.output
    assert "amount is double precision and was bigint" in failed.stderr
    assert 0 == history.value("SELECT count(*) FROM target.history")


@contextmanager
def rewriting(history: History, statement: str) -> Iterator[psycopg.Connection]:
    """Rewrite a table in a transaction that has not ended."""
    with psycopg.connect(history.uri, application_name="rewriting") as connection:
        connection.execute(statement.encode())
        yield connection
        connection.commit()


@pytest.mark.parametrize("verify", ["counts", "checksum"])
def test_a_source_that_is_being_rewritten_is_not_found_empty(history: History, verify: str) -> None:
    """A COPY reads as of before its wait for the lock, and the rewritten rows are all newer than that."""
    text = manifest_text(3).replace("    backfill:\n", f"    backfill:\n      verify: {verify}\n")
    run = history.start("run", history.manifest(text), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    # The column is none of those that are loaded; filling it rewrites every row.
    with rewriting(history, "ALTER TABLE source.history ADD extra uuid DEFAULT gen_random_uuid()"):
        run.release()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpone source' AND wait_event_type = 'Lock'"
        wait_until(lambda: history.value(waits) == 1, what="the lane's wait for the table")
    done = run.finish()
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
    require_same(history, "day, id, note, amount, price")


def test_a_target_that_is_being_rewritten_keeps_no_old_row(history: History) -> None:
    """Neither does the deletion read as of before its wait."""
    history.add_stale_rows()
    run = history.start("run", history.manifest(), faults=[("guarded", 2, HOLD)])
    run.wait_for("guarded", 2)
    with rewriting(history, "ALTER TABLE target.history ADD extra uuid DEFAULT gen_random_uuid()"):
        run.release()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpone sink' AND wait_event_type = 'Lock'"
        wait_until(lambda: history.value(waits) == 1, what="the lane's wait for the table")
    done = run.finish()
    assert 0 == done.exit_code, done.output
    require_same(history, "day, id, note, amount, price")


def test_a_table_cannot_be_changed_while_a_chunk_is_under_way(history: History) -> None:
    run = history.start("run", history.manifest(manifest_text(1)), faults=[("copied", 1, HOLD)])
    run.wait_for("copied", 1)
    for table in ("source", "target"):
        with psycopg.connect(history.uri) as connection, ThreadPoolExecutor(1):
            connection.execute("SET lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                connection.execute(f"ALTER TABLE {table}.history DROP COLUMN note".encode())
    run.release()
    assert 0 == run.finish().exit_code
    history.require_loaded(1)


# Between two runs.


def half_done(history: History) -> None:
    """Load one chunk of three."""
    history.run("run", history.manifest(), faults=[("copied", 2, KILL_LANE)])
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()


BETWEEN = {
    "a column is added to the source": (
        "ALTER TABLE source.history ADD extra text",
        "DPONE_COLUMNS_DIFFER",
        "extra (text) is missing in the target",
        "ALTER TABLE source.history DROP extra",
    ),
    "a column is added to both": (
        "ALTER TABLE source.history ADD extra text; ALTER TABLE target.history ADD extra text",
        "DPONE_BACKFILL_CAMPAIGN_DRIFT",
        "extra is loaded now and was not when it began",
        "ALTER TABLE target.history DROP extra; ALTER TABLE source.history DROP extra",
    ),
    "a column of the source is dropped": (
        "ALTER TABLE source.history DROP note",
        "DPONE_BACKFILL_CAMPAIGN_DRIFT",
        "note was loaded when it began and is not now",
        "ALTER TABLE source.history ADD note text",
    ),
    "a column of the target is dropped": (
        "ALTER TABLE target.history DROP note",
        "DPONE_COLUMNS_DIFFER",
        "note (text) is missing in the target",
        "ALTER TABLE target.history ADD note text",
    ),
    "a column that the source lacks is required": (
        "ALTER TABLE target.history ADD loaded_by text NOT NULL DEFAULT 'x'; ALTER TABLE target.history ALTER loaded_by DROP DEFAULT",
        "DPONE_COLUMNS_DIFFER",
        "loaded_by (text NOT NULL) is missing in the source",
        "ALTER TABLE target.history ALTER loaded_by SET DEFAULT 'dpone'",
    ),
}


@pytest.mark.parametrize("statements, code, told, mend", BETWEEN.values(), ids=BETWEEN)
def test_a_column_that_changes_between_two_runs_stops_the_next_by_name(
    history: History, statements: str, code: str, told: str, mend: str
) -> None:
    half_done(history)
    history.sql(statements)
    chunks = history.chunks()
    refused = history.run("backfill", "resume", history.manifest())
    assert (2, code) == (refused.exit_code, refused.error_code), refused.output
    assert told in refused.stderr
    assert chunks == history.chunks()
    history.sql(mend)
    require_rest_was_loaded(history, history.versions(1))
    require_same(history, "day, id, amount, price")


def test_a_new_column_may_be_taken_in_for_a_reason(history: History) -> None:
    half_done(history)
    history.sql(
        "ALTER TABLE source.history ADD extra text DEFAULT 'new'; ALTER TABLE target.history ADD extra text"
    )
    done = history.run("backfill", "resume", history.manifest(), "--reason", "extra is new")
    assert 0 == done.exit_code, done.output
    assert [(None, 20), ("new", 40)] == history.sql(
        "SELECT extra, count(*) FROM target.history GROUP BY 1 ORDER BY 1 NULLS FIRST"
    )
    assert "extra is new" in str(history.sql("SELECT detail FROM dpone_audit.__dpone__backfill_events"))
    assert ("committed", 1) == history.chunks()[1]


def test_a_further_column_of_the_target_is_no_matter(history: History) -> None:
    half_done(history)
    history.sql("ALTER TABLE target.history ADD extra text")
    require_rest_was_loaded(history, history.versions(1))
    require_same(history, "day, id, note, amount, price")
