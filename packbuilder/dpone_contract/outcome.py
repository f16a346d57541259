"""The outcome: the one bounded document that a run gives back, written as JSON and handed to Airflow as XCom.

It holds counters, hashes and codes; never a chunk list, a predicate, a row or a credential.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue, ValidationError

from dpone_contract.errors import OutcomeInvalidError
from dpone_contract.frozen import FrozenModel
from dpone_contract.mapping_plan import FingerprintText
from dpone_contract.strict_json import parse_strict_json

OUTCOME_SIZE_LIMIT_BYTES = 48 * 1024
MAX_FAILURES_SHOWN = 5
MESSAGE_LIMIT = 2000

Count = Annotated[int, Field(ge=0)]
Message = Annotated[str, Field(max_length=MESSAGE_LIMIT)]


class OutcomeStatus(StrEnum):
    """Whether the selected work is in the target."""

    PASSED = "passed"
    FAILED = "failed"


class AttemptIdentity(FrozenModel):
    """Which Airflow attempt reports; empty by hand."""

    dag_id: str | None = None
    dag_run_id: str | None = None
    try_number: int | None = None


class MappingOutcome(FrozenModel):
    """The item that was run; `plan_fingerprint` is the mapping plan's."""

    mode: Literal["visible", "summary"]
    plan_fingerprint: FingerprintText
    backfill_plan_hash: FingerprintText
    item_index: Count
    first_chunk_index: Count
    last_chunk_index: Count
    chunks_count: Count
    item_status: Literal["success", "failed"]


class ChunkFailure(FrozenModel):
    """One chunk that could not be loaded."""

    chunk_index: Count
    window: str
    attempt: Count
    code: str
    message: Message


class BackfillOutcome(FrozenModel):
    """Counters of the run (`selected`, `committed`, `skipped`, `failed`, rows) and of the campaign."""

    run_key: str
    plan_hash: FingerprintText
    config_hash: FingerprintText
    round: Count
    campaign_status: str
    operation_status: Literal["success", "failed", "interrupted"]
    retry_policy: str
    chunks_total: Count
    campaign_chunks_committed: Count
    chunks_selected: Count
    chunks_committed: Count
    chunks_skipped_resume: Count
    chunks_failed: Count
    rows_extracted: Count
    rows_loaded: Count
    bytes_moved: Count
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    verification: dict[str, JsonValue]
    state_backend: str
    state_capabilities: dict[str, JsonValue]
    state_authority: dict[str, JsonValue]
    state_cache_status: Literal["authoritative", "present_non_authoritative", "unavailable"]
    mapping: MappingOutcome | None = None
    failures: Annotated[tuple[ChunkFailure, ...], Field(max_length=MAX_FAILURES_SHOWN)] = ()


class OutcomeError(FrozenModel):
    """`dpone.error.v1`."""

    schema_: Literal["dpone.error.v1"] = Field(default="dpone.error.v1", alias="schema")
    code: str
    message: Message
    where: str | None = None
    next_step: str | None = None
    fields: dict[str, JsonValue] = {}


class RunOutcome(FrozenModel):
    """`dpone.run-outcome.v1`."""

    schema_: Literal["dpone.run-outcome.v1"] = Field(default="dpone.run-outcome.v1", alias="schema")
    status: OutcomeStatus
    exit_code: Annotated[int, Field(ge=0, le=255)]
    process: str | None = None
    process_digest: FingerprintText | None = None
    attempt: AttemptIdentity = AttemptIdentity()
    interval: dict[str, str] = {}
    backfill: BackfillOutcome | None = None
    error: OutcomeError | None = None


def parse_outcome(data: bytes) -> RunOutcome:
    """Read an outcome; strings are taken as enumerations only from JSON.

    Errors: OutcomeInvalidError when it is too large, truncated or of another shape.
    """
    if len(data) > OUTCOME_SIZE_LIMIT_BYTES:
        raise _invalid(f"the outcome has {len(data)} bytes, more than {OUTCOME_SIZE_LIMIT_BYTES}")
    try:
        parse_strict_json(data)
    except ValueError as error:
        raise _invalid("the outcome is malformed: it is not JSON") from error
    try:
        return RunOutcome.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "document"
        raise _invalid(f"the outcome is malformed at {place}: {first['msg']}") from error


def _invalid(message: str) -> OutcomeInvalidError:
    return OutcomeInvalidError(
        message, next_step="read the run's own log for what ended it, then clear the task"
    )
