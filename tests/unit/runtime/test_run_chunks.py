"""The coordinator: who gets which chunk, and what each way of ending means."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dpone_contract.errors import (
    CampaignBusyError,
    CampaignLeaseLostError,
    ChunkBusyError,
    ConnectionFailedError,
    LaneLostError,
)
from dpone_contract.manifest import RetryPolicy
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.event import EventKind
from dpone_runtime.domain.lease import BUSY_WAIT, LEASE_TTL
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import cancel_campaign
from tests.unit.runtime.campaign_runs import Stage
from tests.unit.runtime.scripted_lanes import Act, Attempt, Opening, ScriptedLanes

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


# Dispatch.


def test_every_chunk_is_loaded_once_in_order():
    stage = Stage(chunks=4)
    lanes = stage.lanes()
    run = stage.run(lanes)
    assert [1, 2, 3, 4] == begun(lanes)
    assert (4, 4, 0, 0, 40, 4000) == (
        run.report.selected,
        run.report.committed,
        run.report.skipped,
        run.report.left,
        run.report.rows_loaded,
        run.report.bytes_moved,
    )
    assert "complete" == run.campaign.status
    assert {1: 1, 2: 1, 3: 1, 4: 1} == stage.told.chunks
    assert lanes.closed


def test_a_free_lane_takes_the_next_chunk_at_once():
    stage = Stage(chunks=6)
    lanes = stage.lanes({1: [Attempt(takes=seconds(100))]})
    stage.run(lanes, lane_count=2)
    # The second lane does all the rest while the first is at work: no waves.
    assert [(1, 1), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6)] == [
        (lane, index) for _, lane, index in lanes.sent
    ]
    assert seconds(6) > lanes.sent[-1][0]


def test_no_more_lanes_are_started_than_there_are_chunks():
    stage = Stage(chunks=2)
    lanes = stage.lanes()
    stage.run(lanes, lane_count=8)
    assert [1, 2] == lanes.started


def test_no_lane_is_started_where_nothing_is_left():
    stage = Stage(chunks=2)
    stage.run()
    again = stage.run()
    assert (1, 2, 0) == (stage.lanes_asked_for, again.report.skipped, again.report.committed)


def test_an_item_runs_its_own_range_without_a_fence():
    stage = Stage(chunks=5)
    with stage.ledger.fence(stage.plan.run_key):
        run = stage.run(first=2, last=3, mapped=True)
    assert {2: COMMITTED, 3: COMMITTED} == stage.statuses()
    assert (2, 2, "open", 2) == (
        run.report.selected,
        run.report.committed,
        run.campaign.status,
        run.committed_total,
    )


def test_the_item_that_ends_last_completes_the_campaign():
    stage = Stage(chunks=4)
    assert "open" == stage.run(first=1, last=2, mapped=True).campaign.status
    assert "complete" == stage.run(first=3, last=4, mapped=True).campaign.status


def test_a_chunk_that_another_run_commits_meanwhile_is_skipped():
    stage = Stage(chunks=3)
    stage.open()
    other = stage.other_claims(3)
    lanes = stage.lanes()
    lanes.at(seconds(0.5), lambda: stage.ledger.complete_chunk(other.request, 1, 1))
    run = stage.run(lanes)
    assert (2, 1, 0) == (run.report.committed, run.report.skipped, run.report.left)
    assert [1, 2] == begun(lanes)


# Failures.


def test_a_failure_blocks_new_claims_and_lets_chunks_at_work_finish():
    stage = Stage(chunks=6)
    lanes = stage.lanes({1: [Attempt(takes=seconds(9))], 2: [Attempt(Act.FAIL)]})
    run = stage.run(lanes, lane_count=2)
    assert [1, 2] == begun(lanes)
    assert {1: COMMITTED, 2: FAILED} == stage.statuses()
    (failure,) = run.report.failures
    assert (2, 1, "DPONE_BACKFILL_CHUNK_FAILED", False) == (
        failure.chunk_index,
        failure.attempt,
        failure.code,
        failure.infrastructure,
    )
    assert (1, 4, "open") == (run.report.committed, run.report.left, run.campaign.status)
    found = stage.ledger.read_chunk(stage.plan.run_key, 2)
    assert ("DPONE_BACKFILL_CHUNK_FAILED", "the rows are bad") == (found.error_code, found.error_message)


def test_the_next_run_takes_failed_and_pending_chunks():
    stage = Stage(chunks=3)
    stage.run(stage.lanes({1: [Attempt(Act.FAIL)]}))
    lanes = stage.lanes()
    run = stage.run(lanes)
    assert [1, 2, 3] == begun(lanes)
    assert 2 == stage.ledger.read_chunk(stage.plan.run_key, 1).attempt
    assert "complete" == run.campaign.status


def test_failed_only_takes_failed_and_lapsed_chunks_and_never_pending_ones():
    stage = Stage(chunks=6)
    stage.run(stage.lanes({2: [Attempt(Act.FAIL)]}))
    stage.other_claims(4)
    stage.clock.advance(LEASE_TTL)
    stage.other_claims(5)
    lanes = stage.lanes()
    run = stage.run(lanes, policy=RetryPolicy.FAILED_ONLY)
    assert [2, 4] == sorted(begun(lanes))
    assert (2, 0, 2, 0) == (run.report.selected, run.report.skipped, run.report.committed, run.report.left)
    assert {1: COMMITTED, 2: COMMITTED, 4: COMMITTED, 5: RUNNING} == stage.statuses()


def test_failed_only_keeps_to_its_range():
    stage = Stage(chunks=4)
    for index in (1, 4):
        stage.run(stage.lanes({index: [Attempt(Act.FAIL)]}), first=index, last=index)
    lanes = stage.lanes()
    stage.run(lanes, policy=RetryPolicy.FAILED_ONLY, first=3, last=4)
    assert [4] == begun(lanes)


# Busy chunks and max_active.


def test_a_busy_chunk_does_not_stop_the_others_and_is_taken_when_it_is_free():
    stage = Stage(chunks=3)
    stage.open()
    stage.other_claims(1)
    lanes = stage.lanes()
    run = stage.run(lanes)
    assert [2, 3, 1] == begun(lanes)
    assert "complete" == run.campaign.status
    # The other run died without a word: its chunk is taken as soon as its lease has lapsed.
    assert LEASE_TTL <= lanes.sent[-1][0] < LEASE_TTL + seconds(4)
    assert ["chunk 1 is held by another run; looking again for up to 120 s"] == stage.told.waits[:1]


def test_a_chunk_that_stays_busy_fails_the_run_after_the_ttl_and_thirty_seconds():
    stage = Stage(chunks=2)
    stage.open()
    other = stage.other_claims(2)
    lanes = stage.lanes()
    for when in range(20, 400, 20):
        lanes.at(seconds(when), lambda: stage.ledger.renew(other.record))
    with pytest.raises(ChunkBusyError, match="1 chunks are still held by other runs after 120 s") as failure:
        stage.run(lanes)
    assert 2 == failure.value.fields["chunk_index"]
    assert BUSY_WAIT < stage.clock.elapsed() < BUSY_WAIT + seconds(10)
    assert lanes.closed
    assert {1: COMMITTED, 2: RUNNING} == stage.statuses()


def test_a_chunk_at_work_keeps_the_wait_open():
    stage = Stage(chunks=2)
    stage.open()
    other = stage.other_claims(2)
    lanes = stage.lanes({1: [Attempt(takes=seconds(300))]})
    for when in range(20, 280, 20):
        lanes.at(seconds(when), lambda: stage.ledger.renew(other.record))
    lanes.at(seconds(290), lambda: stage.ledger.complete_chunk(other.request, 1, 1))
    run = stage.run(lanes, lane_count=2)
    assert (1, 1) == (run.report.committed, run.report.skipped)


def test_max_active_is_waited_for():
    stage = Stage(chunks=4)
    stage.open()
    others = [stage.other_claims(index) for index in (3, 4)]
    lanes = stage.lanes()
    for when, other in zip((30, 50), others, strict=True):
        lanes.at(seconds(when), lambda other=other: stage.ledger.complete_chunk(other.request, 1, 1))
    run = stage.run(lanes, first=1, last=2, mapped=True, max_active=2)
    assert 2 == run.report.committed
    assert seconds(30) <= lanes.sent[0][0] <= seconds(33)
    assert "max_active is reached" in stage.told.waits[0]


def test_max_active_is_not_asked_again_for_every_chunk_of_a_long_range():
    stage = Stage(chunks=2000)
    stage.open()
    other = stage.other_claims(2000)
    looks = []
    claim = stage.ledger.transition
    stage.ledger.transition = lambda *given: (looks.append(given[1]), claim(*given))[1]
    lanes = stage.lanes()
    for when in range(20, 400, 20):
        lanes.at(seconds(when), lambda: stage.ledger.renew(other.record))
    with pytest.raises(ChunkBusyError):
        stage.run(lanes, first=1, last=1999, mapped=True, max_active=1)
    assert len(looks) < 70
    assert BUSY_WAIT < stage.clock.elapsed() < BUSY_WAIT + seconds(10)


def test_lanes_never_exceed_max_active():
    stage = Stage(chunks=8)
    lanes = stage.lanes()
    run = stage.run(lanes, lane_count=4, max_active=2)
    assert (8, 2) == (run.report.committed, lanes.most_at_work)


def test_a_lane_that_finds_the_chunk_locked_ends_the_holder_and_tries_again():
    stage = Stage(chunks=2)
    lanes = stage.lanes({1: [Attempt(Act.BUSY)]})
    run = stage.run(lanes)
    assert [1, 2, 1] == begun(lanes)
    assert 2 == run.report.committed
    expected = [EventKind.CLAIMED, EventKind.RELEASED, EventKind.CLAIMED, EventKind.COMMITTED]
    assert expected == kinds(stage, 1)


# Leases.


def test_leases_are_renewed_every_thirty_seconds():
    stage = Stage(chunks=1)
    lanes = stage.lanes({1: [Attempt(takes=seconds(200))]})
    left: list[float] = []

    def look() -> None:
        record = stage.ledger.read_chunk(stage.plan.run_key, 1)
        left.append((record.lease_expires_at - stage.clock.now()).total_seconds())

    for when in (29, 32, 59, 62, 170):
        lanes.at(seconds(when), look)
    run = stage.run(lanes)
    assert 1 == run.report.committed
    assert left[0] == pytest.approx(61, abs=1)
    assert left[1] == pytest.approx(88, abs=1.5)
    assert left[2] == pytest.approx(61, abs=2)
    assert min(left) > 59


def test_a_lost_lease_ends_the_lane_and_touches_nothing_of_the_new_owner():
    stage = Stage(chunks=2)
    lanes = stage.lanes({1: [Attempt(Act.NEVER_END)]})
    taken = []

    def take_over() -> None:
        record = stage.ledger.read_chunk(stage.plan.run_key, 1)
        stage.ledger.end_holders(stage.plan.run_key, 1)
        # As if its lease had lapsed: only the ledger can say so, not this run's clock.
        stage.ledger._chunks[stage.plan.run_key, 1] = _lapsed(record, stage)
        taken.append(stage.other_claims(1))
        taken.append(stage.ledger.hold_chunk(stage.plan.run_key, 1))

    lanes.at(seconds(20), take_over)
    run = stage.run(lanes)
    (failure,) = run.report.failures
    assert ("DPONE_BACKFILL_CHUNK_LEASE_LOST", True) == (failure.code, failure.infrastructure)
    assert [LaneId(1)] == lanes.ended
    claim, hold = taken
    assert claim.record.owner == stage.ledger.read_chunk(stage.plan.run_key, 1).owner
    assert not hold.ended


def _lapsed(record, stage):
    return replace(record, lease_expires_at=stage.clock.now())


def test_a_process_that_was_frozen_past_its_lease_stops_its_chunk():
    stage = Stage(chunks=2)
    lanes = stage.lanes({1: [Attempt(Act.NEVER_END)]})
    lanes.at(seconds(10), lambda: stage.clock.advance(LEASE_TTL))
    run = stage.run(lanes)
    assert "DPONE_BACKFILL_CHUNK_LEASE_LOST" == run.report.failures[0].code
    assert [LaneId(1)] == lanes.ended
    assert {1: ChunkStatus.LEASE_EXPIRED} == stage.statuses()


def test_a_commit_that_outruns_the_end_of_its_lane_counts_and_the_run_goes_on():
    stage = Stage(chunks=3)
    lanes = stage.lanes({1: [Attempt(Act.NEVER_END, commits_when_ended=True)]})
    lanes.at(seconds(10), lambda: stage.clock.advance(LEASE_TTL))
    run = stage.run(lanes)
    assert (3, 0, "complete") == (run.report.committed, len(run.report.failures), run.campaign.status)
    assert [1, 2] == lanes.started


def test_a_late_commit_of_a_lapsed_chunk_is_no_loss():
    stage = Stage(chunks=1)
    lanes = stage.lanes({1: [Attempt(takes=seconds(35))]})
    record = []
    lanes.at(seconds(1), lambda: record.append(stage.ledger.read_chunk(stage.plan.run_key, 1)))
    run = stage.run(lanes)
    assert 1 == run.report.committed


# Lanes that end.


def test_a_lane_that_dies_after_its_commit_is_counted_by_the_row():
    stage = Stage(chunks=3)
    lanes = stage.lanes({1: [Attempt(Act.DIE_COMMITTED, rows=7)]})
    run = stage.run(lanes)
    assert (3, 27, 27) == (run.report.committed, run.report.rows_extracted, run.report.rows_loaded)
    assert ([], [1, 2], "complete") == (run.report.failures, lanes.started, run.campaign.status)


def test_a_lane_that_dies_before_its_commit_fails_its_chunk():
    stage = Stage(chunks=3)
    lanes = stage.lanes({1: [Attempt(Act.DIE)]})
    run = stage.run(lanes)
    (failure,) = run.report.failures
    assert ("DPONE_BACKFILL_LANE_LOST", True) == (failure.code, failure.infrastructure)
    assert "killed by signal 9" in failure.message
    assert {1: FAILED} == stage.statuses()
    # Its session in the database was ended before the row was read.
    assert 0 == stage.ledger.end_holders(stage.plan.run_key, 1)
    assert [1] == lanes.started


def test_a_lane_that_dies_does_not_disturb_its_peer():
    stage = Stage(chunks=2)
    lanes = stage.lanes({1: [Attempt(Act.DIE)], 2: [Attempt(takes=seconds(50))]})
    run = stage.run(lanes, lane_count=2)
    assert (1, 1) == (run.report.committed, len(run.report.failures))
    assert {1: FAILED, 2: COMMITTED} == stage.statuses()


def test_a_commit_without_an_answer_is_read_back():
    stage = Stage(chunks=2)
    run = stage.run(stage.lanes({1: [Attempt(Act.UNKNOWN_COMMITTED)]}))
    assert (2, 20, []) == (run.report.committed, run.report.rows_loaded, run.report.failures)


def test_a_commit_without_an_answer_that_never_happens_fails_the_chunk():
    stage = Stage(chunks=2)
    run = stage.run(stage.lanes({1: [Attempt(Act.UNKNOWN_UNDONE)] * 3}))
    assert "DPONE_BACKFILL_LANE_LOST" == run.report.failures[0].code
    assert {1: FAILED, 2: COMMITTED} == stage.statuses()
    assert 0 == stage.ledger.end_holders(stage.plan.run_key, 1)


def test_a_commit_that_arrives_between_two_looks_counts():
    stage = Stage(chunks=1)
    lanes = stage.lanes({1: [Attempt(Act.UNKNOWN_UNDONE)]})
    find = stage.ledger.read_chunk

    def read_then_commit(run_key, index):
        # The server is still at its COMMIT when the row is read for the first time.
        found = find(run_key, index)
        stage.ledger.read_chunk = find
        stage.ledger.complete_chunk(request_of(stage, found), 4, 4)
        return found

    lanes.at(seconds(0.9), lambda: setattr(stage.ledger, "read_chunk", read_then_commit))
    run = stage.run(lanes)
    assert (1, 4, []) == (run.report.committed, run.report.rows_loaded, run.report.failures)


def request_of(stage, record):
    chunk = stage.plan.chunk(record.chunk_index)
    return LoadRequest(record.run_key, chunk, record.round, record.attempt, record.revision, record.owner)


def test_an_idle_lane_that_dies_is_replaced():
    stage = Stage(chunks=3)
    lanes = stage.lanes({1: [Attempt(takes=seconds(10))]})
    stage.open()
    other = stage.other_claims(3)
    lanes.at(seconds(8), lambda: stage.ledger.complete_chunk(other.request, 1, 1))
    lanes.say(seconds(3), LaneEvent(LaneId(2), LaneEventKind.GONE, message="exit code 1"))
    run = stage.run(lanes, lane_count=2)
    assert [1, 2, 3] == lanes.started
    assert 2 == run.report.committed


def test_a_run_gives_up_when_lanes_keep_ending():
    stage = Stage(chunks=6)
    lanes = stage.lanes({index: [Attempt(Act.DIE_COMMITTED)] for index in range(1, 7)})
    with pytest.raises(LaneLostError, match="lanes keep ending"):
        stage.run(lanes)
    assert [1, 2, 3, 4] == begun(lanes)
    assert dict.fromkeys(range(1, 5), COMMITTED) == stage.statuses()
    assert lanes.closed


def test_lanes_that_cannot_open_end_the_run_before_any_claim():
    stage = Stage(chunks=3)
    lanes = stage.lanes(openings=[Opening.NEVER, Opening.BROKEN])
    with pytest.raises(ConnectionFailedError, match="no route") as failure:
        stage.run(lanes, lane_count=2)
    assert "look" == failure.value.next_step
    assert ({}, [], True) == (stage.statuses(), lanes.sent, lanes.closed)


def test_a_lane_that_dies_while_opening_ends_the_run_before_any_claim():
    stage = Stage(chunks=3)
    lanes = stage.lanes(openings=[Opening.DIES])
    with pytest.raises(LaneLostError):
        stage.run(lanes)
    assert {} == stage.statuses()


# Stops.


def test_a_stopped_campaign_lets_chunks_at_work_finish():
    stage = Stage(chunks=4)
    lanes = stage.lanes({1: [Attempt(takes=seconds(10))]})
    campaign = lambda: stage.ledger.read_campaign(stage.plan.run_key)  # noqa: E731
    lanes.at(seconds(5), lambda: cancel_campaign(stage.ledger, campaign(), reason="wrong", by=None))
    run = stage.run(lanes)
    assert (True, 1, 3, "cancel_requested") == (
        run.report.stopped,
        run.report.committed,
        run.report.left,
        run.campaign.status,
    )


def test_a_run_that_is_told_to_stop_lets_chunks_finish_within_the_grace():
    stage = Stage(chunks=4, stop_at=seconds(5))
    lanes = stage.lanes({1: [Attempt(takes=seconds(12))]})
    run = stage.run(lanes)
    assert (True, 1, 3, []) == (run.report.interrupted, run.report.committed, run.report.left, lanes.ended)
    assert ["stopping: 1 chunks may finish"] == stage.told.waits


def test_a_chunk_that_does_not_finish_within_the_grace_is_ended_and_released():
    stage = Stage(chunks=4, stop_at=seconds(5))
    lanes = stage.lanes({1: [Attempt(Act.NEVER_END)]})
    run = stage.run(lanes)
    assert (True, 0, 4, []) == (
        run.report.interrupted,
        run.report.committed,
        run.report.left,
        run.report.failures,
    )
    assert [LaneId(1)] == lanes.ended
    assert {1: PENDING} == stage.statuses()
    assert seconds(20) <= stage.clock.elapsed() < seconds(22)
    assert [EventKind.CLAIMED, EventKind.RELEASED] == kinds(stage, 1)


def test_a_commit_that_outruns_the_interruption_counts():
    stage = Stage(chunks=2, stop_at=seconds(5))
    run = stage.run(stage.lanes({1: [Attempt(Act.NEVER_END, commits_when_ended=True)]}))
    assert (1, 1) == (run.report.committed, run.report.left)
    assert {1: COMMITTED} == stage.statuses()


def test_a_stop_after_a_failure_has_its_grace_too():
    stage = Stage(chunks=4, stop_at=seconds(5))
    lanes = stage.lanes({1: [Attempt(Act.NEVER_END)], 2: [Attempt(Act.FAIL)]})
    run = stage.run(lanes, lane_count=2)
    assert (True, 1, 3) == (run.report.interrupted, len(run.report.failures), run.report.left)
    assert {1: PENDING, 2: FAILED} == stage.statuses()
    assert stage.clock.elapsed() < seconds(22)


def test_a_stop_while_waiting_ends_the_wait():
    stage = Stage(chunks=1, stop_at=seconds(30))
    stage.open()
    stage.other_claims(1)
    run = stage.run()
    assert (True, 0, 1) == (run.report.interrupted, run.report.committed, run.report.left)
    assert stage.clock.elapsed() < seconds(32)


def test_a_stop_before_the_first_claim_claims_nothing():
    stage = Stage(chunks=2, stop_at=seconds(0))
    lanes = stage.lanes()
    run = stage.run(lanes)
    assert (True, 2, {}) == (run.report.interrupted, run.report.left, stage.statuses())


def test_a_lost_fence_ends_the_run_and_releases_its_chunks():
    stage = Stage(chunks=3)
    lanes = stage.lanes({1: [Attempt(Act.NEVER_END)], 2: [Attempt(Act.NEVER_END, commits_when_ended=True)]})

    def lose() -> None:
        stage.ledger.fences[stage.plan.run_key].lose()

    lanes.at(seconds(10), lose)
    with pytest.raises(CampaignLeaseLostError):
        stage.run(lanes, lane_count=2)
    assert {1: PENDING, 2: COMMITTED} == stage.statuses()
    assert seconds(29) < stage.clock.elapsed() < seconds(35)
    assert lanes.closed


def test_whatever_ends_a_run_no_claim_is_left_behind():
    stage = Stage(chunks=4)
    lanes = stage.lanes({index: [Attempt(Act.NEVER_END)] for index in (1, 2)})

    def break_in() -> None:
        raise MemoryError

    lanes.at(seconds(3), break_in)
    with pytest.raises(MemoryError):
        stage.run(lanes, lane_count=2)
    assert {1: PENDING, 2: PENDING} == stage.statuses()
    assert ((), True) == (lanes.alive, lanes.closed)


def test_a_chunk_that_could_not_be_sent_is_released():
    stage = Stage(chunks=2)
    lanes = stage.lanes()

    def refuse(lane, request):
        raise MemoryError

    lanes.send = refuse
    with pytest.raises(MemoryError):
        stage.run(lanes)
    assert {1: PENDING} == stage.statuses()


def test_the_observer_is_told_of_progress_and_of_every_turn():
    stage = Stage(chunks=1)
    lanes = stage.lanes({1: [Attempt(takes=seconds(4))]})
    lanes.say(seconds(2), LaneEvent(LaneId(1), LaneEventKind.PROGRESS, 1, bytes_moved=512))
    stage.run(lanes)
    assert 512 == stage.told.bytes_moved
    assert len(stage.told.ticks) >= 8
    assert 1 == max(stage.told.ticks)


# Going on after failures.


def failing(*indexes: int) -> dict[int, list[Attempt]]:
    return {index: [Attempt(Act.FAIL)] for index in indexes}


def test_without_a_limit_the_first_failure_ends_the_run():
    stage = Stage(chunks=5)
    run = stage.run(stage.lanes(failing(2)))
    assert ([2], 3) == ([failure.chunk_index for failure in run.report.failures], run.report.left)
    assert CampaignStatus.OPEN is run.campaign.status


def test_with_a_limit_a_run_goes_on_until_the_campaign_is_halted():
    stage = Stage(chunks=6)
    run = stage.run(stage.lanes(failing(1, 3, 4)), stop_after_failures=3)
    assert [1, 3, 4] == [failure.chunk_index for failure in run.report.failures]
    assert (1, 2, True) == (run.report.committed, run.report.left, run.report.stopped)
    assert CampaignStatus.HALTED is run.campaign.status
    assert {1: FAILED, 2: COMMITTED, 3: FAILED, 4: FAILED} == stage.statuses()


def test_fewer_failures_than_the_limit_leave_the_campaign_open_and_nothing_unbegun():
    stage = Stage(chunks=5)
    run = stage.run(stage.lanes(failing(2, 4)), stop_after_failures=3)
    assert [2, 4] == [failure.chunk_index for failure in run.report.failures]
    assert (3, 0, False) == (run.report.committed, run.report.left, run.report.stopped)
    assert CampaignStatus.OPEN is run.campaign.status


def test_chunks_at_work_may_finish_when_the_campaign_is_halted():
    stage = Stage(chunks=6)
    slow = {2: [Attempt(takes=seconds(30))], **failing(1)}
    run = stage.run(stage.lanes(slow), lane_count=2, stop_after_failures=1)
    assert ({1: FAILED, 2: COMMITTED}, 4) == (stage.statuses(), run.report.left)
    assert any("1 chunks may finish" in told for told in stage.told.waits)


def test_a_halt_by_another_run_lets_no_chunk_begin():
    stage = Stage(chunks=5)
    stage.open()
    other = stage.other_claims(5)
    lanes = stage.lanes()

    def fail_elsewhere() -> None:
        claims = ChunkClaims(
            stage.ledger, stage.plan, max_active=None, dag_run_id=None, stop_after_failures=1
        )
        assert claims.fail(other.record, "DPONE_BACKFILL_CHUNK_FAILED", "no")

    lanes.at(seconds(1.5), fail_elsewhere)
    run = stage.run(lanes, stop_after_failures=1)
    assert (CampaignStatus.HALTED, [], True) == (
        run.campaign.status,
        run.report.failures,
        run.report.stopped,
    )
    assert 0 < run.report.left


def test_a_chunk_that_nobody_knows_the_end_of_ends_a_run_with_a_limit_too():
    stage = Stage(chunks=5)
    stage.open()
    lanes = stage.lanes({1: [Attempt(Act.COMMIT, takes=seconds(20))]})

    def take_over() -> None:
        stage.clock.advance(LEASE_TTL)
        # The first look ends whoever holds the chunk's lock, the second one claims it.
        assert [False, True] == [stage.other_claims(1).record is not None for _ in range(2)]

    lanes.at(seconds(5), take_over)
    run = stage.run(lanes, stop_after_failures=9)
    assert ["DPONE_BACKFILL_CHUNK_LEASE_LOST"] == [failure.code for failure in run.report.failures]
    assert 4 == run.report.left


def test_a_failure_that_passes_by_itself_does_not_halt():
    stage = Stage(chunks=3)
    run = stage.run(stage.lanes({2: [Attempt(Act.FAIL, transient=True)]}), stop_after_failures=1)
    assert (3, []) == (run.report.committed, run.report.failures)
    assert CampaignStatus.COMPLETE is run.campaign.status


# Beginning anew, and what is chosen.


def test_a_restart_loads_everything_again_in_a_round_of_its_own():
    stage = Stage(chunks=3)
    assert CampaignStatus.COMPLETE is stage.run().campaign.status
    run = stage.run(restart=True, reason="by hand")
    assert (3, 0, 2) == (run.report.committed, run.report.skipped, run.campaign.round)
    assert CampaignStatus.COMPLETE is run.campaign.status


def test_a_restart_is_refused_while_another_run_has_the_campaign():
    stage = Stage(chunks=3)
    stage.run()
    with stage.ledger.fence(stage.plan.run_key), pytest.raises(CampaignBusyError):
        stage.run(restart=True, reason="by hand")
    assert 1 == stage.ledger.read_campaign(stage.plan.run_key).round


def test_failed_chunks_are_chosen_over_several_pages(monkeypatch):
    monkeypatch.setattr("dpone_runtime.services.run_campaign._PAGE", 2)
    stage = Stage(chunks=9)
    stage.run(stage.lanes(failing(1, 2, 4, 5, 8)), stop_after_failures=9)
    run = stage.run(policy=RetryPolicy.FAILED_ONLY)
    assert (5, 5, 0) == (run.report.selected, run.report.committed, run.report.skipped)
    assert CampaignStatus.COMPLETE is run.campaign.status


def test_what_is_committed_is_read_over_several_pages(monkeypatch):
    monkeypatch.setattr("dpone_runtime.services.run_campaign._PAGE", 2)
    stage = Stage(chunks=9)
    stage.run(stage.lanes(failing(3, 6, 8)), stop_after_failures=9)
    run = stage.run(first=2, last=8)
    assert (7, 4, 3) == (run.report.selected, run.report.skipped, run.report.committed)
