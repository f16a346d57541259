"""A ledger that cannot commit with the rows: the coordinator records what a lane has committed, or loads it again."""

from datetime import timedelta

from dpone_contract.errors import ChunkLeaseLostError
from dpone_runtime.adapters.memory.ledger import MemoryLedger
from dpone_runtime.domain.chunk_record import ChunkStatus
from tests.unit.runtime.campaign_runs import Stage
from tests.unit.runtime.scripted_lanes import Act, Attempt

EVERY_CHUNK = dict.fromkeys(range(1, 6), ChunkStatus.COMMITTED)


class LedgerElsewhere(MemoryLedger):
    """What a sink commits, it does not see; it is told afterwards."""

    def complete_chunk(self, request, rows_extracted, rows_loaded):
        """Rows are in the target, and nothing is recorded."""

    def record_commit(self, request, receipt):
        super().complete_chunk(request, receipt.rows_extracted, receipt.rows_loaded)


def stage() -> Stage:
    found = Stage()
    found.ledger = LedgerElsewhere(found.clock.now)
    return found


def test_every_commit_is_recorded_with_its_rows() -> None:
    here = stage()
    run = here.run(here.lanes({2: [Attempt(rows=7)]}))
    assert EVERY_CHUNK == here.statuses()
    assert (5, 47, 47) == (run.report.committed, run.report.rows_extracted, run.report.rows_loaded)
    assert [10, 7, 10, 10, 10] == [
        here.ledger.read_chunk(here.plan.run_key, index).rows_loaded for index in range(1, 6)
    ]


def test_a_commit_that_nobody_told_of_is_loaded_again() -> None:
    here = stage()
    run = here.run(here.lanes({2: [Attempt(Act.DIE_COMMITTED)]}))
    assert ["DPONE_BACKFILL_LANE_LOST"] == [failure.code for failure in run.report.failures]
    assert {1: ChunkStatus.COMMITTED, 2: ChunkStatus.FAILED} == here.statuses()
    here.run()
    assert EVERY_CHUNK == here.statuses()
    assert 2 == here.ledger.read_chunk(here.plan.run_key, 2).attempt


def test_a_commit_whose_answer_was_lost_is_loaded_again_at_once() -> None:
    here = stage()
    run = here.run(here.lanes({2: [Attempt(Act.UNKNOWN_COMMITTED)]}))
    assert ([], EVERY_CHUNK) == (run.report.failures, here.statuses())
    assert 2 == here.ledger.read_chunk(here.plan.run_key, 2).attempt


def test_a_commit_of_a_chunk_that_another_attempt_owns_is_no_success() -> None:
    here = stage()
    lanes = here.lanes({1: [Attempt(takes=timedelta(seconds=20))]})

    def take() -> None:
        here.clock.advance(timedelta(seconds=91))
        here.ledger.end_holders(here.plan.run_key, 1)
        assert here.other_claims(1).request is not None

    lanes.at(timedelta(seconds=19), take)
    run = here.run(lanes)
    assert [ChunkLeaseLostError.code.value] == [failure.code for failure in run.report.failures]
    assert (0, 2) == (run.report.committed, here.ledger.read_chunk(here.plan.run_key, 1).attempt)
    assert ChunkStatus.RUNNING is here.statuses()[1]
