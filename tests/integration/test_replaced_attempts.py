"""An attempt whose lease lapsed and whose chunk another took commits nothing, and cannot stand in its successor's way.

Items of a mapped process are what runs here: no session lock keeps a second run of one item away from the first.
"""

import os
import signal

import pytest

from tests.integration.campaigns import History, day, mapped_process
from tests.integration.child_runs import Run
from tests.integration.fault_lane import BEFORE_LOAD, FREEZE
from tests.integration.run_with_faults import SILENCE_VARIABLE

CHUNKS = 3
VICTIM = 2

# Before the guard the successor is what stops the first attempt; after it the first one's session is ended.
STEPS = (BEFORE_LOAD, "guarded", "copying", "before commit")


def change_source(history: History) -> None:
    """Tell the second attempt's rows from the first's."""
    history.sql("UPDATE source.history SET note = 'second' WHERE day = %s", day(VICTIM))


def frozen(history: History, step: str) -> tuple[Run, int]:
    """A run of the only item whose lane is frozen at a step of the second chunk, its lease lapsed."""
    run = history.start_item(mapped_process(CHUNKS), faults=[(step, VICTIM, FREEZE)])
    lane = run.wait_for(step, VICTIM)
    history.lapse_leases()
    return run, lane


@pytest.mark.parametrize("step", STEPS)
def test_a_frozen_lane_commits_nothing_once_it_was_replaced(history: History, step: str) -> None:
    history.add_stale_rows()
    first, lane = frozen(history, step)
    change_source(history)

    second = history.start_item(mapped_process(CHUNKS)).finish()
    assert 0 == second.exit_code, second.output
    assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
    versions = history.versions(VICTIM)

    os.kill(lane, signal.SIGCONT)
    lost = first.finish()
    assert (5, "DPONE_BACKFILL_CHUNK_LEASE_LOST") == (lost.exit_code, lost.error_code), lost.output
    assert "Traceback" not in lost.output
    assert "psycopg" not in lost.output
    assert "another attempt owns the chunk now" in lost.stderr
    assert "before or while processing" not in lost.stderr
    assert ["claimed", "claimed", "committed"] == history.events(VICTIM)
    assert versions == history.versions(VICTIM)
    assert 20 == history.value("SELECT count(*) FROM target.history WHERE note = 'second'")
    history.require_loaded(CHUNKS)


@pytest.mark.parametrize("step", ["deleted", "copying"])
def test_a_frozen_lane_and_coordinator_do_not_stop_their_successor(history: History, step: str) -> None:
    history.add_stale_rows()
    first, lane = frozen(history, step)
    first.signal(signal.SIGSTOP)
    locks = "SELECT count(*) FROM pg_locks WHERE granted AND locktype = 'transactionid' AND pid <> pg_backend_pid()"
    assert 1 == history.value(locks), "the frozen lane holds no row"
    change_source(history)
    second = history.start_item(mapped_process(CHUNKS)).finish()
    assert 0 == second.exit_code, second.output
    versions = history.versions(VICTIM)

    first.signal(signal.SIGCONT)
    os.kill(lane, signal.SIGCONT)
    lost = first.finish()
    assert (5, "DPONE_BACKFILL_CHUNK_LEASE_LOST") == (lost.exit_code, lost.error_code), lost.output
    assert versions == history.versions(VICTIM)
    history.require_loaded(CHUNKS)


def test_a_silent_lane_is_ended_by_its_coordinator_and_its_chunk_is_free(history: History) -> None:
    history.add_stale_rows()
    before = history.versions(VICTIM)
    run = history.start(
        "run",
        history.manifest(),
        faults=[("copied", VICTIM, FREEZE)],
        environ={SILENCE_VARIABLE: "7"},  # above the five seconds between two heartbeats
    )
    failed = run.finish()
    assert (5, "DPONE_BACKFILL_LANE_LOST") == (failed.exit_code, failed.error_code), failed.output
    assert "silent" in failed.stderr
    run.wait_until_nothing_is_left()
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()
    assert before == history.versions(VICTIM)
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(CHUNKS)


def test_a_frozen_internal_run_is_replaceable_once_it_is_killed(history: History) -> None:
    """The session lock of a frozen coordinator is still held: a second run is refused at once, and nothing is lost."""
    history.add_stale_rows()
    run = history.start("run", history.manifest(), faults=[("deleted", VICTIM, FREEZE)])
    run.wait_for("deleted", VICTIM)
    run.signal(signal.SIGSTOP)
    refused = history.run("run", history.manifest())
    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (refused.exit_code, refused.error_code), refused.output

    run.signal(signal.SIGKILL)
    run.wait_until_nothing_is_left()
    history.lapse_leases()
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(CHUNKS)
