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


class PodRefusedError(DponeError):
    """The Kubernetes API does not allow what a task needs, or finds its pod invalid.

    Raised: by the Airflow task, where its pod is made, watched or asked for its outcome.

    Retry: no. Do: grant the named permission to Airflow's service account, or correct the workload's pod settings; what a pod has
    committed is skipped by the next run.
    """

    code = ErrorCode.POD_REFUSED


class HookFailedError(DponeError):
    """The command of a hook ended with another exit code than zero, or could not be run to its end.

    Raised: by the hook's Airflow task.

    Retry: whether its command may run twice is the author's to know; it is never retried by itself. Do: read its log, mend the cause,
    clear its task.
    """

    code = ErrorCode.HOOK_FAILED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class RetryAuthorityExceededError(DponeError):
    """A DAG asks for more Airflow retries than the compiler found to be safe for its load.

    Raised: by `check` and `pack build`, and when Airflow parses the DAG file.

    Retry: no. Do: lower `retries` to the number given in the pack.
    """

    code = ErrorCode.RETRY_AUTHORITY_EXCEEDED
