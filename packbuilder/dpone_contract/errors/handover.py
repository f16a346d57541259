"""Errors of what builder, Airflow and run hand to one another: packs, contexts, outcomes, retries."""

from __future__ import annotations

from dpone_contract.errors.codes import ErrorCode, ExitCode
from dpone_contract.errors.root import DponeError


class PackInvalidError(DponeError):
    """A pack is not what its fingerprint says, is newer than this reader, or is no pack at all.

    Raised: when Airflow parses a DAG file, and by `dpone run --pack`.

    Retry: no. Do: build it again with `dpone pack build` and publish the file unchanged.
    """

    code = ErrorCode.PACK_INVALID


class PackTooLargeError(DponeError):
    """A pack, a process argument or a mapping item is larger than what Airflow and a pod can carry.

    Raised: by `check` and `pack build`.

    Retry: no. Do: lower `max_items`, or split the workload.
    """

    code = ErrorCode.PACK_TOO_LARGE


class RunContextInvalidError(DponeError):
    """The environment or the process argument of a run is malformed or contradicts itself.

    Raised: by a run before it reads a manifest or connects.

    Retry: no. Do: let the provider set these variables; do not set them by hand.
    """

    code = ErrorCode.RUN_CONTEXT_INVALID


class OutcomeInvalidError(DponeError):
    """A run ended without the document that says how, or with one of another plan, item or attempt.

    Raised: by the Airflow task, after its run has ended.

    Retry: safe; committed chunks are skipped. Do: read the run's own log above for what ended it.
    """

    code = ErrorCode.OUTCOME_INVALID
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class OutcomeNotPassedError(DponeError):
    """A run reported that it did not load its chunks.

    Raised: by the Airflow task, after its run has ended.

    Retry: safe; committed chunks are skipped. Do: read the first failed chunk's error, mend its cause, clear the task.
    """

    code = ErrorCode.OUTCOME_NOT_PASSED
    exit_code = ExitCode.CHUNKS_FAILED


class RetryAuthorityExceededError(DponeError):
    """A DAG asks for more Airflow retries than the compiler found to be safe for its load.

    Raised: by `check` and `pack build`, and when Airflow parses the DAG file.

    Retry: no. Do: lower `retries` to the number given in the pack.
    """

    code = ErrorCode.RETRY_AUTHORITY_EXCEEDED
