"""Only a document that says passed, for exactly what was asked for, is a success."""

import pytest

from airflow_provider_dpone.outcomes import ExpectedOutcome, require_passed
from dpone_contract.errors import OutcomeInvalidError, OutcomeNotPassedError, RunContextInvalidError
from dpone_contract.mapping_item import mapping_item
from dpone_contract.outcome import (
    OUTCOME_SIZE_LIMIT_BYTES,
    AttemptIdentity,
    ChunkFailure,
    OutcomeError,
)
from dpone_contract.process import plan_campaign, process_digest
from tests.factories import DIGEST, make_outcome, make_process

PROCESS = make_process(items=4, chunks=10)
PLAN = plan_campaign(PROCESS).mapping_plan(PROCESS.mapping)
ITEMS = [mapping_item(PLAN, item) for item in PLAN.items]
ITEM = ITEMS[1]
ATTEMPT = AttemptIdentity(dag_id="flights_history", dag_run_id="manual__1", try_number=1)
MAPPED = ExpectedOutcome(process_digest(PROCESS), ATTEMPT, ITEM)
WHOLE = ExpectedOutcome(process_digest(PROCESS), ATTEMPT)
OTHER = make_process("other", items=4, chunks=10)


def to_bytes(outcome):
    return outcome.model_dump_json(by_alias=True).encode()


def of_item(item=ITEM, **changes):
    return make_outcome(PROCESS, item, attempt=ATTEMPT, **changes)


def with_mapping(outcome, **changes):
    return outcome.replaced(
        backfill=outcome.backfill.replaced(mapping=outcome.backfill.mapping.replaced(**changes))
    )


@pytest.mark.parametrize("item, expected", [(ITEM, MAPPED), (None, WHOLE)], ids=["mapped", "whole"])
@pytest.mark.parametrize("exit_code", [0, None])
def test_the_outcome_of_this_very_run_passes(item, expected, exit_code):
    outcome = of_item(item)
    assert require_passed(to_bytes(outcome), expected, exit_code) == outcome


FOREIGN = {
    "another item": of_item(ITEMS[2]),
    "another attempt": of_item().replaced(attempt=ATTEMPT.replaced(try_number=2)),
    "another run": of_item().replaced(attempt=ATTEMPT.replaced(dag_run_id="manual__2")),
    "another dag": of_item().replaced(attempt=ATTEMPT.replaced(dag_id="other")),
    "no attempt": of_item().replaced(attempt=AttemptIdentity()),
    "another process": of_item().replaced(process_digest=process_digest(OTHER)),
    "no process": of_item().replaced(process_digest=None),
    "another mapping plan": with_mapping(of_item(), plan_fingerprint=DIGEST),
    "another chunk plan": with_mapping(of_item(), backfill_plan_hash=DIGEST),
    "another mode": with_mapping(of_item(), mode="visible"),
    "another first chunk": with_mapping(of_item(), first_chunk_index=3),
    "another last chunk": with_mapping(of_item(), last_chunk_index=7),
    "another count": with_mapping(of_item(), chunks_count=9),
    "no item": of_item(None),
    "no counters": of_item().replaced(backfill=None),
    "item failed": with_mapping(of_item(), item_status="failed"),
    "own exit code": of_item(exit_code=1),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_passed_of_something_else_is_refused(name):
    with pytest.raises(OutcomeInvalidError):
        require_passed(to_bytes(FOREIGN[name]), MAPPED, 0)


def test_passed_of_an_item_is_no_evidence_for_a_whole_run():
    with pytest.raises(OutcomeInvalidError, match="not of this mapping item"):
        require_passed(to_bytes(of_item()), WHOLE, 0)


DAMAGED = {
    "none": None,
    "empty": b"",
    "truncated": to_bytes(of_item())[:-20],
    "oversize": b" " * (OUTCOME_SIZE_LIMIT_BYTES + 1),
    "no object": b"[]",
    "unknown field": b'{"status":"passed","exit_code":0,"more":1}',
    "other schema": to_bytes(of_item()).replace(b"run-outcome.v1", b"run-outcome.v9"),
    "not utf-8": b"\xff\xfe",
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("exit_code", [0, 1, -9, None])
def test_missing_and_damaged_evidence_is_a_failure(name, exit_code):
    with pytest.raises(OutcomeInvalidError) as caught:
        require_passed(DAMAGED[name], MAPPED, exit_code)
    assert str(MAPPED) == caught.value.where
    assert "committed chunks will be skipped on retry" in (caught.value.next_step or "")


def test_a_signal_is_named():
    with pytest.raises(OutcomeInvalidError, match=r"left no outcome \(ended by signal 9\)"):
        require_passed(None, MAPPED, -9)


@pytest.mark.parametrize("exit_code", [1, 2, 3, 5, -9, -15])
def test_passed_with_another_exit_code_is_refused(exit_code):
    with pytest.raises(OutcomeInvalidError, match="says passed, but the run ended with"):
        require_passed(to_bytes(of_item()), MAPPED, exit_code)


@pytest.mark.parametrize("name", ["DPONE_DAG_ID", "DPONE_DAG_RUN_ID", "DPONE_TRY_NUMBER"])
def test_a_task_that_does_not_know_its_attempt_expects_nothing(name):
    env = {"DPONE_DAG_ID": "d", "DPONE_DAG_RUN_ID": "r", "DPONE_TRY_NUMBER": "1", name: ""}
    with pytest.raises(RunContextInvalidError, match="which attempt"):
        ExpectedOutcome.of_env(env)


def test_failed_shows_the_runs_own_error_and_first_failures():
    failures = tuple(
        ChunkFailure(chunk_index=n, window=f"2013-01-0{n}", attempt=1, code="DPONE_X", message=f"cause {n}")
        for n in range(1, 6)
    )
    error = OutcomeError(
        code="DPONE_BACKFILL_CHUNK_FAILED",
        message="5 chunks failed",
        where="chunk 1",
        next_step="mend the view",
    )
    with pytest.raises(OutcomeNotPassedError) as caught:
        require_passed(to_bytes(of_item(status="failed", failures=failures, error=error)), MAPPED, 1)
    assert str(caught.value) == (
        "DPONE_OUTCOME_NOT_PASSED: the run did not pass: DPONE_BACKFILL_CHUNK_FAILED: 5 chunks failed; "
        "chunk 1 (2013-01-01): DPONE_X: cause 1; chunk 2 (2013-01-02): DPONE_X: cause 2; "
        "chunk 3 (2013-01-03): DPONE_X: cause 3; 2 more failed | at chunk 1 | "
        "next: mend the view; committed chunks will be skipped on retry"
    )


def test_failed_before_it_knew_itself_still_shows_its_error():
    error = OutcomeError(code="DPONE_RUN_CONTEXT_INVALID", message="the item is damaged")
    refused = of_item(status="failed", error=error).replaced(
        attempt=AttemptIdentity(), process_digest=None, backfill=None, exit_code=2
    )
    with pytest.raises(OutcomeNotPassedError, match="DPONE_RUN_CONTEXT_INVALID: the item is damaged"):
        require_passed(to_bytes(refused), MAPPED, 2)


def test_failed_of_another_attempt_is_not_shown_as_ours():
    foreign = of_item(status="failed").replaced(attempt=ATTEMPT.replaced(try_number=7))
    with pytest.raises(OutcomeInvalidError, match="another try number: 7 instead of 1"):
        require_passed(to_bytes(foreign), MAPPED, 1)


def test_failed_without_any_reason_says_so():
    failed = of_item(status="failed").replaced(backfill=None)
    with pytest.raises(OutcomeNotPassedError, match="no reason is given"):
        require_passed(to_bytes(failed), MAPPED, 1)


def test_failed_chunks_are_counted_where_none_is_described():
    with pytest.raises(OutcomeNotPassedError, match=": 1 failed"):
        require_passed(to_bytes(of_item(status="failed")), MAPPED, 1)


def test_failed_with_exit_code_zero_is_a_failure():
    with pytest.raises(OutcomeNotPassedError):
        require_passed(to_bytes(of_item(status="failed")), MAPPED, 0)
