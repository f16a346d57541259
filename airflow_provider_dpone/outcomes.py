"""Judging an outcome: only a document that says passed, for exactly what was asked for, is a success.

Missing, damaged and foreign evidence is a failure. A retry is cheap, since committed chunks are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from dpone_contract.environment import EnvVar
from dpone_contract.errors import (
    ExitCode,
    OutcomeInvalidError,
    OutcomeNotPassedError,
    RunContextInvalidError,
    located,
)
from dpone_contract.mapping_item import MappingItem, parse_item
from dpone_contract.outcome import (
    AttemptIdentity,
    MappingOutcome,
    OutcomeStatus,
    RunOutcome,
    parse_outcome,
)
from dpone_contract.run_identity import parse_run_identity

SAME_AGAIN = frozenset({ExitCode.REFUSED, ExitCode.VERIFICATION_MISMATCH})
"""Exit codes of runs that another one, made without anybody having mended anything, would end with too."""

_FAILURES_IN_MESSAGE = 3
_RETRY_HINT = "mend the cause and clear the task; committed chunks will be skipped on retry"


@dataclass(frozen=True)
class ExpectedOutcome:
    """What a run was asked for, and so what its outcome must name."""

    process_digest: str
    attempt: AttemptIdentity
    item: MappingItem | None = None

    def __str__(self) -> str:
        attempt = self.attempt
        item = "" if self.item is None else f", mapping item {self.item.item_index}"
        return f"DAG {attempt.dag_id}, run {attempt.dag_run_id}, try {attempt.try_number}{item}"

    @classmethod
    def of_env(cls, env: Mapping[str, str]) -> Self:
        """Read it from the rendered environment that the run is given.

        Errors: RunContextInvalidError for an attempt or a process without a name, MappingItemInvalidError.
        """
        item = env.get(EnvVar.MAPPING_ITEM)
        dag_id, run_id = env.get(EnvVar.DAG_ID), env.get(EnvVar.DAG_RUN_ID)
        try_number = env.get(EnvVar.TRY_NUMBER, "")
        if not dag_id or not run_id or not try_number.isdecimal():
            raise RunContextInvalidError(
                "the task does not know which attempt it is",
                where=f"{EnvVar.DAG_ID.value}, {EnvVar.DAG_RUN_ID.value}, {EnvVar.TRY_NUMBER.value}",
                next_step="let Airflow render env_vars before it runs",
            )
        return cls(
            process_digest=parse_run_identity(env.get(EnvVar.RUN_IDENTITY, "")).process_digest,
            attempt=AttemptIdentity(dag_id=dag_id, dag_run_id=run_id, try_number=int(try_number)),
            item=None if item is None else parse_item(item),
        )


def require_passed(
    data: bytes | None, expected: ExpectedOutcome, exit_code: int | None = None, reason: str | None = None
) -> RunOutcome:
    """Require an outcome to exist, to be of this very run, and to say passed.

    `exit_code` is how the process ended, where that is known; it must agree with the document. `reason` says why there is
    no document.

    Errors: OutcomeInvalidError for a missing, damaged, contradictory or foreign document; OutcomeNotPassedError with
    the run's own error for a failed one.
    """
    with located(str(expected)):
        if not data:
            raise _invalid("the run left no outcome" + (f": {reason}" if reason else ""), exit_code)
        return _passed(data, expected, exit_code)


def _passed(data: bytes, expected: ExpectedOutcome, exit_code: int | None) -> RunOutcome:
    try:
        outcome = parse_outcome(data)
    except OutcomeInvalidError as error:
        raise _invalid(error.message, exit_code) from error
    _require_own(outcome, expected, exit_code)
    if outcome.status is not OutcomeStatus.PASSED:
        raise _not_passed(outcome)
    if outcome.exit_code != 0 or (exit_code is not None and exit_code != 0):
        ended = outcome.exit_code if exit_code in (None, 0) else exit_code
        raise _invalid(f"the outcome says passed, but the run ended with {ended}", exit_code)
    return outcome


def _require_own(outcome: RunOutcome, expected: ExpectedOutcome, exit_code: int | None) -> None:
    failed = outcome.status is OutcomeStatus.FAILED
    attempt, mapping = outcome.attempt, outcome.backfill.mapping if outcome.backfill else None
    pairs: list[tuple[str, object, object]] = [
        ("process", expected.process_digest, outcome.process_digest),
        ("DAG", expected.attempt.dag_id, attempt.dag_id),
        ("DAG run", expected.attempt.dag_run_id, attempt.dag_run_id),
        ("try number", expected.attempt.try_number, attempt.try_number),
    ]
    if expected.item is not None and mapping is not None:
        pairs += _item_pairs(expected.item, mapping)
    elif (expected.item is None) != (mapping is None) and not (failed and mapping is None):
        raise _invalid("the outcome is not of this mapping item", exit_code)
    for what, wanted, named in pairs:
        # A run that was refused before it knew who it is leaves these out. It failed, so nothing hangs on them.
        if named != wanted and not (failed and named is None):
            raise _invalid(f"the outcome is of another {what}: {named!r} instead of {wanted!r}", exit_code)
    if mapping is not None and not failed and mapping.item_status != "success":
        raise _invalid("the outcome says passed, but its item says failed", exit_code)


def _item_pairs(item: MappingItem, mapping: MappingOutcome) -> list[tuple[str, object, object]]:
    return [
        ("mapping plan", item.mapping_plan_fingerprint, mapping.plan_fingerprint),
        ("chunk plan", item.backfill_plan_hash, mapping.backfill_plan_hash),
        ("mapping mode", item.mode, mapping.mode),
        ("mapping item", item.item_index, mapping.item_index),
        ("first chunk", item.first_chunk_index, mapping.first_chunk_index),
        ("last chunk", item.last_chunk_index, mapping.last_chunk_index),
        ("number of chunks", item.chunks_count, mapping.chunks_count),
    ]


def _invalid(reason: str, exit_code: int | None) -> OutcomeInvalidError:
    if exit_code is None:
        ended = ""
    elif exit_code < 0:
        ended = f" (ended by signal {-exit_code})"
    else:
        ended = f" (exit code {exit_code})"
    return OutcomeInvalidError(
        reason + ended,
        next_step="read the log above for what ended it; committed chunks will be skipped on retry",
    )


def _not_passed(outcome: RunOutcome) -> OutcomeNotPassedError:
    parts: list[str] = []
    own_message = ""
    if outcome.error is not None:
        own_message = outcome.error.message
        parts.append(f"{outcome.error.code}: {own_message}")
    backfill = outcome.backfill
    if backfill is not None:
        # The run's own error tells its first failure already.
        parts += [
            f"chunk {failure.chunk_index} ({failure.window}): {failure.code}: {failure.message}"
            for failure in backfill.failures[:_FAILURES_IN_MESSAGE]
            if failure.message not in own_message
        ]
        shown = min(len(backfill.failures), _FAILURES_IN_MESSAGE)
        if backfill.chunks_failed > shown:
            parts.append(f"{backfill.chunks_failed - shown} {'more ' if shown else ''}failed")
    own_step = outcome.error.next_step if outcome.error is not None else None
    if own_step is not None and "committed chunks" not in own_step:
        own_step += "; committed chunks will be skipped on retry"
    error = OutcomeNotPassedError(
        "the run did not pass: " + ("; ".join(parts) or "no reason is given"),
        where=outcome.error.where if outcome.error is not None else None,
        next_step=own_step or _RETRY_HINT,
    )
    if outcome.exit_code in SAME_AGAIN:
        error.exit_code = ExitCode(outcome.exit_code)
    return error
