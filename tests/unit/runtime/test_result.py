"""What a run's end becomes: exit code, error, outcome document, a line for people."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dpone_contract.canonical import canonical_json
from dpone_contract.errors import ChunkFailedError, ExitCode, InterruptedRunError, UsageError
from dpone_contract.manifest import RetryPolicy
from dpone_contract.mapping_item import mapping_item
from dpone_contract.outcome import OutcomeStatus, parse_outcome
from dpone_contract.process import plan_campaign, process_digest
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.evidence import Evidence
from dpone_runtime.result import error_of, exit_code_of, passed_or_failed, refused, summary, write_outcome
from dpone_runtime.run_context import RunContext
from dpone_runtime.services.open_campaign import OpenedCampaign, Opening
from dpone_runtime.services.run_campaign import CampaignRun
from dpone_runtime.services.run_report import Failure, RunReport
from tests.campaign_factories import FixedClock, make_campaign
from tests.factories import make_process
from tests.unit.runtime.campaign_runs import Stage
from tests.unit.runtime.scripted_lanes import Act, Attempt


def failure(*, infrastructure=False, index=2, code="DPONE_BACKFILL_CHUNK_FAILED", message="the rows are bad"):
    return Failure(index, 1, code, message, None, infrastructure)


LOST = failure(infrastructure=True, index=3, code="DPONE_BACKFILL_LANE_LOST", message="killed")


def make_run(report: RunReport, status=CampaignStatus.OPEN) -> CampaignRun:
    campaign = make_campaign(status=status)
    return CampaignRun(OpenedCampaign(campaign, Opening.FOUND), campaign, report.committed, report, 2.5)


@pytest.mark.parametrize(
    "report, code",
    [
        (RunReport(selected=3, committed=3), ExitCode.DONE),
        (RunReport(selected=3, skipped=3), ExitCode.DONE),
        (RunReport(selected=3, failures=[failure()], left=2), ExitCode.CHUNKS_FAILED),
        (RunReport(selected=3, failures=[LOST], left=2), ExitCode.OWNERSHIP_OR_INFRASTRUCTURE),
        (RunReport(selected=3, failures=[LOST, failure()], left=1), ExitCode.CHUNKS_FAILED),
        (RunReport(selected=3, interrupted=True, left=3), ExitCode.OWNERSHIP_OR_INFRASTRUCTURE),
        (RunReport(selected=3, stopped=True, left=1), ExitCode.REFUSED),
        (RunReport(selected=3, interrupted=True, failures=[failure()], left=2), ExitCode.CHUNKS_FAILED),
    ],
)
def test_the_exit_code(report, code):
    assert code is exit_code_of(make_run(report))
    error = error_of(make_run(report))
    assert (code is ExitCode.DONE) is (error is None)


def test_the_error_of_failed_chunks_is_the_first_one():
    error = error_of(make_run(RunReport(selected=5, failures=[failure(), LOST], left=3)))
    assert isinstance(error, ChunkFailedError)
    assert "chunk 2 failed at attempt 1: the rows are bad (and 1 more)" == error.message
    assert "chunk 2" in error.where


def test_an_interrupted_run_says_what_is_left():
    error = error_of(make_run(RunReport(selected=5, committed=2, interrupted=True, left=3)))
    assert isinstance(error, InterruptedRunError)
    assert "2 chunks were committed, 3 are left" in error.message


def test_an_interrupted_run_that_had_done_everything_has_passed():
    assert error_of(make_run(RunReport(selected=2, committed=2, interrupted=True))) is None


def outcome_of(stage, lanes=None, **selection):
    process = make_process(mode="internal", chunks=stage.chunks)
    planned = plan_campaign(process)
    run = stage.run(lanes, **selection)
    return (
        passed_or_failed(
            process,
            planned,
            RunContext(),
            run,
            stage.ledger,
            policy=RetryPolicy.NON_COMMITTED,
            evidence=Evidence(),
        ),
        run,
        planned,
        process,
    )


def test_the_outcome_of_a_run_that_passed():
    outcome, _, planned, process = outcome_of(Stage(chunks=3))
    backfill = outcome.backfill
    assert (OutcomeStatus.PASSED, 0, None) == (outcome.status, outcome.exit_code, outcome.error)
    assert (3, 3, 0, 0, 3, 3, "success", "complete", 30) == (
        backfill.chunks_selected,
        backfill.chunks_committed,
        backfill.chunks_skipped_resume,
        backfill.chunks_failed,
        backfill.chunks_total,
        backfill.campaign_chunks_committed,
        backfill.operation_status,
        backfill.campaign_status,
        backfill.rows_loaded,
    )
    assert (process_digest(process), planned.plan_hash) == (outcome.process_digest, backfill.plan_hash)
    assert "ok" == backfill.verification["status"]
    assert "memory" == backfill.state_backend
    assert outcome == parse_outcome(canonical_json(outcome.to_document()))


def test_the_outcome_of_a_run_that_failed_shows_five_chunks_at_most():
    stage = Stage(chunks=9)
    script = {index: [Attempt(Act.FAIL, takes=timedelta(seconds=5))] for index in range(1, 10)}
    outcome, run, _, _ = outcome_of(stage, stage.lanes(script), lane_count=7)
    assert (OutcomeStatus.FAILED, 1, "failed", 7) == (
        outcome.status,
        outcome.exit_code,
        outcome.backfill.operation_status,
        outcome.backfill.chunks_failed,
    )
    assert 5 == len(outcome.backfill.failures)
    assert "2013-01-01" == outcome.backfill.failures[0].window
    assert "DPONE_BACKFILL_CHUNK_FAILED" == outcome.error.code
    assert "7 failed; 2 not begun" in summary(plan_campaign(make_process(chunks=9)), run, Evidence())


def test_rows_that_differ_are_a_warning():
    process = make_process(mode="internal", chunks=5)
    run = make_run(RunReport(selected=5, committed=5, rows_extracted=10, rows_loaded=9))
    ledger = Stage().ledger
    outcome = passed_or_failed(
        process,
        plan_campaign(process),
        RunContext(),
        run,
        ledger,
        policy=RetryPolicy.FAILED_ONLY,
        evidence=Evidence(),
    )
    told = outcome.backfill.verification
    assert ("warning", 10, 9) == (told["status"], told["rows_extracted"], told["rows_loaded"])
    # What the run went by, not what its manifest says.
    assert "failed_only" == outcome.backfill.retry_policy


def test_the_error_of_a_halted_campaign_says_what_lifts_the_halt():
    run = make_run(RunReport(selected=5, failures=[failure()], left=4), status=CampaignStatus.HALTED)
    error = error_of(run)
    assert "the campaign is halted" in error.message
    assert error.next_step.endswith("dpone backfill resume MANIFEST --reason ...")


def test_a_mapped_outcome_names_its_item():
    process = make_process(items=4)
    planned = plan_campaign(process)
    mapping = planned.mapping_plan(process.mapping)
    item = mapping_item(mapping, mapping.items[2])
    run = Stage(chunks=4).run(first=3, last=3, mapped=True)
    outcome = passed_or_failed(
        process,
        planned,
        RunContext(item=item),
        run,
        Stage().ledger,
        policy=RetryPolicy.NON_COMMITTED,
        evidence=Evidence(),
    )
    found = outcome.backfill.mapping
    assert (2, 3, 3, 1, "success", mapping.plan_fingerprint) == (
        found.item_index,
        found.first_chunk_index,
        found.last_chunk_index,
        found.chunks_count,
        found.item_status,
        found.plan_fingerprint,
    )


def test_a_refused_run_has_an_outcome_too():
    outcome = refused(UsageError("no", next_step="yes"), None, None)
    assert (OutcomeStatus.FAILED, 2, "DPONE_USAGE", "yes") == (
        outcome.status,
        outcome.exit_code,
        outcome.error.code,
        outcome.error.next_step,
    )
    assert 2000 == len(refused(UsageError("x" * 9000), make_process(), RunContext()).error.message)


def test_an_outcome_is_written_in_one_piece(tmp_path):
    path = tmp_path / "return.json"
    path.write_bytes(b"old")
    outcome = refused(UsageError("no"), None, None)
    write_outcome(outcome, path)
    assert outcome == parse_outcome(path.read_bytes())
    assert [path] == list(tmp_path.iterdir())


def test_an_outcome_that_cannot_be_written_leaves_nothing(tmp_path):
    path = tmp_path / "return.json"
    path.mkdir()
    with pytest.raises(OSError, match=r"."):
        write_outcome(refused(UsageError("no"), None, None), path)
    assert [path] == list(tmp_path.iterdir())


def test_a_run_with_nothing_to_do_says_so():
    stage = Stage(chunks=3, clock=FixedClock())
    stage.run()
    told = summary(plan_campaign(make_process(chunks=3)), stage.run(), Evidence())
    assert (
        "no row moved; 3 of 3 selected chunks were committed before and are skipped" == told.splitlines()[0]
    )
    assert "complete, 3 of 3 chunks committed in round 1" in told
