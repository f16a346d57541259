"""Failures that may pass by themselves: tried again within bounds, with waits that hold no lease and end with the run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dpone_contract.errors import DatabaseFailedError, ExitCode
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.event import EventKind
from dpone_runtime.domain.retry_rule import RetryRule
from dpone_runtime.result import error_of, exit_code_of
from dpone_runtime.services.open_campaign import cancel_campaign
from tests.unit.runtime.campaign_runs import Stage
from tests.unit.runtime.scripted_lanes import Act, Attempt

COMMITTED, FAILED = ChunkStatus.COMMITTED, ChunkStatus.FAILED
FAILS = Attempt(Act.FAIL, code="DPONE_DATABASE_FAILED", transient=True)
CLAIM_AND_FAIL = [EventKind.CLAIMED, EventKind.FAILED]


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def kinds(stage: Stage, index: int) -> list[EventKind]:
    return [event.kind for event in stage.ledger.events if event.chunk_index == index]


@pytest.mark.parametrize(
    "failed_tries, wait", [(1, seconds(1)), (2, seconds(4)), (3, None), (4, None)], ids=str
)
def test_a_chunk_is_tried_three_times_by_default(failed_tries: int, wait: timedelta | None):
    assert wait == RetryRule().wait_after(failed_tries)


def test_the_number_of_tries_and_the_waits_are_arguments():
    rule = RetryRule(tries=4, first_wait=seconds(2), factor=3)
    assert [seconds(2), seconds(6), seconds(18), None] == [rule.wait_after(tries) for tries in (1, 2, 3, 4)]


def test_a_failure_that_passes_costs_a_second_attempt_and_no_chunk():
    stage = Stage(chunks=3)
    lanes = stage.lanes({2: [FAILS]})
    run = stage.run(lanes)
    # The others go on meanwhile: a wait of one chunk is not the run's.
    assert [1, 2, 3, 2] == [index for _, _, index in lanes.sent]
    assert (3, [], "complete") == (run.report.committed, run.report.failures, run.campaign.status)
    assert [*CLAIM_AND_FAIL, EventKind.CLAIMED, EventKind.COMMITTED] == kinds(stage, 2)
    assert 2 == stage.ledger.read_chunk(stage.plan.run_key, 2).attempt
    assert ["chunk 2 is tried again in 1 s: the rows are bad"] == stage.told.waits
    assert [] == stage.told.failures


def test_each_wait_is_longer_than_the_one_before_and_holds_no_lease():
    stage = Stage(chunks=1)
    lanes = stage.lanes({1: [FAILS, FAILS]})
    seen = []
    for when in (1.6, 5):
        lanes.at(seconds(when), lambda: seen.append(stage.statuses()[1]))
    run = stage.run(lanes)
    first, second, third = (at for at, _, _ in lanes.sent)
    # A second of work each, then the wait, looked at twice a second.
    assert seconds(2) <= second - first < seconds(2.6)
    assert seconds(5) <= third - second < seconds(5.6)
    assert [FAILED, FAILED] == seen
    assert 1 == run.report.committed


def test_after_its_last_try_a_chunk_fails_and_says_how_often_it_was_tried():
    stage = Stage(chunks=3)
    run = stage.run(stage.lanes({1: [FAILS] * 9}), last=1)
    (failure,) = run.report.failures
    assert (3, "the rows are bad (tried 3 times)", True) == (
        failure.attempt,
        failure.message,
        failure.infrastructure,
    )
    assert CLAIM_AND_FAIL * 3 == kinds(stage, 1)
    record = stage.ledger.read_chunk(stage.plan.run_key, 1)
    assert (FAILED, 3, "the rows are bad (tried 3 times)") == (
        record.status,
        record.attempt,
        record.error_message,
    )
    assert ExitCode.OWNERSHIP_OR_INFRASTRUCTURE is exit_code_of(run)
    assert "failed at attempt 3" in str(error_of(run))
    assert [failure] == stage.told.failures


def test_a_failure_of_the_rows_is_not_tried_again():
    stage = Stage(chunks=2)
    run = stage.run(stage.lanes({1: [Attempt(Act.FAIL)]}))
    assert CLAIM_AND_FAIL == kinds(stage, 1)
    assert ["the rows are bad"] == [failure.message for failure in run.report.failures]


def test_a_commit_that_was_answered_by_nobody_and_did_not_happen_is_tried_again():
    stage = Stage(chunks=2)
    run = stage.run(stage.lanes({1: [Attempt(Act.UNKNOWN_UNDONE)]}))
    assert (2, []) == (run.report.committed, run.report.failures)
    assert [*CLAIM_AND_FAIL, EventKind.CLAIMED, EventKind.COMMITTED] == kinds(stage, 1)


def test_a_failure_of_other_rows_ends_the_wait_and_both_are_told():
    stage = Stage(chunks=4)
    lanes = stage.lanes({1: [FAILS], 2: [Attempt(Act.FAIL, takes=seconds(1.5))]})
    run = stage.run(lanes, lane_count=2)
    assert [(2, 1), (1, 1)] == [(each.chunk_index, each.attempt) for each in run.report.failures]
    assert run.report.failures == stage.told.failures
    assert CLAIM_AND_FAIL == kinds(stage, 1)
    assert ExitCode.CHUNKS_FAILED is exit_code_of(run)


def test_a_stop_ends_the_wait_at_once_and_leaves_the_chunk_for_the_next_run():
    stage = Stage(chunks=1, stop_at=seconds(3))
    run = stage.run(stage.lanes({1: [FAILS, FAILS]}))
    assert (True, 0, 1, []) == (
        run.report.interrupted,
        run.report.committed,
        run.report.left,
        run.report.failures,
    )
    assert stage.clock.elapsed() <= seconds(3.5)
    assert {1: FAILED} == stage.statuses()
    stage.stop_at = None
    assert 1 == stage.run().report.committed


def test_a_cancelled_campaign_ends_the_wait():
    stage = Stage(chunks=1)
    lanes = stage.lanes({1: [FAILS, FAILS]})
    campaign = lambda: stage.ledger.read_campaign(stage.plan.run_key)  # noqa: E731
    lanes.at(seconds(1.5), lambda: cancel_campaign(stage.ledger, campaign(), reason="wrong", by=None))
    run = stage.run(lanes)
    assert (True, 0, 1) == (run.report.stopped, run.report.committed, run.report.left)
    assert stage.clock.elapsed() < seconds(3)


def test_another_run_may_take_a_chunk_that_waits():
    stage = Stage(chunks=1)
    lanes = stage.lanes({1: [FAILS]})

    def take_over() -> None:
        claim = stage.other_claims(1)
        stage.ledger.complete_chunk(claim.request, 3, 3)

    lanes.at(seconds(1.5), take_over)
    run = stage.run(lanes)
    assert (0, 1, []) == (run.report.committed, run.report.skipped, run.report.failures)
    assert {1: COMMITTED} == stage.statuses()


# A ledger that does not answer.


def let_ledger_be_away(stage: Stage, since: float, until: float) -> None:
    """Between two moments every change of the ledger fails, as it does while its server restarts."""
    transition, renew = stage.ledger.transition, stage.ledger.renew

    def away() -> bool:
        return seconds(since) <= stage.clock.elapsed() < seconds(until)

    def refuse() -> None:
        if away():
            raise DatabaseFailedError("the connection broke", transient=True)

    def change(*given):
        refuse()
        return transition(*given)

    def prolong(*given):
        refuse()
        return renew(*given)

    stage.ledger.transition, stage.ledger.renew = change, prolong


AWAY = "the ledger does not answer; asking again for up to 30 s: the connection broke"


def test_a_failure_that_the_ledger_could_not_take_is_told_it_later_and_tried_again():
    stage = Stage(chunks=2)
    lanes = stage.lanes({1: [FAILS]})
    let_ledger_be_away(stage, 1, 9)
    run = stage.run(lanes)
    assert (2, []) == (run.report.committed, run.report.failures)
    assert [*CLAIM_AND_FAIL, EventKind.CLAIMED, EventKind.COMMITTED] == kinds(stage, 1)
    assert [AWAY, "chunk 1 is tried again in 1 s: the rows are bad"] == stage.told.waits


def test_a_claim_that_the_ledger_does_not_take_is_made_later():
    stage = Stage(chunks=2)
    let_ledger_be_away(stage, 1, 20)
    run = stage.run()
    assert (2, 0) == (run.report.committed, run.report.left)
    assert [EventKind.CLAIMED, EventKind.COMMITTED] == kinds(stage, 2)
    assert seconds(20) < stage.clock.elapsed() < seconds(23)


def test_a_renewal_that_the_ledger_does_not_take_is_made_later():
    stage = Stage(chunks=1)
    let_ledger_be_away(stage, 29, 55)
    run = stage.run(stage.lanes({1: [Attempt(takes=seconds(140))]}))
    assert (1, []) == (run.report.committed, run.report.failures)
    assert [AWAY] == stage.told.waits


@pytest.mark.parametrize(
    "first", [Attempt(), FAILS, Attempt(takes=seconds(500))], ids=["claim", "failure", "renewal"]
)
def test_a_ledger_that_stays_away_ends_the_run(first: Attempt):
    stage = Stage(chunks=2)
    lanes = stage.lanes({1: [first]})
    let_ledger_be_away(stage, 1, 10_000)
    with pytest.raises(DatabaseFailedError, match="the connection broke"):
        stage.run(lanes)
    assert lanes.closed
    assert seconds(30) < stage.clock.elapsed() < seconds(75)


def test_a_refusal_that_time_does_not_mend_ends_the_run_at_once():
    stage = Stage(chunks=2)
    lanes = stage.lanes()

    def refuse(*given):
        raise DatabaseFailedError("permission denied")

    lanes.at(seconds(0.5), lambda: setattr(stage.ledger, "transition", refuse))
    with pytest.raises(DatabaseFailedError, match="permission denied"):
        stage.run(lanes)
    assert stage.clock.elapsed() < seconds(3)
