"""A campaign whose ledger is in a folder, killed or interrupted at any moment: its rows are there once in the end."""

import json
import signal

import psycopg
import pytest

from dpone_runtime.adapters.postgres.completion import local_data_key
from tests.integration.campaigns import manifest_text
from tests.integration.child_runs import Finished
from tests.integration.fault_lane import BEFORE_LOAD, HOLD, KILL_BOTH, KILL_COORDINATOR, KILL_LANE
from tests.integration.file_history import FileHistory
from tests.integration.inner_modes import FULL_REFRESH, MERGE, REPLACE, Scenario
from tests.integration.run_with_faults import GRACE_VARIABLE

CHUNKS, VICTIM = 3, 2
SCENARIOS = {scenario.mode: scenario for scenario in (REPLACE, MERGE, FULL_REFRESH)}
every_mode = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


def run(history: FileHistory, scenario: Scenario = REPLACE) -> Finished:
    return history.run("run", history.manifest(scenario.text()))


def require_loaded(history: FileHistory, scenario: Scenario) -> None:
    history.require_loaded(scenario.chunks)
    if scenario is FULL_REFRESH:
        assert 20 == history.value("SELECT count(*) FROM target.history"), "the other days have to be gone"


# What is killed.

KILLED = [
    pytest.param(scenario, step, what, id=f"{scenario.mode}, {step}, {what}")
    for scenario in SCENARIOS.values()
    for step in ("guarded", "copied", "committed")
    for what in (KILL_LANE, KILL_COORDINATOR, KILL_BOTH)
    # What a mode leaves depends on the end of its transaction alone; who else ends is told by replacing a slice.
    if scenario is REPLACE or (step != "guarded" and what != KILL_BOTH)
]


@pytest.mark.parametrize("scenario, step, what", KILLED)
def test_killed_at_any_step_its_rows_are_there_once_in_the_end(
    file_history: FileHistory, scenario: Scenario, step: str, what: str
) -> None:
    """After the commit the file does not know of it: the chunk is loaded again, and at once."""
    scenario.prepare(file_history)
    victim, before = scenario.victim, file_history.versions(scenario.victim)
    killed = file_history.start("run", file_history.manifest(scenario.text()), faults=[(step, victim, what)])
    assert (5 if what == KILL_LANE else -signal.SIGKILL) == killed.finish().exit_code
    killed.wait_until_nothing_is_left()
    status = "failed" if what == KILL_LANE else "running"
    assert (status, 1) == file_history.chunks()[victim]
    assert (before == file_history.versions(victim)) is (step != "committed")

    done = run(file_history, scenario)
    assert 0 == done.exit_code, done.output
    assert "held by another run" not in done.stderr
    assert ("committed", 2) == file_history.chunks()[victim]
    assert ["claimed", *(["failed"] if what == KILL_LANE else []), "claimed", "committed"] == (
        file_history.events(victim)
    )
    require_loaded(file_history, scenario)


def test_what_a_dead_run_left_at_work_is_ended_by_the_next_one(file_history: FileHistory) -> None:
    """A session that nobody answers for any more, as after a partition of the network: it can commit nothing later."""
    assert 0 == run(file_history).exit_code
    relation = str(file_history.value("SELECT 'target.history'::regclass::oid::text"))
    with psycopg.connect(file_history.uri, application_name="dpone sink") as left:
        left.execute("SELECT pg_advisory_xact_lock_shared(%s)", (local_data_key(relation),))
        done = file_history.run("run", file_history.manifest(manifest_text(2, name="two")))
        assert 0 == done.exit_code, done.output
        with pytest.raises(psycopg.errors.AdminShutdown):
            left.execute("SELECT 1")


# What is interrupted.


def test_ctrl_c_leaves_a_campaign_to_resume(file_history: FileHistory) -> None:
    begun = file_history.start("run", file_history.manifest(), faults=[(BEFORE_LOAD, VICTIM, HOLD)])
    begun.wait_for(BEFORE_LOAD, VICTIM)
    begun.signal_group(signal.SIGINT)
    begun.wait_for_words("1 chunks may finish")
    begun.release()
    stopped = begun.finish()
    assert (5, "DPONE_INTERRUPTED") == (stopped.exit_code, stopped.error_code), stopped.output
    assert {1: ("committed", 1), 2: ("committed", 1)} == file_history.chunks()
    told = json.loads(file_history.summary.read_text(encoding="utf-8"))
    assert ({"committed": 2}, file_history.journal.stat().st_size) == (
        told["chunks"],
        told["journal"]["bytes"],
    )
    done = file_history.run("backfill", "resume", file_history.manifest())
    assert 0 == done.exit_code, done.output
    file_history.require_loaded(CHUNKS)


def test_a_chunk_that_outlasts_the_grace_is_free_again(file_history: FileHistory) -> None:
    begun = file_history.start(
        "run", file_history.manifest(), faults=[("copied", VICTIM, HOLD)], environ={GRACE_VARIABLE: "0.5"}
    )
    begun.wait_for("copied", VICTIM)
    begun.signal(signal.SIGTERM)
    assert 5 == begun.finish().exit_code
    begun.wait_until_nothing_is_left()
    assert {1: ("committed", 1), 2: ("pending", 1)} == file_history.chunks()
    done = file_history.run("backfill", "resume", file_history.manifest())
    assert 0 == done.exit_code, done.output
    file_history.require_loaded(CHUNKS)


def test_a_second_signal_ends_at_once_and_the_folder_is_whole(file_history: FileHistory) -> None:
    begun = file_history.start("run", file_history.manifest(), faults=[("before commit", VICTIM, HOLD)])
    begun.wait_for("before commit", VICTIM)
    for words in ("1 chunks may finish", "stopped at once"):
        begun.signal_group(signal.SIGINT)
        begun.wait_for_words(words)
    assert 5 == begun.finish(10).exit_code
    begun.wait_until_nothing_is_left()
    assert {1: ("committed", 1), 2: ("running", 1)} == file_history.chunks()
    done = file_history.run("backfill", "resume", file_history.manifest())
    assert 0 == done.exit_code, done.output
    file_history.require_loaded(CHUNKS)
