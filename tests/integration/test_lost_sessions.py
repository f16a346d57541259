"""Sessions that a server, a proxy or an administrator ends under a run: what is committed stays, what is not is loaded again."""

import re

from tests.integration.campaigns import History, day, manifest_text
from tests.integration.fault_lane import BEFORE_LOAD, END_SINK, END_SOURCE, HOLD, end_sessions
from tests.waiting import wait_until

STEPS = ("guarded", "deleted", "copying", "copied", "before commit")


def test_a_sink_session_ended_at_any_step_costs_its_chunk_a_second_attempt(history: History) -> None:
    """Each chunk loses its session at another step."""
    history.add_stale_rows()
    faults = [(step, chunk_index, END_SINK) for chunk_index, step in enumerate(STEPS, 1)]
    done = history.run("run", history.manifest(manifest_text(5)), faults=faults)
    assert 0 == done.exit_code, done.output
    assert 5 == done.stderr.count("is tried again in 1 s")
    # Nobody answered the last chunk's COMMIT; its row said that it did not happen.
    assert "chunk 5 is tried again in 1 s: the answer to COMMIT was lost" in done.stderr
    assert "psycopg" not in done.output
    assert dict.fromkeys(range(1, 6), ("committed", 2)) == history.chunks()
    for chunk_index in range(1, 6):
        assert ["claimed", "failed", "claimed", "committed"] == history.events(chunk_index)
    history.require_loaded(5)


def test_a_sink_session_that_ends_after_its_commit_costs_nothing(history: History) -> None:
    done = history.run("run", history.manifest(), faults=[("committed", 2, END_SINK)])
    assert 0 == done.exit_code, done.output
    assert ["claimed", "committed"] == history.events(2)
    history.require_loaded(3)


def test_a_source_session_that_ends_in_mid_copy_costs_a_second_attempt(history: History) -> None:
    # More than both ends of a connection hold, so that the rest is still to come.
    history.sql("UPDATE source.history SET note = repeat('x', 1000000) WHERE day = %s", day(2))
    done = history.run("run", history.manifest(), faults=[("copying", 2, END_SOURCE)])
    assert 0 == done.exit_code, done.output
    assert "chunk 2 is tried again in 1 s: the connection broke while reading source.history" in done.stderr
    assert ["claimed", "failed", "claimed", "committed"] == history.events(2)
    history.require_loaded(3)


def test_a_session_that_keeps_ending_fails_its_chunk_after_three_tries(history: History) -> None:
    history.add_stale_rows()
    before = history.versions(2)
    history.sql(
        "CREATE FUNCTION target.leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF NEW.day = '{day(2)}' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER leave BEFORE INSERT ON target.history FOR EACH ROW EXECUTE FUNCTION target.leave()"
    )
    failed = history.run("run", history.manifest())
    assert (5, "DPONE_DATABASE_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert ["in 1 s", "in 4 s"] == re.findall("chunk 2 is tried again (in . s)", failed.stderr)
    assert "chunk 2 failed at attempt 3" in failed.stderr
    assert "(tried 3 times)" in failed.stderr
    assert "committed chunks are skipped" in failed.stderr
    # A wait is of its chunk alone: the next one was loaded meanwhile.
    assert {1: ("committed", 1), 2: ("failed", 3), 3: ("committed", 1)} == history.chunks()
    assert ["claimed", "failed"] * 3 == history.events(2)
    assert before == history.versions(2)
    history.sql("DROP TRIGGER leave ON target.history")
    assert 0 == history.run("backfill", "resume", history.manifest()).exit_code
    history.require_loaded(3)


def test_a_coordinator_that_lost_its_ledger_session_opens_another(history: History) -> None:
    run = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    end_sessions(history.uri, "dpone ledger")
    run.release()
    done = run.finish()
    assert 0 == done.exit_code, done.output
    assert "the ledger does not answer" in done.stderr
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
    assert ["claimed", "committed"] == history.events(2)
    history.require_loaded(3)


def test_without_the_session_lock_two_internal_runs_still_load_each_chunk_once(history: History) -> None:
    """Correctness never rests on the fence: it only refuses a second run early."""
    history.add_stale_rows()
    first = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 2, HOLD)])
    first.wait_for(BEFORE_LOAD, 2)
    end_sessions(history.uri, "dpone fence")
    second = history.start("run", history.manifest())
    second.wait_for_words("chunk 2 is held by another run")
    wait_until(lambda: history.chunks().get(3) == ("committed", 1), 30, "the second run's chunk")
    first.release()
    ends = [first.finish(), second.finish()]
    assert [0, 0] == [done.exit_code for done in ends], [done.output for done in ends]
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
    history.require_loaded(3)
