"""Several lanes of one run: none begins before all are open, what one says is heard before another is given anything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from dpone_contract.errors import ConnectionFailedError, LaneLostError
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.event import EventKind
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId
from dpone_runtime.services.chunk_ends import HOLDER_WAIT
from dpone_runtime.services.run_chunks import FAILURE_GRACE
from tests.unit.runtime.campaign_runs import Stage
from tests.unit.runtime.scripted_lanes import SECOND, Act, Attempt, Opening, ScriptedLanes

COMMITTED, FAILED, PENDING, RUNNING = (
    ChunkStatus.COMMITTED,
    ChunkStatus.FAILED,
    ChunkStatus.PENDING,
    ChunkStatus.RUNNING,
)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def kinds(stage: Stage, index: int) -> list[EventKind]:
    return [event.kind for event in stage.ledger.events if event.chunk_index == index]


def begun(lanes: ScriptedLanes) -> list[int]:
    return [index for _, _, index in lanes.sent]


def after_claim(stage: Stage, chunk_index: int, act: Callable[[], None]) -> None:
    """Have something happen once a chunk's claim is written, before its frame is."""
    transition = stage.ledger.transition

    def claim_then_act(run_key, index, decide):
        change = transition(run_key, index, decide)
        if index == chunk_index and change is not None and change.event.kind is EventKind.CLAIMED:
            stage.ledger.transition = transition
            act()
        return change

    stage.ledger.transition = claim_then_act


# The start.


def test_no_chunk_is_claimed_before_every_lane_is_open():
    stage = Stage(chunks=4)
    lanes = stage.lanes(openings=[Opening.OPENS, Opening.NEVER])
    lanes.say(seconds(40), LaneEvent(LaneId(2), LaneEventKind.OPENED))
    lanes.at(seconds(39), lambda: setattr(lanes._lanes[LaneId(2)], "opened", True))
    lanes.at(seconds(38), lambda: claimed.append(stage.statuses()))
    claimed: list[object] = []
    run = stage.run(lanes, lane_count=2)
    assert ([{}], 4) == (claimed, run.report.committed)
    assert {1, 2} == {lane for _, lane, _ in lanes.sent}


@pytest.mark.parametrize("opening", [Opening.BROKEN, Opening.DIES])
def test_one_lane_that_does_not_open_ends_the_run_before_any_claim(opening):
    stage = Stage(chunks=3)
    lanes = stage.lanes(openings=[Opening.OPENS, opening, Opening.OPENS])
    with pytest.raises((ConnectionFailedError, LaneLostError)):
        stage.run(lanes, lane_count=3)
    assert ({}, [], True) == (stage.statuses(), lanes.sent, lanes.closed)


# Between a claim and its frame.


def test_a_claim_whose_lane_ends_before_it_is_sent_goes_to_another_lane():
    stage = Stage(chunks=3)
    lanes = stage.lanes()
    gone = LaneEvent(LaneId(1), LaneEventKind.GONE, message="killed by signal 9")
    after_claim(stage, 1, lambda: lanes.say(stage.clock.elapsed(), gone))
    run = stage.run(lanes, lane_count=2)
    assert (3, [], "complete") == (run.report.committed, run.report.failures, run.campaign.status)
    expected = [EventKind.CLAIMED, EventKind.RELEASED, EventKind.CLAIMED, EventKind.COMMITTED]
    assert expected == kinds(stage, 1)
    assert LaneId(1) not in {lane for _, lane, _ in lanes.sent}


def test_a_claim_is_given_back_when_a_peer_fails_before_it_is_sent():
    stage = Stage(chunks=4)
    lanes = stage.lanes({1: [Attempt(Act.FAIL, takes=seconds(5))], 2: [Attempt(takes=seconds(1))]})
    # The peer fails in the very moment in which chunk 3 is claimed.
    after_claim(stage, 3, lambda: stage.clock.advance(seconds(4)))
    run = stage.run(lanes, lane_count=2)
    assert [1, 2] == begun(lanes)
    assert [EventKind.CLAIMED, EventKind.RELEASED] == kinds(stage, 3)
    assert {1: FAILED, 2: COMMITTED, 3: PENDING} == stage.statuses()
    assert (1, 2) == (len(run.report.failures), run.report.left)


def test_what_happens_while_a_peer_is_heard_is_heard_too_before_a_claim_is_sent():
    stage = Stage(chunks=4)
    lanes = stage.lanes({1: [Attempt(Act.BUSY, takes=seconds(5))], 2: [Attempt(takes=seconds(1))]})
    gone = LaneEvent(LaneId(2), LaneEventKind.GONE, message="killed by signal 9")
    # The peer is heard in the moment in which chunk 3 is claimed, and while its row is written the lane ends.
    after_claim(stage, 3, lambda: stage.clock.advance(seconds(4)))
    release = stage.ledger.end_holders

    def end_slowly(run_key, index):
        lanes.say(stage.clock.elapsed(), gone)
        stage.ledger.end_holders = release
        return release(run_key, index)

    stage.ledger.end_holders = end_slowly
    run = stage.run(lanes, lane_count=2)
    assert (4, []) == (run.report.committed, run.report.failures)
    assert [EventKind.CLAIMED, EventKind.RELEASED, EventKind.CLAIMED, EventKind.COMMITTED] == kinds(stage, 3)


def test_a_claim_is_given_back_whatever_breaks_before_it_is_sent():
    stage = Stage(chunks=2)
    lanes = stage.lanes()

    def break_in() -> None:
        raise MemoryError

    after_claim(stage, 1, lambda: lanes.at(stage.clock.elapsed(), break_in))
    with pytest.raises(MemoryError):
        stage.run(lanes)
    assert ({1: PENDING}, []) == (stage.statuses(), lanes.sent)


# One observation.


@pytest.mark.parametrize("act", [Act.DIE, Act.FAIL])
def test_a_success_that_comes_with_a_failure_claims_nothing_more(act):
    stage = Stage(chunks=5)
    lanes = stage.lanes({1: [Attempt(takes=seconds(5))], 2: [Attempt(act, takes=seconds(5))]})
    stage.run(lanes, lane_count=2)
    assert [1, 2] == begun(lanes)
    assert {1: COMMITTED, 2: FAILED} == stage.statuses()


def test_nothing_is_claimed_while_it_is_not_known_how_a_chunk_ended():
    stage = Stage(chunks=20)
    lanes = stage.lanes({2: [Attempt(Act.DIE, takes=seconds(3))]})
    keep_holders(stage, 2, until=seconds(7))
    run = stage.run(lanes, lane_count=2)
    assert [2] == [failure.chunk_index for failure in run.report.failures]
    assert FAILED is stage.statuses()[2]
    assert seconds(7) <= stage.clock.elapsed() < seconds(8)
    assert lanes.sent[-1][0] <= seconds(3.1)


def test_a_commit_without_an_answer_is_tried_again_once_it_is_known_to_be_undone():
    stage = Stage(chunks=20)
    lanes = stage.lanes({2: [Attempt(Act.UNKNOWN_UNDONE, takes=seconds(3))]})
    keep_holders(stage, 2, until=seconds(7))
    run = stage.run(lanes, lane_count=2)
    assert ([], 20) == (run.report.failures, run.report.committed)
    assert [] == [at for at, *_ in lanes.sent if seconds(3.1) < at < seconds(7)]
    assert 2 == begun(lanes).count(2)


def keep_holders(stage: Stage, chunk_index: int, until: timedelta) -> timedelta:
    """Have a chunk's lock held, by a session that does not end before a moment."""
    end_holders, read_chunk = stage.ledger.end_holders, stage.ledger.read_chunk

    def held(run_key, index):
        ended = end_holders(run_key, index)
        return 1 if index == chunk_index and stage.clock.elapsed() < until else ended

    def read(run_key, index):
        assert index != chunk_index or stage.clock.elapsed() >= until, "read while its lock is held"
        return read_chunk(run_key, index)

    stage.ledger.end_holders, stage.ledger.read_chunk = held, read
    return until


def test_a_chunk_whose_session_cannot_be_ended_is_not_judged():
    stage = Stage(chunks=3)
    lanes = stage.lanes({1: [Attempt(Act.DIE)]})
    keep_holders(stage, 1, until=seconds(600))
    run = stage.run(lanes)
    (failure,) = run.report.failures
    assert ("DPONE_BACKFILL_LANE_LOST", True) == (failure.code, failure.infrastructure)
    assert "has not ended within 10 s" in failure.message
    assert {1: RUNNING} == stage.statuses()
    assert HOLDER_WAIT < stage.clock.elapsed() < HOLDER_WAIT + seconds(3)


def test_between_two_renewals_lanes_are_heard():
    stage = Stage(chunks=4)
    lanes = stage.lanes({index: [Attempt(takes=seconds(40))] for index in range(1, 5)})
    done: list[str] = []
    renew, poll = stage.ledger.renew, lanes.poll
    stage.ledger.renew = lambda record: (done.append("renewed"), renew(record))[1]
    lanes.poll = lambda timeout: (done.append("heard"), poll(timeout))[1]
    run = stage.run(lanes, lane_count=4)
    assert (4, 4) == (run.report.committed, done.count("renewed"))
    assert "renewed renewed" not in " ".join(done)


# Bounds.


def test_chunks_at_work_are_bounded_after_a_failure():
    stage = Stage(chunks=5)
    lanes = stage.lanes(
        {1: [Attempt(Act.NEVER_END)], 2: [Attempt(takes=seconds(200))], 3: [Attempt(Act.FAIL)]}
    )
    run = stage.run(lanes, lane_count=3)
    assert {1: PENDING, 2: COMMITTED, 3: FAILED} == stage.statuses()
    assert (False, 1, 1, 3) == (
        run.report.interrupted,
        run.report.committed,
        len(run.report.failures),
        run.report.left,
    )
    assert FAILURE_GRACE < stage.clock.elapsed() < FAILURE_GRACE + seconds(5)
    assert [LaneId(1)] == lanes.ended
    assert ["after a failure no chunk begins: 2 chunks may finish"] == stage.told.waits


def test_a_stop_after_a_failure_shortens_the_bound():
    stage = Stage(chunks=3, stop_at=seconds(10))
    lanes = stage.lanes({1: [Attempt(Act.NEVER_END)], 2: [Attempt(Act.FAIL)]})
    stage.run(lanes, lane_count=2)
    assert stage.clock.elapsed() < seconds(30)


def test_a_replacement_that_cannot_open_lets_peers_finish_and_ends_the_run():
    stage = Stage(chunks=6)
    lanes = stage.lanes(
        {1: [Attempt(Act.DIE_COMMITTED)], 2: [Attempt(takes=seconds(50))]},
        [Opening.OPENS, Opening.OPENS, Opening.BROKEN],
    )
    with pytest.raises(ConnectionFailedError, match="no route"):
        stage.run(lanes, lane_count=2)
    assert {1: COMMITTED, 2: COMMITTED} == stage.statuses()
    assert [1, 2] == begun(lanes)


def test_lanes_that_end_idle_are_replaced_only_while_there_is_something_to_claim():
    stage = Stage(chunks=2)
    lanes = stage.lanes({1: [Attempt(takes=seconds(20))]})
    gone = LaneEvent(LaneId(2), LaneEventKind.GONE, message="killed by signal 9")
    lanes.say(seconds(10), gone)
    run = stage.run(lanes, lane_count=2)
    assert (2, [1, 2]) == (run.report.committed, lanes.started)


def test_lanes_are_never_more_than_asked_for():
    stage = Stage(chunks=12)
    lanes = stage.lanes({index: [Attempt(takes=SECOND * (index % 3 + 1))] for index in range(1, 13)})
    run = stage.run(lanes, lane_count=4)
    assert (12, 4, [1, 2, 3, 4]) == (run.report.committed, lanes.most_at_work, lanes.started)
