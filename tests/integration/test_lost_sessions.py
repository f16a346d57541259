"""Sessions that a server, a proxy or an administrator ends under a run: what is committed stays, what is not is loaded again."""

from tests.integration.campaigns import History
from tests.integration.fault_lane import BEFORE_LOAD, HOLD
from tests.waiting import wait_until


def end_sessions(history: History, application_name: str) -> None:
    """End every session of one kind, and wait until they are gone."""
    sessions = "FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
    assert [(True,)] == history.sql(f"SELECT pg_terminate_backend(pid) {sessions}", application_name)
    wait_until(lambda: history.value(f"SELECT count(*) {sessions}", application_name) == 0, 10, "its end")


def test_a_sink_session_ended_before_its_commit_has_loaded_nothing(history: History) -> None:
    history.add_stale_rows()
    before = history.versions(2)
    run = history.start("run", history.manifest(), faults=[("before commit", 2, HOLD)])
    run.wait_for("before commit", 2)
    end_sessions(history, "dpone sink")
    run.release()
    failed = run.finish()
    # Nobody answered COMMIT; the chunk's row said that it did not happen.
    assert (5, "DPONE_BACKFILL_LANE_LOST") == (failed.exit_code, failed.error_code), failed.output
    assert "the answer to COMMIT was lost" in failed.stderr
    assert "psycopg" not in failed.output
    assert before == history.versions(2)
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()
    assert 0 == history.run("run", history.manifest()).exit_code
    history.require_loaded(3)


def test_a_coordinator_that_lost_its_ledger_ends_and_keeps_what_its_lane_committed(history: History) -> None:
    run = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    end_sessions(history, "dpone ledger")
    run.release()
    failed = run.finish()
    assert (5, "DPONE_DATABASE_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert "Traceback" not in failed.output
    run.wait_until_nothing_is_left()
    assert {1: ("committed", 1), 2: ("committed", 1)} == history.chunks()
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    assert ["claimed", "committed"] == history.events(2)
    history.require_loaded(3)


def test_without_the_session_lock_two_internal_runs_still_load_each_chunk_once(history: History) -> None:
    """Correctness never rests on the fence: it only refuses a second run early."""
    history.add_stale_rows()
    first = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 2, HOLD)])
    first.wait_for(BEFORE_LOAD, 2)
    end_sessions(history, "dpone fence")
    second = history.start("run", history.manifest())
    second.wait_for_words("chunk 2 is held by another run")
    wait_until(lambda: history.chunks().get(3) == ("committed", 1), 30, "the second run's chunk")
    first.release()
    ends = [first.finish(), second.finish()]
    assert [0, 0] == [done.exit_code for done in ends], [done.output for done in ends]
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
    history.require_loaded(3)
