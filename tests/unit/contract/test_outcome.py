"""An outcome is evidence: what is truncated, oversize or of another shape is none."""

import json

import pytest

from dpone_contract.errors import OutcomeInvalidError
from dpone_contract.mapping_item import mapping_item
from dpone_contract.outcome import (
    MAX_FAILURES_SHOWN,
    MESSAGE_LIMIT,
    OUTCOME_SIZE_LIMIT_BYTES,
    ChunkFailure,
    OutcomeError,
    OutcomeStatus,
    parse_outcome,
)
from dpone_contract.process import plan_campaign
from tests.factories import make_outcome, make_process

PROCESS = make_process()
MAPPING = plan_campaign(PROCESS).mapping_plan(PROCESS.mapping)
ITEM = mapping_item(MAPPING, MAPPING.items[1])
FAILURE = ChunkFailure(
    chunk_index=2, window="2013-01-02", attempt=1, code="DPONE_DATABASE_FAILED", message="no"
)


def failed(failures=1, message="no"):
    failure = FAILURE.replaced(message=message)
    error = OutcomeError(code=failure.code, message=message)
    return make_outcome(PROCESS, ITEM, status="failed", failures=(failure,) * failures, error=error)


def data_of(outcome=None, **changes):
    """Give an outcome's bytes with keys changed by their path: `backfill__mapping__item_index=1`."""
    document = (outcome or make_outcome(PROCESS, ITEM)).to_document()
    for name, value in changes.items():
        holder, path = document, name.split("__")
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "outcome", [make_outcome(PROCESS), make_outcome(PROCESS, ITEM), failed(), failed(5, "x" * MESSAGE_LIMIT)]
)
def test_an_outcome_comes_back_as_it_was(outcome):
    assert outcome == parse_outcome(data_of(outcome))


def test_a_run_that_never_began_needs_only_a_status_and_an_exit_code():
    outcome = parse_outcome(b'{"status": "failed", "exit_code": 5}')
    assert (OutcomeStatus.FAILED, 5, None, None) == (
        outcome.status,
        outcome.exit_code,
        outcome.backfill,
        outcome.attempt.try_number,
    )


def test_every_shortened_outcome_is_refused():
    data = data_of()
    for length in range(len(data)):
        with pytest.raises(OutcomeInvalidError, match="the outcome is malformed") as caught:
            parse_outcome(data[:length])
        assert caught.value.next_step


@pytest.mark.parametrize(
    "changes, place",
    [
        ({"schema": "dpone.run-outcome.v2"}, "schema"),
        ({"status": "success"}, "status"),
        ({"status": "PASSED"}, "status"),
        ({"status": None}, "status"),
        ({"status": True}, "status"),
        ({"exit_code": -1}, "exit_code"),
        ({"exit_code": 256}, "exit_code"),
        ({"exit_code": True}, "exit_code"),
        ({"exit_code": 0.0}, "exit_code"),
        ({"process_digest": "sha256:1"}, "process_digest"),
        ({"attempt__try_number": "1"}, "attempt.try_number"),
        ({"attempt__host": "x"}, "attempt.host"),
        ({"backfill__plan_hash": ""}, "backfill.plan_hash"),
        ({"backfill__rows_loaded": -1}, "backfill.rows_loaded"),
        ({"backfill__rows_loaded": True}, "backfill.rows_loaded"),
        ({"backfill__rows_loaded": 1.5}, "backfill.rows_loaded"),
        ({"backfill__seconds": -0.1}, "backfill.seconds"),
        ({"backfill__operation_status": "ok"}, "backfill.operation_status"),
        ({"backfill__state_cache_status": "stale"}, "backfill.state_cache_status"),
        ({"backfill__chunks": []}, "backfill.chunks"),
        ({"backfill__mapping__mode": "internal"}, "backfill.mapping.mode"),
        ({"backfill__mapping__item_index": -1}, "backfill.mapping.item_index"),
        ({"backfill__mapping__item_status": "passed"}, "backfill.mapping.item_status"),
        ({"backfill__mapping__predicate": "1 = 1"}, "backfill.mapping.predicate"),
        ({"error": {"code": "X", "message": "m", "schema": "dpone.error.v2"}}, "error.schema"),
        ({"rows": []}, "rows"),
    ],
)
def test_another_shape_is_refused_by_its_place(changes, place):
    with pytest.raises(OutcomeInvalidError, match=f"the outcome is malformed at {place}: ") as caught:
        parse_outcome(data_of(**changes))
    assert caught.value.next_step


@pytest.mark.parametrize(
    "failures, place",
    [
        ([FAILURE.to_document()] * (MAX_FAILURES_SHOWN + 1), "backfill.failures"),
        ([{**FAILURE.to_document(), "message": "x" * (MESSAGE_LIMIT + 1)}], "backfill.failures.0.message"),
    ],
)
def test_more_failures_and_longer_messages_than_are_shown_are_refused(failures, place):
    with pytest.raises(OutcomeInvalidError, match=f"the outcome is malformed at {place}"):
        parse_outcome(data_of(failed(), backfill__failures=failures))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'"passed"',
        b"\xff\xfe",
        b"[" * 40_000,
        b'{"status": "failed", "status": "passed", "exit_code": 0}',
        data_of(backfill__seconds=float("nan")),
        data_of(backfill__seconds=float("inf")),
        data_of(backfill__verification={"ratio": float("nan")}),
        data_of().replace(b'"seconds": 0.5', b'"seconds": 1e999'),
        data_of() + b"{}",
    ],
)
def test_what_is_no_strict_json_object_is_refused(data):
    with pytest.raises(OutcomeInvalidError, match="the outcome is malformed"):
        parse_outcome(data)


def test_an_outcome_of_48_kib_is_read_and_one_byte_more_is_not():
    padded = data_of().ljust(OUTCOME_SIZE_LIMIT_BYTES)
    assert len(padded) == 48 * 1024
    assert OutcomeStatus.PASSED is parse_outcome(padded).status
    with pytest.raises(OutcomeInvalidError, match="the outcome has 49153 bytes, more than 49152") as caught:
        parse_outcome(padded + b" ")
    assert caught.value.next_step


def test_the_largest_outcome_that_the_model_allows_fits_into_xcom():
    largest = failed(MAX_FAILURES_SHOWN, "\u20ac" * MESSAGE_LIMIT)
    assert len(largest.model_dump_json(by_alias=True).encode()) < OUTCOME_SIZE_LIMIT_BYTES
