"""Ordinary mistakes at the real command line: one error with its place and the way out, the right exit code, nothing moved."""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.integration.campaigns import History, manifest_text, mapped_process
from tests.integration.fault_lane import KILL_LANE

PASSWORD = "correct-horse-battery"
Prepare = Callable[[History], str | None]


@dataclass(frozen=True)
class Mistake:
    """What is wrong with manifest, environment or database, and what has to be said of it.

    `reader` is a user who may read both tables, for `environ` to connect as; `sql` is run after it was made.
    """

    code: str
    says: tuple[str, ...]
    exit_code: int = 2
    reader: str = ""
    manifest: tuple[tuple[str, str], ...] = ()
    sql: str = ""
    environ: Callable[[History], dict[str, str]] = field(default=lambda history: {})


def as_user(uri: str, user: str, password: str = PASSWORD) -> str:
    """Give the URI of another user on the same database."""
    parts = urlsplit(uri)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{place}"))


MANIFEST_INVALID = "DPONE_MANIFEST_INVALID"

MISTAKES = {
    "a typo": Mistake(
        MANIFEST_INVALID,
        ("history.yaml:13:", "inner_mod", "did you mean", "inner_mode"),
        manifest=(("    backfill:\n", "    backfill:\n      inner_mod: replace\n"),),
    ),
    "a duplicate key": Mistake(
        MANIFEST_INVALID,
        ("history.yaml:18:", "step"),
        manifest=(("        step: 1d\n", "        step: 1d\n        step: 2d\n"),),
    ),
    "an unquoted date": Mistake(
        MANIFEST_INVALID,
        ("history.yaml:15:", "quote"),
        manifest=(('"2013-01-01"', "2013-01-01"),),
    ),
    "a window without chunks": Mistake(
        "DPONE_BACKFILL_PLAN_INVALID",
        ("the window holds no chunk", "chunk.from"),
        manifest=(('"2013-01-03"', '"2012-12-31"'),),
    ),
    "a missing connection": Mistake(
        "DPONE_CONNECTION_MISSING",
        ("'source_db'", "DPONE_CONN_SOURCE_DB", "AIRFLOW_CONN_SOURCE_DB"),
        environ=lambda history: {"DPONE_CONN_SOURCE_DB": ""},
    ),
    "a connection of another kind": Mistake(
        "DPONE_CONNECTION_INVALID",
        ("source_db", "mysql", "DPONE_CONN_SOURCE_DB"),
        environ=lambda history: {"DPONE_CONN_SOURCE_DB": f"mysql://loader:{PASSWORD}@localhost/history"},
    ),
    "a wrong password": Mistake(
        "DPONE_CONNECTION_FAILED",
        ("target_db", "password authentication failed", "DPONE_CONN_TARGET_DB"),
        exit_code=5,
        environ=lambda history: {"DPONE_CONN_TARGET_DB": as_user(history.uri, "postgres")},
    ),
    "a server that is not there": Mistake(
        "DPONE_CONNECTION_FAILED",
        ("source_db", "127.0.0.1:1", "Connection refused", "DPONE_CONN_SOURCE_DB"),
        exit_code=5,
        environ=lambda history: {
            "DPONE_CONN_SOURCE_DB": f"postgresql://loader:{PASSWORD}@127.0.0.1:1/history"
        },
    ),
    "a missing source table": Mistake(
        "DPONE_TABLE_MISSING",
        ("source.History", "source.history", "case matters"),
        manifest=(("schema: source, name: history", "schema: source, name: History"),),
    ),
    "a user who may not read": Mistake(
        "DPONE_DATABASE_FAILED",
        ("source.history", "GRANT SELECT"),
        exit_code=5,
        reader="blind",
        sql="REVOKE SELECT ON source.history FROM blind",
        environ=lambda history: {"DPONE_CONN_SOURCE_DB": as_user(history.uri, "blind")},
    ),
    "a user who may only read": Mistake(
        "DPONE_DATABASE_FAILED",
        ("target.history", "GRANT"),
        exit_code=5,
        reader="reader",
        environ=lambda history: {"DPONE_CONN_TARGET_DB": as_user(history.uri, "reader")},
    ),
    "a user who may not create the ledger": Mistake(
        "DPONE_LEDGER_MISSING",
        ("dpone_audit", "dpone state ddl MANIFEST", "SELECT, INSERT, UPDATE"),
        reader="writer",
        sql="GRANT INSERT, DELETE ON target.history TO writer",
        environ=lambda history: {"DPONE_CONN_TARGET_DB": as_user(history.uri, "writer")},
    ),
    "an unlogged target": Mistake(
        "DPONE_TABLE_UNSUITABLE",
        ("target.history", "unlogged", "SET LOGGED"),
        sql="ALTER TABLE target.history SET UNLOGGED",
    ),
    "a view as target": Mistake(
        "DPONE_TABLE_UNSUITABLE",
        ("target.history", "a view"),
        sql="DROP TABLE target.history; CREATE VIEW target.history AS SELECT * FROM source.history",
    ),
    "a column missing in the target": Mistake(
        "DPONE_COLUMNS_DIFFER",
        ("note (text) is missing in the target",),
        sql="ALTER TABLE target.history DROP COLUMN note",
    ),
    "a type that does not fit": Mistake(
        "DPONE_COLUMNS_DIFFER",
        ("amount is bigint in the source and integer in the target",),
        sql="ALTER TABLE target.history ALTER COLUMN amount TYPE integer",
    ),
    "a required column missing in the source": Mistake(
        "DPONE_COLUMNS_DIFFER",
        ("loaded_by (text NOT NULL) is missing in the source",),
        sql="ALTER TABLE target.history ADD COLUMN loaded_by text NOT NULL",
    ),
    "a chunk column that is not there": Mistake(
        "DPONE_COLUMNS_DIFFER",
        ("'Day'", "case matters"),
        manifest=(("column: day", "column: Day"),),
    ),
    "NULL in the chunk column": Mistake(
        "DPONE_BACKFILL_NULLS_FOUND",
        ("source.history", "day", "nulls: ignore"),
        sql="INSERT INTO source.history (day, id) VALUES (NULL, 1)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_and_nothing_is_moved(history: History, mistake: Mistake) -> None:
    if mistake.reader:
        history.add_reader(mistake.reader, PASSWORD)
    if mistake.sql:
        history.sql(mistake.sql)
    before = history.content("target.history")
    text = manifest_text(3)
    for right, wrong in mistake.manifest:
        assert 1 == text.count(right)
        text = text.replace(right, wrong)
    told = history.run("run", history.manifest(text), environ=mistake.environ(history))
    assert (mistake.exit_code, mistake.code) == (told.exit_code, told.error_code), told.output
    assert [] == [words for words in mistake.says if words not in told.stderr], told.stderr
    assert 1 == told.stderr.count("error DPONE_"), told.stderr
    assert [1, 1] == [told.stderr.count(line) for line in ("\n  at: ", "\n  next: ")], told.stderr
    assert "Traceback" not in told.output
    assert PASSWORD not in told.output + str(told.outcome)
    assert (urlsplit(history.uri).password or "?") not in told.output + str(told.outcome)
    assert before == history.content("target.history")
    assert not history.has_ledger_rows()


@pytest.mark.parametrize(
    "table, statement",
    [
        (
            "target",
            "ALTER TABLE target.history RENAME TO old; CREATE TABLE target.history (LIKE source.history)",
        ),
        (
            "source",
            "ALTER TABLE source.history RENAME TO old; CREATE TABLE source.history (LIKE source.old)",
        ),
    ],
)
def test_a_table_recreated_in_mid_campaign_stops_it(history: History, table: str, statement: str) -> None:
    history.run("run", history.manifest(), faults=[("copied", 2, KILL_LANE)])
    history.sql(statement)
    before, chunks = history.content("target.history"), history.chunks()
    told = history.run("run", history.manifest())
    assert (2, "DPONE_BACKFILL_CAMPAIGN_DRIFT") == (told.exit_code, told.error_code), told.output
    assert f"the {table} table {table}.history is not the one" in told.stderr
    assert "another backfill_id" in told.stderr
    assert "Traceback" not in told.output
    assert before == history.content("target.history")
    assert chunks == history.chunks()


VERBS = (
    ("run",),
    ("backfill", "run", "--execute"),
    ("backfill", "resume"),
    ("backfill", "resume", "--reason", "again"),
    ("backfill", "retry-failed", "--execute"),
    ("backfill", "restart", "--reason", "again", "--execute"),
)


@pytest.mark.parametrize("complete", [False, True])
def test_a_target_that_was_dropped_is_not_made_again_for_its_campaign(
    history: History, *, complete: bool
) -> None:
    history.run("run", history.manifest(), faults=[] if complete else [("copied", 2, KILL_LANE)])
    chunks = history.chunks()
    history.sql("DROP TABLE target.history")
    for verb, *options in VERBS:
        words = [verb, *options[:1]] if verb == "backfill" else [verb]
        told = history.run(*words, history.manifest(), *(options[1:] if verb == "backfill" else ()))
        assert 2 == told.exit_code, told.output
        assert "the target table target.history of campaign" in told.stderr
        assert "is gone" in told.stderr
        assert "DPONE_BACKFILL_CAMPAIGN_DRIFT" in told.stderr
        assert history.value("SELECT to_regclass('target.history')") is None
    assert chunks == history.chunks()


def test_a_pinned_campaign_whose_window_was_edited_stops(history: History) -> None:
    pinned = "    backfill:\n      backfill_id: history_2013\n"
    text = manifest_text(3).replace("    backfill:\n", pinned)
    history.run("run", history.manifest(text), faults=[("copied", 2, KILL_LANE)])
    chunks = history.chunks()
    told = history.run("run", history.manifest(text.replace("2013-01-03", "2013-01-04")))
    assert (2, "DPONE_BACKFILL_CAMPAIGN_DRIFT") == (told.exit_code, told.error_code), told.output
    assert "the plan of campaign history_2013 has changed" in told.stderr
    assert chunks == history.chunks()


def test_a_reviewed_plan_that_moved_is_refused_before_anything_is_opened(history: History) -> None:
    told = history.run("run", history.manifest(), "--plan-hash", "sha256:" + "0" * 64)
    assert (2, "DPONE_BACKFILL_PLAN_MOVED") == (told.exit_code, told.error_code), told.output
    assert not history.has_ledger_rows()


def test_a_mapped_process_without_its_item_is_refused(history: History) -> None:
    run = history.start_item(mapped_process(3), environ={"DPONE_AIRFLOW_MAPPING_ITEM": ""})
    told = run.finish()
    assert (2, "DPONE_AIRFLOW_MAPPING_ITEM_INVALID") == (told.exit_code, told.error_code), told.output
    assert not history.has_ledger_rows()


def test_the_way_out_of_a_missing_ledger_leads_out(history: History) -> None:
    """An administrator runs the printed DDL and grants what the message names; the loader needs no more than that."""
    history.add_reader("writer", PASSWORD)
    history.sql("GRANT INSERT, DELETE ON target.history TO writer")
    ddl = history.run("state", "ddl", history.manifest())
    assert 0 == ddl.exit_code, ddl.output
    history.sql(ddl.stdout)
    history.sql("GRANT USAGE ON SCHEMA dpone_audit TO writer")
    history.sql("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA dpone_audit TO writer")
    writer = as_user(history.uri, "writer")
    environ = {"DPONE_CONN_SOURCE_DB": writer, "DPONE_CONN_TARGET_DB": writer}
    done = history.run("run", history.manifest(), environ=environ)
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)
