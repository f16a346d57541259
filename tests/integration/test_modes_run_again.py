"""Every inner mode, run again and run twice at once: its rows are there exactly once."""

import pytest

from tests.integration.campaigns import History
from tests.integration.child_runs import Finished
from tests.integration.fault_lane import HOLD
from tests.integration.inner_modes import FULL_REFRESH, SCENARIOS, Scenario

every_mode = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


def run(history: History, scenario: Scenario) -> Finished:
    return history.run("run", history.manifest(scenario.text()))


def require_loaded(history: History, scenario: Scenario) -> None:
    history.require_loaded(scenario.chunks)
    if scenario is FULL_REFRESH:
        assert 20 == history.value("SELECT count(*) FROM target.history"), "the other days have to be gone"


def table(history: History) -> object:
    """Every row with the transaction that wrote it."""
    return history.sql("SELECT ctid::text, xmin::text FROM target.history ORDER BY 1")


@every_mode
def test_a_complete_campaign_run_again_moves_no_row(history: History, scenario: Scenario) -> None:
    scenario.prepare(history)
    done = run(history, scenario)
    assert 0 == done.exit_code, done.output
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    rows = 20 * scenario.chunks
    assert (rows, rows) == (done.outcome.backfill.rows_extracted, done.outcome.backfill.rows_loaded)
    require_loaded(history, scenario)
    loaded = table(history)
    again = run(history, scenario)
    assert 0 == again.exit_code, again.output
    assert "nothing to do" in again.stderr
    assert loaded == table(history)


@every_mode
def test_two_runs_at_once_load_every_chunk_once(history: History, scenario: Scenario) -> None:
    scenario.prepare(history)
    path, victim = history.manifest(scenario.text()), scenario.victim
    first = history.start("run", path, faults=[("copied", victim, HOLD)])
    first.wait_for("copied", victim)
    refused = history.run("run", path)
    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (refused.exit_code, refused.error_code), refused.output
    first.release()
    done = first.finish()
    assert 0 == done.exit_code, done.output
    assert ["claimed", "committed"] == history.events(victim)
    require_loaded(history, scenario)
