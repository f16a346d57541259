"""A run whose process is stopped keeps its sessions and can do no harm: others go on once its leases have lapsed."""

import signal
from datetime import timedelta

import psycopg
import pytest

from dpone_runtime.adapters.postgres import session
from dpone_runtime.domain.lease import LEASE_TTL, RENEW_EVERY
from tests.integration.campaigns import History, mapped_process
from tests.integration.child_runs import Run
from tests.integration.fault_lane import BEFORE_LOAD, HOLD
from tests.integration.run_with_faults import FENCE_VARIABLE
from tests.waiting import wait_until

SILENT = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpone fence' AND state = 'idle'"
    " AND state_change < clock_timestamp() - interval '1 second'"
)
A_SECOND = {FENCE_VARIABLE: "1"}


def stopped(history: History) -> Run:
    """A run that is stopped with a chunk at work, its fence silent for a second."""
    run = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    run.signal(signal.SIGSTOP)
    wait_until(lambda: history.value(SILENT) == 1, 30, "a second without a word")
    return run


def test_a_run_that_is_stopped_loses_its_fence_and_wakes_up_to_it(history: History) -> None:
    history.add_stale_rows()
    first = stopped(history)
    history.lapse_leases()
    done = history.run("run", history.manifest(), faults=[], environ=A_SECOND)
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
    loaded = [history.versions(index) for index in (1, 2, 3)]

    first.signal(signal.SIGCONT)
    first.release()
    late = first.finish()
    assert (5, "DPONE_BACKFILL_CHUNK_LEASE_LOST") == (late.exit_code, late.error_code), late.output
    first.wait_until_nothing_is_left()
    assert loaded == [history.versions(index) for index in (1, 2, 3)]
    assert ["opened", "completed"] == history.events(None)
    history.require_loaded(3)


def test_a_stopped_run_keeps_its_fence_while_a_lease_is_live(history: History) -> None:
    first = stopped(history)
    refused = history.run("run", history.manifest(), faults=[], environ=A_SECOND)
    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (refused.exit_code, refused.error_code), refused.output
    first.signal(signal.SIGCONT)
    first.release()
    assert 0 == first.finish().exit_code
    history.require_loaded(3)


def test_a_run_that_has_been_silent_for_less_keeps_its_fence(history: History) -> None:
    first = stopped(history)
    history.lapse_leases()
    refused = history.run("run", history.manifest())
    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (refused.exit_code, refused.error_code), refused.output
    first.kill()


def test_a_session_of_somebody_else_is_not_ended(history: History, database: str) -> None:
    """What holds the lock by hand, to keep runs away, keeps it."""
    first = history.run("run", history.manifest())
    assert 0 == first.exit_code, first.output
    run_key = str(history.value("SELECT run_key FROM dpone_audit.__dpone__backfill_campaigns"))
    lock = session.lock_key("fence", "dpone_audit", run_key)
    with psycopg.connect(database, autocommit=True, application_name="psql") as other:
        other.execute("SELECT pg_advisory_lock(%s)", (lock,))
        environ = {FENCE_VARIABLE: "0"}
        refused = history.run("run", history.manifest(), faults=[], environ=environ)
        assert "DPONE_BACKFILL_CAMPAIGN_BUSY" == refused.error_code, refused.output
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_a_stopped_item_is_overtaken_once_its_lease_has_lapsed(history: History) -> None:
    process = mapped_process(3)
    first = history.start_item(process, faults=[("copied", 2, HOLD)])
    first.wait_for("copied", 2)
    first.signal(signal.SIGSTOP)
    second = history.start_item(process)
    second.wait_for_words("chunk 2 is held by another run")
    history.lapse_leases()
    done = second.finish()
    assert 0 == done.exit_code, done.output
    first.signal(signal.SIGCONT)
    first.release()
    assert 5 == first.finish().exit_code
    history.require_loaded(3)


@pytest.mark.parametrize("silence", [session.FENCE_SILENCE])
def test_the_bound_leaves_a_living_run_three_looks(silence: timedelta) -> None:
    assert silence == LEASE_TTL >= 3 * RENEW_EVERY
