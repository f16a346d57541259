"""Killed at any step of a chunk, by SIGKILL: the chunk is in the target whole and once, or not at all and loaded next time."""

import signal

import pytest

from tests.integration.campaigns import STALE_ROWS_A_DAY, History
from tests.integration.fault_lane import BEFORE_LOAD, KILL_BOTH, KILL_COORDINATOR, KILL_LANE

CHUNKS = 3
VICTIM = 2
BEFORE_COMMIT = ("guarded", "deleted", "copying", "copied", "before commit")


def test_a_lane_killed_after_its_commit_has_loaded_its_chunk(history: History) -> None:
    history.add_stale_rows()
    done = history.run("run", history.manifest(), faults=[("committed", VICTIM, KILL_LANE)])
    assert (0, "passed") == (done.exit_code, done.outcome and done.outcome.status.value), done.output
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
    assert ["claimed", "committed"] == history.events(VICTIM)
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    # What the dead lane could not tell was read from the chunk's row.
    assert (3, 60, 60) == (
        done.outcome.backfill.chunks_committed,
        done.outcome.backfill.rows_extracted,
        done.outcome.backfill.rows_loaded,
    )
    history.require_loaded(CHUNKS)


@pytest.mark.parametrize("what", [KILL_COORDINATOR, KILL_BOTH])
def test_a_coordinator_killed_after_a_commit_leaves_a_loaded_chunk(history: History, what: str) -> None:
    history.add_stale_rows()
    killed = history.start("run", history.manifest(), faults=[("committed", VICTIM, what)])
    assert -signal.SIGKILL == killed.finish().exit_code
    killed.wait_until_nothing_is_left()
    assert {1: ("committed", 1), 2: ("committed", 1)} == history.chunks()
    versions = history.versions(VICTIM)

    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert (2, 1) == (done.outcome.backfill.chunks_skipped_resume, done.outcome.backfill.chunks_committed)
    assert ["claimed", "committed"] == history.events(VICTIM)
    assert versions == history.versions(VICTIM)
    history.require_loaded(CHUNKS)


@pytest.mark.parametrize("step", [BEFORE_LOAD, *BEFORE_COMMIT])
def test_a_lane_killed_before_its_commit_has_loaded_nothing(history: History, step: str) -> None:
    history.add_stale_rows()
    before = history.versions(VICTIM)
    failed = history.run("run", history.manifest(), faults=[(step, VICTIM, KILL_LANE)])
    assert (5, "DPONE_BACKFILL_LANE_LOST") == (failed.exit_code, failed.error_code), failed.output
    assert "Traceback" not in failed.output
    assert before == history.versions(VICTIM)
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()

    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
    assert ["claimed", "failed", "claimed", "committed"] == history.events(VICTIM)
    history.require_loaded(CHUNKS)


@pytest.mark.parametrize("what", [KILL_COORDINATOR, KILL_BOTH])
@pytest.mark.parametrize("step", BEFORE_COMMIT)
def test_a_coordinator_killed_before_a_commit_has_loaded_nothing(
    history: History, step: str, what: str
) -> None:
    history.add_stale_rows()
    before = history.versions(VICTIM)
    assert STALE_ROWS_A_DAY == len(before)
    killed = history.start("run", history.manifest(), faults=[(step, VICTIM, what)])
    assert -signal.SIGKILL == killed.finish().exit_code
    killed.wait_until_nothing_is_left()
    assert before == history.versions(VICTIM)
    assert {1: ("committed", 1), 2: ("running", 1)} == history.chunks()
    # Whoever comes next has to wait for ninety seconds at the most, whatever was killed.
    assert 0 < history.lease_seconds() <= 90
    history.lapse_leases()

    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
    assert ["claimed", "claimed", "committed"] == history.events(VICTIM)
    history.require_loaded(CHUNKS)


def test_a_live_lease_is_waited_for_and_the_others_are_loaded_meanwhile(history: History) -> None:
    killed = history.start("run", history.manifest(), faults=[("before commit", 1, KILL_BOTH)])
    assert -signal.SIGKILL == killed.finish().exit_code
    resumed = history.start("run", history.manifest())
    resumed.wait_for_words("chunk 1 is held by another run")
    history.lapse_leases()
    done = resumed.finish()
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 2), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
    history.require_loaded(CHUNKS)
