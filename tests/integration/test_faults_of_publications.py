"""Faults of a database while a campaign is published: it happens once and whole, or not at all, and the next run does the rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from quickstart.embedded_postgres import EmbeddedPostgres
from tests.integration.answer_swallower import AnswerSwallower
from tests.integration.campaigns import History, opened_history
from tests.integration.child_runs import Run
from tests.integration.fault_lane import END_FENCE, END_LEDGER, HOLD, KILL_COORDINATOR
from tests.integration.publications import (
    leave_unpublished,
    relation,
    require_live,
    require_published,
    shadow,
    start,
    status,
    swapped,
)
from tests.integration.run_with_faults import PUBLICATION_WAIT_VARIABLE, SWAP_TRIES_VARIABLE
from tests.integration.test_transient_faults import crash
from tests.waiting import wait_until

STEPS = ("publishing", "shadow held", "decided", "swapped", "published")
KINDS = pytest.mark.parametrize("mapped", [False, True], ids=["internal", "mapped"])
LOST = pytest.mark.parametrize("committed", [True, False], ids=["it happened", "it did not"])
WAITS_FOR_TABLE = """
SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
                WHERE relation = %s AND mode = 'AccessExclusiveLock' AND NOT granted AND application_name = 'dpone ledger')
"""


@contextmanager
def session(history: History) -> Iterator[psycopg.Connection]:
    """Somebody else's session, in a transaction."""
    with psycopg.connect(history.uri, application_name="a report") as connection:
        yield connection


def live(history: History) -> tuple[object, ...]:
    """Give what is live, and of which table."""
    return (relation(history), *history.content("target.history"))


# Sessions that end.


@KINDS
@pytest.mark.parametrize("step", STEPS)
def test_a_session_that_is_ended_while_it_publishes_costs_nothing(
    history: History, step: str, *, mapped: bool
) -> None:
    history.add_stale_rows()
    run = start(history, mapped=mapped, faults=[(step, 0, END_LEDGER)])
    done = run.finish()
    assert run.reached(step, 0)
    require_published(history, done, loaded=3)


@pytest.mark.parametrize("step", ["publishing", "shadow held"])
def test_a_run_whose_fence_is_gone_publishes_nothing(history: History, step: str) -> None:
    leave_unpublished(history)
    before = live(history)
    done = start(history, faults=[(step, 0, END_FENCE)]).finish()
    assert (5, "DPONE_BACKFILL_CAMPAIGN_LEASE_LOST") == (done.exit_code, done.error_code), done.output
    assert ("complete", before) == (status(history), live(history))
    require_published(history, start(history).finish())


@KINDS
@LOST
def test_a_lost_answer_to_the_commit_of_a_publication_is_read_in_the_ledger(
    history: History, *, committed: bool, mapped: bool
) -> None:
    with AnswerSwallower(history.uri, committed=committed, victim="dpone ledger", armed=False) as proxy:
        environ = {"DPONE_CONN_TARGET_DB": proxy.uri}
        run = start(history, mapped=mapped, faults=[("swapped", 0, HOLD)], environ=environ)
        run.wait_for("swapped", 0)
        proxy.armed = True
        run.release()
        done = run.finish()
        assert 1 == proxy.swallowed
    require_published(history, done, loaded=3)


@pytest.mark.parametrize(
    "step, mapped, code", [("swapped", True, 0), ("swapped", False, 5), ("published", False, 0)]
)
def test_a_server_that_crashes_while_a_campaign_is_published(
    tmp_path: Path, step: str, *, mapped: bool, code: int
) -> None:
    """A run that has lost its fence does not publish any more; who holds none does."""
    with EmbeddedPostgres() as server, opened_history(server.uri(), tmp_path) as history:
        history.add_stale_rows()
        run = start(history, mapped=mapped, faults=[(step, 0, HOLD)])
        run.wait_for(step, 0)
        crash(server)
        run.release()
        done = run.finish()
        history.connect_again()
        assert code == done.exit_code, done.output
        require_published(history, start(history, mapped=mapped).finish())


@pytest.mark.parametrize("what", [KILL_COORDINATOR, END_LEDGER])
def test_an_index_that_was_being_built_is_built_again(history: History, what: str) -> None:
    history.sql(
        "CREATE INDEX history_id ON target.history (id); CREATE INDEX history_note ON target.history (note)"
    )
    run = start(history, faults=[("index built", 0, what)])
    done = run.finish()
    assert run.reached("index built", 0)
    if what == KILL_COORDINATOR:
        assert (-9, "complete") == (done.exit_code, status(history))
        assert [] == history.sql(f"SELECT FROM pg_index WHERE indrelid = '{shadow(history)}'::regclass")
        done = start(history).finish()
    assert 0 == done.exit_code, done.output
    require_live(history)
    names = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'target.history'::regclass ORDER BY 1"
    assert [("target.history_id",), ("target.history_note",)] == history.sql(names)


# Readers and writers.


def test_readers_see_what_was_there_or_all_that_was_loaded(history: History) -> None:
    history.add_stale_rows()
    seen: list[tuple[object, ...]] = []
    before = live(history)
    run = start(history, faults=[])
    look = "SELECT tableoid::text, count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM target.history t GROUP BY 1"

    def sampled() -> bool:
        (found,) = history.sql(look)
        if not seen or seen[-1] != found:
            seen.append(found)
        return run.ended()

    wait_until(sampled, 60, "the end of the run")
    require_published(history, run.finish(), loaded=3)
    assert [before, live(history)] == seen


@KINDS
def test_a_reader_is_waited_for_and_other_readers_pass_meanwhile(history: History, *, mapped: bool) -> None:
    history.add_stale_rows()
    before = live(history)
    with session(history) as reader:
        reader.execute("SELECT count(*) FROM target.history")
        run = start(history, mapped=mapped, faults=[])
        wait_until(
            lambda: history.value(WAITS_FOR_TABLE, before[0]) is True, 60, "the wait for the live table"
        )
        waits = [seconds_to_read(history, before) for _ in range(3)]
        assert max(waits) < 3, waits
        assert not run.ended()
    done = run.finish()
    require_published(history, done, loaded=3)
    assert 1 == done.stderr.count("waiting: target.history is held by others, by session ")
    assert "60 rows are counted" in done.stderr


def seconds_to_read(history: History, expected: tuple[object, ...]) -> float:
    """Read the live table while somebody stands in the queue for it."""
    wait_until(lambda: history.value(WAITS_FOR_TABLE, expected[0]) is True, 10, "the wait for the live table")
    began = time.monotonic()
    assert expected == live(history)
    return time.monotonic() - began


@KINDS
def test_a_reader_who_never_ends_is_named_and_the_next_run_publishes(
    history: History, *, mapped: bool
) -> None:
    history.add_stale_rows()
    before = live(history)
    with session(history) as reader:
        reader.execute("SELECT count(*) FROM target.history")
        done = start(history, mapped=mapped, faults=[], environ={SWAP_TRIES_VARIABLE: "1"}).finish()
        assert (5, "DPONE_BACKFILL_PUBLICATION_BUSY") == (done.exit_code, done.error_code), done.output
        assert f"{reader.info.backend_pid} (a report, " in done.stderr
        assert "everything is loaded: end these sessions" in done.stderr
        assert done.outcome is not None
        assert done.outcome.backfill is not None
        assert (3, "complete") == (
            done.outcome.backfill.chunks_committed,
            done.outcome.backfill.campaign_status,
        )
        assert ("complete", before) == (status(history), live(history))
    require_published(history, start(history, mapped=mapped).finish())


def test_a_writer_who_holds_the_shadow_is_waited_for_a_while(history: History) -> None:
    leave_unpublished(history)
    before = live(history)
    with session(history) as writer:
        writer.execute(f"LOCK TABLE {shadow(history)} IN ROW EXCLUSIVE MODE".encode())
        done = start(history, faults=[], environ={PUBLICATION_WAIT_VARIABLE: "0.5"}).finish()
        assert (5, "DPONE_BACKFILL_PUBLICATION_BUSY") == (done.exit_code, done.error_code), done.output
        assert ("complete", before) == (status(history), live(history))
    require_published(history, start(history).finish())


def test_who_reads_the_shadow_is_waited_for_and_readers_of_the_live_table_are_not_kept(
    history: History,
) -> None:
    leave_unpublished(history)
    before, table = live(history), shadow(history)
    with session(history) as verification:
        verification.execute(f"SELECT count(*) FROM {table}".encode())
        run = start(history, faults=[])
        wait_until(
            lambda: history.value(WAITS_FOR_TABLE, relation(history, str(table))) is True,
            60,
            "the wait for the shadow",
        )
        history.sql("SET lock_timeout = '200ms'")
        assert before == live(history)
        history.sql("RESET lock_timeout")
        assert not run.ended()
    require_published(history, run.finish())


@pytest.mark.parametrize("step", ["shadow held", "decided"])
def test_nobody_writes_to_the_shadow_once_it_is_counted(history: History, step: str) -> None:
    run = start(history, faults=[(step, 0, HOLD)])
    run.wait_for(step, 0)
    table = shadow(history)
    history.sql("SET lock_timeout = '200ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        history.sql(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")
    history.sql("RESET lock_timeout")
    run.release()
    require_published(history, run.finish(), loaded=3)


def test_rows_that_another_has_written_into_the_shadow_are_not_published(history: History) -> None:
    leave_unpublished(history)
    before, table = live(history), shadow(history)
    history.sql(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")
    done = start(history).finish()
    assert (4, "DPONE_BACKFILL_PUBLICATION_MISMATCH") == (done.exit_code, done.error_code), done.output
    assert "holds 61 rows, and 60 were committed into it" in done.stderr
    assert ("complete", before) == (status(history), live(history))


def test_a_deadlock_with_somebody_who_wants_both_tables_costs_nothing(history: History) -> None:
    leave_unpublished(history)
    with session(history) as other, ThreadPoolExecutor(1) as pool:
        # The run is to be the one that the server ends.
        other.execute("SET deadlock_timeout = '60s'")
        other.execute("SELECT count(*) FROM target.history")
        run = start(history, faults=[("decided", 0, HOLD)])
        run.wait_for("decided", 0)
        both = pool.submit(other.execute, f"LOCK TABLE {shadow(history)} IN ROW EXCLUSIVE MODE".encode())
        wait_until(lambda: waits_for_a_table(history, "a report"), 10, "the other's wait")
        run.release()
        both.result(20)
    require_published(history, run.finish())


def waits_for_a_table(history: History, application_name: str) -> bool:
    """Whether somebody waits for a table's lock."""
    text = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = %s AND NOT granted"
    return history.value(text, application_name) != 0


# Cancellations.


def cancel(history: History) -> Run:
    """Begin to cancel the campaign."""
    return history.start("backfill", "cancel", str(history.folder / "history.yaml"), "--reason", "not now")


def resume(history: History) -> Run:
    """Resume the campaign."""
    return history.start("backfill", "resume", str(history.folder / "history.yaml"), "--reason", "now")


def test_what_is_complete_and_not_published_can_be_cancelled_and_resumed(history: History) -> None:
    leave_unpublished(history)
    before = live(history)
    assert 0 == cancel(history).finish().exit_code
    done = start(history).finish()
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (done.exit_code, done.error_code), done.output
    assert ("cancel_requested", before) == (status(history), live(history))
    require_published(history, resume(history).finish())
    wanted = ["opened", "completed", "cancel_requested", "resumed", "completed", "published"]
    assert wanted == history.events(None)


@KINDS
def test_a_cancellation_before_the_publication_prevents_it(history: History, *, mapped: bool) -> None:
    run = start(history, mapped=mapped, faults=[("publishing", 0, HOLD)])
    run.wait_for("publishing", 0)
    before = live(history)
    history.manifest(swapped())
    assert 0 == cancel(history).finish().exit_code
    run.release()
    done = run.finish()
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (done.exit_code, done.error_code), done.output
    assert ("cancel_requested", before) == (status(history), live(history))
    require_published(history, resume(history).finish())


@pytest.mark.parametrize("step", ["decided", "swapped"])
def test_a_cancellation_that_comes_while_it_is_published_is_refused(history: History, step: str) -> None:
    run = start(history, faults=[(step, 0, HOLD)])
    run.wait_for(step, 0)
    late = cancel(history)
    wait_until(lambda: waits_for_a_lock_of_the_ledger(history), 20, "the cancellation's wait")
    run.release()
    require_published(history, run.finish(), loaded=3)
    done = late.finish()
    assert (2, "published") == (done.exit_code, status(history)), done.output
    assert "is published; there is nothing to cancel" in done.stderr
    require_live(history)


@KINDS
def test_a_cancellation_need_not_wait_for_the_readers_that_a_swap_waits_for(
    history: History, *, mapped: bool
) -> None:
    """The ledger's locks are free between two tries; the reader stays until all of it is over."""
    history.manifest(swapped())
    before = live(history)
    with session(history) as reader:
        reader.execute("SELECT count(*) FROM target.history")
        run = start(history, mapped=mapped, faults=[])
        wait_until(lambda: history.value(WAITS_FOR_TABLE, before[0]) is True, 60, "the wait for the table")
        cancelled, done = cancel(history).finish(), run.finish()
        assert 0 == cancelled.exit_code, cancelled.output
        assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (done.exit_code, done.error_code), done.output
    assert ("cancel_requested", before) == (status(history), live(history))
    require_published(history, resume(history).finish())


def waits_for_a_lock_of_the_ledger(history: History) -> bool:
    """Whether a session of a ledger waits for another's decision."""
    text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpone ledger' AND wait_event = 'advisory' AND datname = current_database()"
    return history.value(text) != 0
