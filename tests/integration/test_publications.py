"""Publication by shadow swap on a real server: what is exchanged, what comes with it, what it leaves."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import History
from tests.integration.publications import LIVE, receipt, relation, status, swapped, tables


@pytest.mark.parametrize("mode", ["incremental_append", "partition_replace"])
def test_what_was_loaded_is_live_at_once_and_what_was_live_is_kept(history: History, mode: str) -> None:
    history.sql(LIVE)
    history.add_stale_rows()
    before, old = relation(history), history.content("target.history")

    done = history.run("run", history.manifest(swapped(10, mode=mode)))

    assert 0 == done.exit_code, done.output
    assert history.content("source.history") == history.content("target.history")
    backup, live = tables(history)[1], tables(history)[0]
    assert ("history", 2) == (live, len(tables(history)))
    assert old == history.content(f'target."{backup}"')
    assert before == relation(history, f'target."{backup}"')
    found = receipt(history)
    assert (before, relation(history), 200) == (
        found["replaced_relation"],
        found["live_relation"],
        found["rows"],
    )
    assert f"target.{backup}" == found["backup"]
    assert "published" == status(history)
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert "published" == done.outcome.backfill.campaign_status
    print(done.stderr, done.stdout)
