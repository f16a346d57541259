"""Many who publish one campaign, some of whom freeze or look too early: it is published once, and each of them passes."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

import pytest

from dpone_contract.environment import STATE_DIR
from dpone_contract.process import Process
from tests.integration.campaigns import History, manifest_text, mapped_process
from tests.integration.child_runs import Finished, Run
from tests.integration.fault_lane import FREEZE, HOLD, KILL_COORDINATOR
from tests.integration.file_history import in_a_file
from tests.integration.publications import (
    leave_unpublished,
    relation,
    require_live,
    require_published,
    start,
    status,
    swapped,
)
from tests.integration.run_with_faults import FENCE_VARIABLE, IDLE_VARIABLE
from tests.waiting import wait_until

RACERS = 8
IN_TRANSACTION = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpone ledger' AND xact_start IS NOT NULL AND datname = current_database()
"""
KINDS = pytest.mark.parametrize("mapped", [False, True], ids=["internal", "mapped"])


def process_of_items() -> Process:
    """Eight items of a chunk each."""
    return mapped_process(items=RACERS, max_active=RACERS, text=swapped(RACERS))


def states(finished: Sequence[Finished]) -> list[tuple[int, str | None]]:
    """Give how each has ended, and what it has told of the campaign."""
    told = [done.outcome.backfill if done.outcome else None for done in finished]
    return [
        (done.exit_code, backfill and backfill.campaign_status)
        for done, backfill in zip(finished, told, strict=True)
    ]


# Eight at once.


@pytest.mark.parametrize("held_at", ["ends seen", "publishing"])
def test_eight_items_that_are_cleared_at_once_publish_once(history: History, held_at: str) -> None:
    process = process_of_items()
    for index in range(RACERS - 1):
        assert 0 == history.start_item(process, index).finish().exit_code
    died = history.start_item(process, RACERS - 1, faults=[("completed", 0, KILL_COORDINATOR)])
    assert (-9, "complete") == (died.finish().exit_code, status(history))

    runs = [history.start_item(process, index, faults=[(held_at, 0, HOLD)]) for index in range(RACERS)]
    for run in runs:
        run.wait_for(held_at, 0)
    for run in runs:
        run.release()
    finished = [run.finish(120) for run in runs]
    assert [(0, "published")] * RACERS == states(finished), [done.output for done in finished]
    require_live(history, RACERS)


def test_eight_items_that_end_together_publish_once(history: History) -> None:
    process = process_of_items()
    runs = [
        history.start_item(process, index, faults=[("committed", index + 1, HOLD)]) for index in range(RACERS)
    ]
    for index, run in enumerate(runs):
        run.wait_for("committed", index + 1)
    for run in runs:
        run.release()
    finished = [run.finish(120) for run in runs]
    assert [(0, "published")] * RACERS == states(finished), [done.output for done in finished]
    assert ["opened", "completed", "published"] == history.events(None)
    require_live(history, RACERS)


def test_of_eight_internal_runs_those_that_are_not_refused_publish_once(history: History) -> None:
    leave_unpublished(history)
    runs = [start(history, faults=[("prepared", 0, HOLD)]) for _ in range(RACERS)]
    for run in runs:
        run.wait_for("prepared", 0)
    for run in runs:
        run.release()
    finished = [run.finish(120) for run in runs]
    told = set(zip(states(finished), (done.error_code for done in finished), strict=True))
    # One of them has the fence at a time, and the others are refused while it is at work.
    refused = ((5, None), "DPONE_BACKFILL_CAMPAIGN_BUSY")
    assert ((0, "published"), None) in told, [done.output for done in finished]
    assert told <= {((0, "published"), None), refused}, [done.output for done in finished]
    require_live(history)
    require_published(history, start(history).finish())


def test_an_item_waits_for_the_run_that_has_the_fence(history: History) -> None:
    leave_unpublished(history)
    run = start(history, faults=[("publishing", 0, HOLD)])
    run.wait_for("publishing", 0)
    item = start(history, mapped=True, faults=[])
    wait_until(lambda: waits_for_a_decision(history), 60, "the item's wait")
    assert "complete" == status(history)
    run.release()
    require_published(history, run.finish())
    require_published(history, item.finish())


# Who looks too early.


@KINDS
@pytest.mark.parametrize("step", ["ends seen", "shadow sought", "prepared"])
def test_a_run_that_has_looked_before_another_published_passes(
    history: History, step: str, *, mapped: bool
) -> None:
    leave_unpublished(history, mapped=mapped)
    early = start(history, mapped=mapped, faults=[(step, 0, HOLD)])
    early.wait_for(step, 0)
    require_published(history, start(history, mapped=mapped).finish())
    early.release()
    require_published(history, early.finish())


DIRECT = manifest_text(name="other", first="2013-01-08", last="2013-01-09")


@pytest.mark.parametrize(
    "text, waits",
    [(DIRECT, True), (DIRECT, False), (in_a_file(DIRECT), False)],
    ids=["waits for the lock", "comes later", "comes later, with its ledger in a file"],
)
def test_a_campaign_that_has_looked_before_the_swap_opens_none_on_what_is_the_backup_now(
    history: History, text: str, *, waits: bool
) -> None:
    leave_unpublished(history)
    before = relation(history)
    publisher = start(history, faults=[("decided", 0, HOLD)])
    publisher.wait_for("decided", 0)
    other = history.manifest(text, file="other.yaml")
    state = {STATE_DIR: str(history.folder / "state")}
    early = history.start("run", other, faults=[("prepared", 0, HOLD)], environ=state)
    early.wait_for("prepared", 0)
    if waits:
        early.release()
        wait_until(lambda: waits_for_a_decision(history), 20, "the wait for the target's lock")
    publisher.release()
    require_published(history, publisher.finish())
    early.release()
    done = early.finish()

    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (done.exit_code, done.error_code), done.output
    assert "target.history is another table now" in done.stderr
    on_backup = "SELECT count(*) FROM dpone_audit.__dpone__backfill_campaigns WHERE target_relation = %s"
    assert 0 == history.value(on_backup, before)
    again = history.run("run", other, environ=state)
    assert 0 == again.exit_code, again.output
    assert 100 == history.value("SELECT count(*) FROM target.history")


def test_a_restart_that_has_looked_before_the_swap_does_not_load_into_what_is_live(history: History) -> None:
    text = swapped(mode="partition_replace")
    leave_unpublished(history, text=text)
    manifest = history.manifest(text)
    restart = ("backfill", "restart", manifest, "--reason", "once more", "--execute")
    early = history.start(*restart, faults=[("prepared", 0, HOLD)])
    early.wait_for("prepared", 0)
    require_published(history, start(history, text=text).finish())
    live = relation(history)
    early.release()
    done = early.finish()
    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (done.exit_code, done.error_code), done.output
    assert (live, "published") == (relation(history), status(history))
    require_live(history)
    # Told to do so again, it begins its round in a shadow of its own.
    again = history.run(*restart)
    assert 0 == again.exit_code, again.output
    assert ["published", "round_begun", "completed", "published"] == history.events(None)[2:]
    assert 60 == history.value("SELECT count(*) FROM target.history")


def waits_for_a_decision(history: History) -> bool:
    """Whether a session of a ledger waits for another's decision."""
    text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpone ledger' AND wait_event = 'advisory' AND datname = current_database()"
    return history.value(text) != 0


# Who freezes.


@KINDS
@pytest.mark.parametrize("step", ["publishing", "shadow held", "decided", "swapped", "published"])
def test_a_publisher_that_freezes_hinders_nobody_for_long(
    history: History, step: str, *, mapped: bool
) -> None:
    history.add_stale_rows()
    environ = {IDLE_VARIABLE: "1"}
    frozen = start(history, mapped=mapped, faults=[(step, 0, FREEZE)], environ=environ)
    frozen.wait_for(step, 0)
    if not mapped:
        # The server ends its transaction after ten seconds, here one; until then it is at work, as far as anybody can see.
        wait_until(lambda: history.value(IN_TRANSACTION) == 0, 20, "the end of the frozen run's transaction")
    # Of an internal run the fence is left, which falls to the next run after ninety seconds of silence, here at once.
    other = start(history, mapped=mapped, faults=[], environ={FENCE_VARIABLE: "0"})
    require_published(history, other.finish())
    wake(frozen)
    done = frozen.finish()
    # Whichever of the two published, an internal run that lost its fence meanwhile may say so.
    require_published(history, done, loaded=3)


def wake(run: Run) -> None:
    """Let a frozen run go on."""
    run.signal(signal.SIGCONT)


def test_readers_wait_ten_seconds_at_the_most_for_a_publisher_that_freezes(history: History) -> None:
    history.add_stale_rows()
    before = history.content("target.history")
    frozen = start(history, mapped=True, faults=[("swapped", 0, FREEZE)])
    frozen.wait_for("swapped", 0)
    began = time.monotonic()
    assert before == history.content("target.history")
    assert time.monotonic() - began < 11
    wake(frozen)
    require_published(history, frozen.finish(), loaded=3)
