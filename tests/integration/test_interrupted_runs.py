"""Ctrl-C and SIGTERM: no new claims, a bounded grace, what was not started stays free, and nothing is left running."""

import signal
from collections.abc import Callable

import pytest

from tests.integration.campaigns import History, mapped_process
from tests.integration.child_runs import Finished, Run
from tests.integration.fault_lane import BEFORE_LOAD, HOLD
from tests.integration.run_with_faults import GRACE_VARIABLE
from tests.waiting import wait_until

Send = Callable[[Run], None]


def by_terminal(run: Run) -> None:
    run.signal_group(signal.SIGINT)


def by_airflow(run: Run) -> None:
    run.signal(signal.SIGTERM)


def require_interrupted(done: Finished, *, committed: int) -> None:
    assert 5 == done.exit_code, done.output
    assert done.outcome is not None
    assert ("failed", 5, "DPONE_INTERRUPTED") == (
        done.outcome.status.value,
        done.outcome.exit_code,
        done.error_code,
    )
    assert done.outcome.backfill is not None
    assert ("interrupted", committed) == (
        done.outcome.backfill.operation_status,
        done.outcome.backfill.chunks_committed,
    )
    assert "error DPONE_INTERRUPTED" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("send", [by_terminal, by_airflow])
def test_a_chunk_at_work_may_finish_and_no_other_begins(history: History, send: Send) -> None:
    run = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    send(run)
    run.wait_for_words("1 chunks may finish")
    run.release()
    require_interrupted(run.finish(), committed=2)
    run.wait_until_nothing_is_left()
    assert {1: ("committed", 1), 2: ("committed", 1)} == history.chunks()

    done = history.run("backfill", "resume", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


@pytest.mark.parametrize("send", [by_terminal, by_airflow])
def test_a_chunk_that_outlasts_the_grace_is_released(history: History, send: Send) -> None:
    history.add_stale_rows()
    before = history.versions(2)
    run = history.start(
        "run", history.manifest(), faults=[("copied", 2, HOLD)], environ={GRACE_VARIABLE: "0.5"}
    )
    run.wait_for("copied", 2)
    send(run)
    require_interrupted(run.finish(), committed=1)
    run.wait_until_nothing_is_left()
    assert {1: ("committed", 1), 2: ("pending", 1)} == history.chunks()
    assert ["claimed", "released"] == history.events(2)
    assert before == history.versions(2)

    # Nobody has to wait for a lease: the chunk is free.
    done = history.run("backfill", "resume", history.manifest())
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
    history.require_loaded(3)


def test_a_second_signal_ends_at_once(history: History) -> None:
    run = history.start("run", history.manifest(), faults=[("before commit", 2, HOLD)])
    run.wait_for("before commit", 2)
    by_terminal(run)
    run.wait_for_words("1 chunks may finish")
    by_terminal(run)
    done = run.finish(10)
    assert 5 == done.exit_code
    assert "stopped at once" in done.stderr
    run.wait_until_nothing_is_left()
    assert {1: ("committed", 1), 2: ("running", 1)} == history.chunks()
    assert [] == history.versions(2)

    history.lapse_leases()
    done = history.run("backfill", "resume", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


def test_a_signal_before_any_chunk_ends_the_run_and_says_so(history: History) -> None:
    history.sql("BEGIN")
    history.sql("LOCK TABLE source.history IN ACCESS EXCLUSIVE MODE")
    run = history.start("run", history.manifest())
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    wait_until(lambda: history.value(waiting) == 1, 30, "the run's wait for the source")
    by_airflow(run)
    done = run.finish(20)
    history.sql("ROLLBACK")
    assert (5, "DPONE_INTERRUPTED") == (done.exit_code, done.error_code), done.output
    assert "before any chunk was at work" in done.stderr
    assert "Traceback" not in done.output
    run.wait_until_nothing_is_left()
    assert not history.has_ledger_rows()


def test_an_interrupted_item_tells_the_operator_what_it_was(history: History) -> None:
    run = history.start_item(mapped_process(3), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    by_airflow(run)
    run.wait_for_words("1 chunks may finish")
    run.release()
    done = run.finish()
    require_interrupted(done, committed=2)
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert done.outcome.backfill.mapping is not None
    assert (0, "failed") == (
        done.outcome.backfill.mapping.item_index,
        done.outcome.backfill.mapping.item_status,
    )
    assert {1: ("committed", 1), 2: ("committed", 1)} == history.chunks()


def test_a_cancelled_campaign_finishes_its_chunk_and_begins_no_other(history: History) -> None:
    run = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    cancelled = history.run("backfill", "cancel", history.manifest(), "--reason", "too early")
    assert 0 == cancelled.exit_code, cancelled.output
    run.release()
    stopped = run.finish()
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (stopped.exit_code, stopped.error_code), stopped.output
    assert {1: ("committed", 1), 2: ("committed", 1)} == history.chunks()

    refused = history.run("backfill", "resume", history.manifest())
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (refused.exit_code, refused.error_code), refused.output
    assert "too early" in refused.stderr
    done = history.run("backfill", "resume", history.manifest(), "--reason", "now")
    assert 0 == done.exit_code, done.output
    assert ["opened", "cancel_requested", "resumed", "completed"] == history.events(None)
    history.require_loaded(3)
