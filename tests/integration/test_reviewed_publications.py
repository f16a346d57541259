"""What a live table would lose by a swap without being told, and runs whose settings are not those of the run before."""

from __future__ import annotations

from tests.integration.campaigns import History
from tests.integration.child_runs import Finished
from tests.integration.publications import leave_unpublished, relation, shadow, status, swapped

REFUSED = "DPONE_BACKFILL_PUBLICATION_REFUSED"


def unpublished(history: History) -> str:
    """A campaign that is loaded and not published; its manifest."""
    leave_unpublished(history)
    return history.manifest(swapped())


def require_refused(history: History, done: Finished, told: str, before: str) -> None:
    """Require a run to have been refused for what is told, and the live table to be the one of before."""
    assert (2, REFUSED) == (done.exit_code, done.error_code), done.output
    assert told in done.stderr
    assert before == relation(history)


def test_a_shadow_that_a_crash_would_empty_is_not_published(history: History) -> None:
    before, manifest = relation(history), unpublished(history)
    history.sql(f"ALTER TABLE {shadow(history)} SET UNLOGGED")

    told = history.run("run", manifest)

    require_refused(history, told, "table heap unlogged replica identity d is the shadow's alone", before)
    history.sql(f"ALTER TABLE {shadow(history)} SET LOGGED")
    assert 0 == history.run("run", manifest).exit_code
    assert "p" == history.value("SELECT relpersistence FROM pg_class WHERE oid = 'target.history'::regclass")
    assert "published" == status(history)


OTHER_SETTINGS = "-c search_path=target,public -c timezone=America/New_York -c datestyle=German -c intervalstyle=iso_8601"


def test_a_run_whose_session_words_expressions_otherwise_goes_on(history: History) -> None:
    history.sql(
        "CREATE FUNCTION target.one(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 1';"
        "CREATE DOMAIN target.kind AS text;"
        "ALTER TABLE target.history ADD COLUMN at timestamptz DEFAULT '2020-01-01 00:00:00+00',"
        " ADD COLUMN during interval DEFAULT '1 day 2 hours', ADD COLUMN kind target.kind,"
        " ADD COLUMN one integer DEFAULT target.one(1);"
        "CREATE INDEX history_late ON target.history (target.one(id)) WHERE at > '2020-01-01 00:00:00+00'"
    )
    before, manifest = relation(history), unpublished(history)

    done = history.run("run", manifest, environ={"PGOPTIONS": OTHER_SETTINGS})

    assert 0 == done.exit_code, done.output
    assert "published" == status(history)
    assert before != relation(history)
