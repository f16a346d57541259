"""After a publication: what readers find, and the way back with the statements that the manual shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.integration.campaigns import History, manifest_text
from tests.integration.publications import receipt, relation, swapped, tables

MANUAL = Path(__file__).parents[2] / "docs" / "publication.md"
EARLIER = "    backfill:\n      backfill_id: earlier\n"


@contextmanager
def reader_of_a_snapshot(history: History) -> Iterator[psycopg.Connection]:
    """Begin a transaction that sees what is committed now, whatever comes after; it has not read the target."""
    with psycopg.connect(history.uri) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT FROM source.history LIMIT 1")
        yield connection


def statements(history: History) -> str:
    """Give the manual's statements, with the names of this test's tables in place of its own."""
    (block,) = re.findall(
        r"^```sql\n(BEGIN;.*?)^```$", MANUAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    shown = re.search(r"analytics\.(orders__dpone_backup_\w{12}) ", block)
    assert shown is not None
    _, _, backup = str(receipt(history)["backup"]).partition(".")
    text = block.replace(shown[1], backup).replace("analytics.", "target.")
    return re.sub(r"\borders(?=\b|_rejected)", "history", text)


def test_what_was_live_is_live_again_and_the_ledger_knows_each_table(history: History) -> None:
    earlier = history.manifest(manifest_text(2).replace("    backfill:\n", EARLIER), file="earlier.yaml")
    assert 0 == history.run("run", earlier).exit_code
    before, old = relation(history), history.content("target.history")
    manifest = history.manifest(swapped(3, mode="partition_replace"))
    assert 0 == history.run("run", manifest).exit_code
    exchanged = history.run("run", earlier)
    assert (2, "DPONE_BACKFILL_CAMPAIGN_DRIFT") == (exchanged.exit_code, exchanged.error_code)

    history.sql(statements(history))

    assert (before, old) == (relation(history), history.content("target.history"))
    assert ["history", "history_rejected"] == tables(history)
    for verb in (("run", manifest), ("backfill", "restart", manifest, "--reason", "again", "--execute")):
        refused = history.run(*verb)
        assert (2, "DPONE_BACKFILL_CAMPAIGN_DRIFT") == (refused.exit_code, refused.error_code), refused.output
    again = history.run("run", earlier)
    assert (0, True) == (again.exit_code, "no row moved" in again.stdout), again.output
    another = swapped(3, mode="partition_replace").replace(
        "    backfill:\n", EARLIER.replace("earlier", "v2")
    )
    assert 0 == history.run("run", history.manifest(another, file="another.yaml")).exit_code


def test_the_receipts_name_every_backup(history: History) -> None:
    manifest = history.manifest(swapped(mode="partition_replace"))
    assert 0 == history.run("run", manifest).exit_code
    again = history.run("backfill", "restart", manifest, "--reason", "again", "--execute")
    assert 0 == again.exit_code, again.output
    (query,) = re.findall(
        r"^  ```sql\n(.*?)^  ```$", MANUAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    found = history.sql(query)
    assert [f"target.{name}" for name in tables(history)[1:]] == sorted(str(row[2]) for row in found)
    assert ["60", "60"] == [row[3] for row in found]


def test_a_snapshot_of_before_finds_the_new_table_without_the_rows_that_are_younger(history: History) -> None:
    history.add_stale_rows()
    # The third day does not fit at first: two of three are committed when the second reader begins.
    history.sql("ALTER TABLE target.history ADD CONSTRAINT kept CHECK (id < 45)")
    manifest = history.manifest(swapped())
    with reader_of_a_snapshot(history) as first:
        assert 1 == history.run("run", manifest).exit_code
        with reader_of_a_snapshot(history) as second:
            history.sql("DELETE FROM source.history WHERE id >= 45")
            done = history.run("run", manifest)
            assert 0 == done.exit_code, done.output
            counted = "SELECT count(*) FROM target.history"
            seen = [first.execute(counted).fetchone(), second.execute(counted).fetchone()]
    assert [(0,), (40,), 45] == [*seen, history.value(counted)]


def test_what_goes_by_the_name_goes_with_it(history: History) -> None:
    history.add_stale_rows()
    history.sql(
        "CREATE FUNCTION target.counted() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM target.history'"
    )
    history.sql("PREPARE counted AS SELECT target.counted(), count(*) FROM target.history")
    assert [(30, 30)] == history.sql("EXECUTE counted")
    done = history.run("run", history.manifest(swapped(10)))
    assert 0 == done.exit_code, done.output
    assert [(200, 200)] == history.sql("EXECUTE counted")
