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
