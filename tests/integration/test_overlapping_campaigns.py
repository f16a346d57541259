"""Two campaigns over one slice of one target: the second is refused by name, unless the first can never write again."""

import os
import signal

import pytest

from dpone_contract.process import plan_campaign
from tests.integration.campaigns import History, day, manifest_text, mapped_process
from tests.integration.child_runs import Finished
from tests.integration.fault_lane import FREEZE, KILL_LANE

# Of the first campaign, which covers chunks 1 to 3.
OVERLAPPING = {"first": day(3).isoformat(), "last": day(5).isoformat()}
ADJACENT = {"first": day(4).isoformat(), "last": day(5).isoformat()}


@pytest.fixture
def first(history: History) -> str:
    """The run key of a campaign over the first three days that has failed at its second."""
    failed = history.run("run", history.manifest(), faults=[("copied", 2, KILL_LANE)])
    assert 5 == failed.exit_code, failed.output
    return run_key(history)


def run_key(history: History) -> str:
    return plan_campaign(mapped_process(3)).plan.run_key


def status(history: History, key: str) -> object:
    return history.value("SELECT status FROM dpone_audit.__dpone__backfill_campaigns WHERE run_key = %s", key)


def second(history: History, *, audit_schema: str = "dpone_audit", window: dict[str, str]) -> Finished:
    text = manifest_text(audit_schema=audit_schema, **window)
    return history.run("run", history.manifest(text, file="second.yaml"))


def require_refused(refused: Finished, first: str) -> None:
    assert (2, "DPONE_BACKFILL_OVERLAP") == (refused.exit_code, refused.error_code), refused.output
    assert first in refused.stderr
    assert "Traceback" not in refused.output


@pytest.mark.parametrize("audit_schema", ["dpone_audit", "another_audit"])
def test_an_overlapping_window_is_refused_by_name(history: History, first: str, audit_schema: str) -> None:
    before = history.content("target.history"), history.chunks()
    require_refused(second(history, audit_schema=audit_schema, window=OVERLAPPING), first)
    assert before == (history.content("target.history"), history.chunks())


def test_an_adjacent_window_is_loaded(history: History, first: str) -> None:
    done = second(history, window=ADJACENT)
    assert 0 == done.exit_code, done.output
    assert 40 == history.value(
        "SELECT count(*) FROM target.history WHERE day BETWEEN %s AND %s", day(4), day(5)
    )
    assert "open" == status(history, first)


def test_a_complete_campaign_is_in_nobodys_way(history: History, first: str) -> None:
    assert 0 == history.run("run", history.manifest()).exit_code
    done = second(history, window=OVERLAPPING)
    assert 0 == done.exit_code, done.output


def test_a_cancelled_campaign_without_live_leases_is_closed_by_the_opener(
    history: History, first: str
) -> None:
    cancelled = history.run("backfill", "cancel", history.manifest(), "--reason", "wrong window")
    assert 0 == cancelled.exit_code, cancelled.output
    done = second(history, window=OVERLAPPING)
    assert 0 == done.exit_code, done.output
    assert "closed" == status(history, first)
    assert history.content("source.history", f"day BETWEEN '{day(3)}' AND '{day(5)}'") == history.content(
        "target.history", f"day BETWEEN '{day(3)}' AND '{day(5)}'"
    )
    refused = history.run("run", history.manifest())
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (refused.exit_code, refused.error_code)


def test_a_cancelled_campaign_at_work_is_closed_only_once_its_lease_has_lapsed(history: History) -> None:
    frozen = history.start_item(mapped_process(3), faults=[("before commit", 3, FREEZE)])
    lane = frozen.wait_for("before commit", 3)
    cancelled = history.run("backfill", "cancel", history.manifest(), "--reason", "wrong window")
    assert 0 == cancelled.exit_code, cancelled.output
    require_refused(second(history, window=OVERLAPPING), run_key(history))
    assert "cancel_requested" == status(history, run_key(history))

    history.lapse_leases()
    done = second(history, window=OVERLAPPING)
    assert 0 == done.exit_code, done.output
    assert "closed" == status(history, run_key(history))
    versions = history.versions(3)
    os.kill(lane, signal.SIGCONT)
    lost = frozen.finish()
    # The late lane's session is gone, and its campaign closed: the slice is the second campaign's, and a retry cannot help.
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (lost.exit_code, lost.error_code), lost.output
    assert versions == history.versions(3)
    assert 20 == len(versions)
