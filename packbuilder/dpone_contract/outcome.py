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

    dag_id: str | None = Field(default=None, description="Id of the DAG.")
    dag_run_id: str | None = Field(default=None, description="Id of the DAG run.")
    try_number: int | None = Field(default=None, description="Number of Airflow's attempt, from one.")


class MappingOutcome(FrozenModel):
    """The item that was run; `plan_fingerprint` is the mapping plan's."""

    mode: Literal["visible", "summary"] = Field(description="Mode of the plan.")
    plan_fingerprint: FingerprintText = Field(description="Fingerprint of the mapping plan.")
    backfill_plan_hash: FingerprintText = Field(description="Hash of the chunk plan.")
    item_index: Count = Field(description="Index of the item, from zero.")
    first_chunk_index: Count = Field(description="First chunk, from one.")
    last_chunk_index: Count = Field(description="Last chunk, inclusive.")
    chunks_count: Count = Field(description="Number of chunks.")
    item_status: Literal["success", "failed"] = Field(
        description="Whether every chunk of the range is committed."
    )


class ChunkFailure(FrozenModel):
    """One chunk that could not be loaded."""

    chunk_index: Count = Field(description="Index of the chunk, from one.")
    window: str = Field(description="The chunk's window, for people.")
    attempt: Count = Field(description="Number of the attempt, from one.")
    code: str = Field(description="Code of the error.")
    message: Message = Field(description="What happened.")


class BackfillOutcome(FrozenModel):
    """Counters of the run (`selected`, `committed`, `skipped`, `failed`, rows) and of the campaign."""

    run_key: str = Field(description="Key of the campaign.")
    plan_hash: FingerprintText = Field(description="Hash of the chunk plan.")
    config_hash: FingerprintText = Field(description="Hash of the campaign's meaning.")
    round: Count = Field(description="Round of the campaign, from one.")
    campaign_status: str = Field(description="State of the campaign at the end.")
    operation_status: Literal["success", "failed", "interrupted"] = Field(description="How the run ended.")
    retry_policy: str = Field(description="Which chunks the run selected.")
    chunks_total: Count = Field(description="Chunks of the campaign.")
    campaign_chunks_committed: Count = Field(description="Of them committed, by any run.")
    chunks_selected: Count = Field(description="Chunks that this run selected.")
    chunks_committed: Count = Field(description="Of them committed by this run.")
    chunks_skipped_resume: Count = Field(description="Of them committed before.")
    chunks_failed: Count = Field(description="Of them failed.")
    rows_extracted: Count = Field(description="Rows read, as the source counted them.")
    rows_loaded: Count = Field(description="Rows written, as the target counted them.")
    bytes_moved: Count = Field(description="Bytes moved.")
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False, description="Duration of the run.")]
    verification: dict[str, JsonValue] = Field(description="What was compared, and whether it agreed.")
    state_backend: str = Field(description="Where the ledger lives.")
    state_capabilities: dict[str, JsonValue] = Field(description="What that ledger can promise.")
    state_authority: dict[str, JsonValue] = Field(description="Dialect, schema and tables of the ledger.")
    state_cache_status: Literal["authoritative", "present_non_authoritative", "unavailable"] = Field(
        description="Whether a local ledger file exists, and what it is worth."
    )
    state_path: str | None = Field(default=None, description="That file; none where there is none.")
    mapping: MappingOutcome | None = Field(
        default=None, description="The item that was run; none for a whole campaign."
    )
    failures: tuple[ChunkFailure, ...] = Field(
        default=(), max_length=MAX_FAILURES_SHOWN, description="The first chunks that failed."
    )


class OutcomeError(FrozenModel):
    """`dpone.error.v1`."""

    schema_: Literal["dpone.error.v1"] = Field(
        default="dpone.error.v1", alias="schema", description="Name and version of this format."
    )
    code: str = Field(description="Stable code.")
    message: Message = Field(description="What happened.")
    where: str | None = Field(default=None, description="Place: file, line and column, a chunk, a table.")
    next_step: str | None = Field(default=None, description="What to do now.")
    fields: dict[str, JsonValue] = Field(default={}, description="Further values that are safe to show.")


class RunOutcome(FrozenModel):
    """`dpone.run-outcome.v1`."""

    schema_: Literal["dpone.run-outcome.v1"] = Field(
        default="dpone.run-outcome.v1", alias="schema", description="Name and version of this format."
    )
    status: OutcomeStatus = Field(description="Whether the selected work is in the target.")
    exit_code: Annotated[int, Field(ge=0, le=255, description="Exit code of the command.")]
    process: str | None = Field(default=None, description="Name of the process.")
    process_digest: FingerprintText | None = Field(
        default=None, description="Digest of the compiled process."
    )
    attempt: AttemptIdentity = Field(default=AttemptIdentity(), description="Which Airflow attempt reports.")
    interval: dict[str, str] = Field(default={}, description="Values of the tokens of this run.")
    backfill: BackfillOutcome | None = Field(
        default=None, description="Counters of run and campaign; none where no campaign was opened."
    )
    error: OutcomeError | None = Field(default=None, description="What ended a failed run.")


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
