"""Triggers and rules of a target that keep, add or drop rows: what they do to a slice is found, and nothing is there twice."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import FIRST_DAY, History, day
from tests.integration.inner_modes import KEY, UNIQUE, mode_text
from tests.integration.test_targets import PARTITIONED

KEEP = """
CREATE FUNCTION target.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER keep BEFORE DELETE ON {0} FOR EACH ROW WHEN (old.id = -1) EXECUTE FUNCTION target.keep()
"""
BRING_BACK = """
CREATE FUNCTION target.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO target.history (day, id) VALUES (old.day, old.id); RETURN NULL; END $$;
CREATE TRIGGER keep AFTER DELETE ON {0} FOR EACH ROW WHEN (old.id = -1) EXECUTE FUNCTION target.keep()
"""
KEEPERS = {
    "a trigger that keeps a row": (KEEP.format("target.history"), "target.history"),
    "a trigger that brings a row back": (BRING_BACK.format("target.history"), "target.history"),
    "a trigger of a partition": (
        PARTITIONED.format("target") + KEEP.format("target.rest"),
        "target.rest",
    ),
    "a trigger of all partitions": (
        PARTITIONED.format("target") + KEEP.format("target.history"),
        "target.history",
    ),
}


@pytest.mark.parametrize("statements, table", KEEPERS.values(), ids=KEEPERS)
def test_a_slice_that_a_trigger_keeps_fails_its_chunk(history: History, statements: str, table: str) -> None:
    history.sql(statements)
    history.add_stale_rows()
    # Of the last day only, which is in the other partition: the days before it are none of the trigger's.
    history.sql("UPDATE target.history SET id = id - 10 WHERE day < %s", day(3))
    before = history.content("target.history", f"day = '{day(3)}'")
    failed = history.run("run", history.manifest())
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert "rows are left in the slice after its deletion from target.history" in failed.stderr
    assert "(keep)" in failed.stderr
    assert "disable the trigger while the load runs" in failed.stderr
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("failed", 1)} == history.chunks()
    assert before == history.content("target.history", f"day = '{day(3)}'")
    history.sql(f"ALTER TABLE {table} DISABLE TRIGGER keep")
    done = history.run("backfill", "resume", history.manifest())
    assert 0 == done.exit_code, done.output
    assert 60 == history.value("SELECT count(*) FROM target.history WHERE day <= %s", day(3))
    assert history.content("source.history", f"day = '{day(3)}'") == history.content(
        "target.history", f"day = '{day(3)}'"
    )


def test_a_table_that_a_trigger_keeps_is_not_refreshed(history: History) -> None:
    history.sql(KEEP.format("target.history"))
    history.add_stale_rows()
    before = history.content("target.history")
    text = mode_text("full_refresh", 1)
    failed = history.run("run", history.manifest(text))
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert before == history.content("target.history")
    history.sql("DROP TRIGGER keep ON target.history")
    assert 0 == history.run("run", history.manifest(text)).exit_code
    assert history.content("source.history", f"day = '{FIRST_DAY}'") == history.content("target.history")


def test_copy_passes_a_rule_on_insert_by(history: History) -> None:
    """As PostgreSQL says of COPY: triggers yes, rules no."""
    history.sql("CREATE RULE nowhere AS ON INSERT TO target.history DO INSTEAD NOTHING")
    assert 0 == history.run("run", history.manifest()).exit_code
    history.require_loaded(3)


@pytest.mark.parametrize("command", ["INSERT", "UPDATE"])
def test_a_merge_into_a_table_with_rules_is_refused_by_name(history: History, command: str) -> None:
    history.sql(UNIQUE)
    history.sql(f"CREATE RULE away AS ON {command} TO target.history DO INSTEAD NOTHING")
    refused = history.run("run", history.manifest(mode_text("incremental_merge", key=KEY)))
    assert (2, "DPONE_TABLE_UNSUITABLE") == (refused.exit_code, refused.error_code), refused.output
    assert f"a rule on {command}" in refused.stderr
    assert not history.has_ledger_rows()


DROPPING = """
CREATE FUNCTION target.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER refuse BEFORE {0} ON target.history FOR EACH ROW WHEN (new.id = 27) EXECUTE FUNCTION target.refuse()
"""
VERSIONED = """
ALTER TABLE source.history ADD version integer;
ALTER TABLE target.history ADD version integer;
UPDATE source.history SET version = 2;
INSERT INTO target.history SELECT * FROM source.history WHERE id BETWEEN 20 AND 39;
UPDATE target.history SET note = 'old', version = {0}
"""
MERGES = {
    "an insert": ("", DROPPING.format("INSERT"), None),
    "an update": (
        "INSERT INTO target.history SELECT * FROM source.history WHERE id = 27;",
        DROPPING.format("UPDATE"),
        None,
    ),
    "an update to a newer version": (VERSIONED.format(1) + ";", DROPPING.format("UPDATE"), "version"),
    "an update to the same version": (VERSIONED.format(2) + ";", DROPPING.format("UPDATE"), "version"),
}


@pytest.mark.parametrize("prepare, trigger, version", MERGES.values(), ids=MERGES)
def test_a_merge_misses_each_row_that_a_trigger_drops(
    history: History, prepare: str, trigger: str, version: str | None
) -> None:
    history.sql(UNIQUE)
    history.sql(prepare + trigger)
    before = history.content("target.history", f"day = '{day(2)}'")
    text = mode_text("incremental_merge", key=KEY, version=version)
    strict = text.replace("    backfill:\n", "    backfill:\n      verify: strict\n")
    failed = history.run("run", history.manifest(strict))
    assert (1, "DPONE_BACKFILL_ROWS_DIFFER") == (failed.exit_code, failed.error_code), failed.output
    assert "the source counted 20 rows and the target 19" in failed.stderr
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()
    assert before == history.content("target.history", f"day = '{day(2)}'")
    history.sql("DROP TRIGGER refuse ON target.history")
    assert 0 == history.run("backfill", "resume", history.manifest(strict)).exit_code
    assert 60 == history.value("SELECT count(*) FROM target.history")


def test_a_row_that_is_outdone_is_not_missed(history: History) -> None:
    history.sql(UNIQUE)
    history.sql(VERSIONED.format(3))
    text = mode_text("incremental_merge", key=KEY, version="version")
    strict = text.replace("    backfill:\n", "    backfill:\n      verify: strict\n")
    done = history.run("run", history.manifest(strict))
    assert 0 == done.exit_code, done.output
    assert 20 == history.value("SELECT count(*) FROM target.history WHERE note = 'old'")
