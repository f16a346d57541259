"""Errors of the mapping of a campaign onto Airflow tasks. Source: the mapping design, error codes."""

from __future__ import annotations

from dpone_contract.errors.codes import ErrorCode, ExitCode
from dpone_contract.errors.root import DponeError


class MappingPolicyInvalidError(DponeError):
    """The mode or a limit of `airflow.mapping` is malformed.

    Raised: by `check` and `pack build`.

    Retry: no. Do: mode is internal, visible or summary; max_items 1..200; max_active 1..64 and at most max_items.
    """

    code = ErrorCode.MAPPING_POLICY_INVALID


class MappingRequiresChunkedBackfillError(DponeError):
    """A mapped mode was asked for a process that is no chunked backfill with a fixed window.

    Raised: by `check` and `pack build`.

    Retry: no. Do: declare `sink.strategy.mode: backfill` with a `chunk` block whose window has no tokens, or use mode internal.
    """

    code = ErrorCode.MAPPING_REQUIRES_CHUNKED_BACKFILL


class MappingTaskLimitExceededError(DponeError):
    """Mode visible would need more mapped tasks than `max_items` allows.

    Raised: by `check` and `pack build`.

    Retry: no. Do: use mode summary, a larger chunk step, or a larger max_items (at most 200).
    """

    code = ErrorCode.MAPPING_TASK_LIMIT_EXCEEDED


class MappingPoolRequiredError(DponeError):
    """Modes visible and summary need an Airflow pool.

    Raised: by `check` and `pack build`.

    Retry: no. Do: name a pool in `airflow.mapping.pool` and create it in Airflow.
    """

    code = ErrorCode.MAPPING_POOL_REQUIRED


class MappingParallelismMultiplierError(DponeError):
    """Modes visible and summary need `parallel_workers: 1`; otherwise workers would multiply with mapped tasks.

    Raised: by `check` and `pack build`.

    Retry: no. Do: set `backfill.parallel_workers: 1`; `max_active` is the parallelism of a mapped load.
    """

    code = ErrorCode.MAPPING_PARALLELISM_MULTIPLIER


class MappingStateUnsupportedError(DponeError):
    """Modes visible and summary need a ledger with distributed locks and compare-and-set.

    Raised: by `check` and `pack build`, and by a mapped run once more before it opens its campaign.

    Retry: no. Do: use `state.backend: audit_schema` with `require_distributed_lock: true` on a Postgres sink.
    """

    code = ErrorCode.MAPPING_STATE_UNSUPPORTED


class MappingPlanMismatchError(DponeError):
    """The plan that the run derived from its process is not the plan that its mapping item names.

    Raised: by a mapped run before it connects, and by whoever reads a pack.

    Retry: no. Do: publish pack and runtime of one release together; do not edit items.
    """

    code = ErrorCode.MAPPING_PLAN_MISMATCH


class MappingItemInvalidError(DponeError):
    """A mapping item is malformed, too large, holds unknown fields, or names a range that its plan does not have.

    Raised: by a mapped run before it reads a manifest or connects.

    Retry: no. Do: let the provider write the item; do not set the variable by hand.
    """

    code = ErrorCode.MAPPING_ITEM_INVALID


class MappingCampaignBusyError(DponeError):
    """The short lock under which a mapped item opens its campaign was not free within its bound.

    Raised: by a mapped run, within 30 seconds of its start.

    Retry: yes, nothing has been read or written. Do: nothing, unless it repeats; then look for a long transaction on the target.
    """

    code = ErrorCode.MAPPING_CAMPAIGN_BUSY
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class MappingUnsupportedError(DponeError):
    """The installed Airflow or provider cannot build the mapped operator that the pack asks for.

    Raised: when Airflow parses the DAG file.

    Retry: no. Do: install a supported Airflow and a provider at least as new as the pack asks for.
    """

    code = ErrorCode.MAPPING_UNSUPPORTED
