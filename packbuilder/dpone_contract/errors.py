"""Every error a user can meet: one class a stable code, each saying what happened, whether a retry helps and what to do.

The docstring of a class is its entry in the error catalogue. No error holds a predicate, a row value, a credential or a
connection string.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """How every command ends. Source: the design, commands and exit codes."""

    DONE = 0
    CHUNKS_FAILED = 1
    REFUSED = 2
    INCOMPLETE = 3
    VERIFICATION_MISMATCH = 4
    OWNERSHIP_OR_INFRASTRUCTURE = 5


class ErrorCode(StrEnum):
    """Stable names of errors; a code never changes its meaning and is never used again for another."""

    MANIFEST_INVALID = "DPONE_MANIFEST_INVALID"
    NOT_SUPPORTED = "DPONE_NOT_SUPPORTED"
    USAGE = "DPONE_USAGE"
    PACK_INVALID = "DPONE_PACK_INVALID"
    PACK_TOO_LARGE = "DPONE_PACK_TOO_LARGE"
    RUN_CONTEXT_INVALID = "DPONE_RUN_CONTEXT_INVALID"
    OUTCOME_INVALID = "DPONE_OUTCOME_INVALID"
    OUTCOME_NOT_PASSED = "DPONE_OUTCOME_NOT_PASSED"
    RETRY_AUTHORITY_EXCEEDED = "DPONE_RETRY_AUTHORITY_EXCEEDED"
    INTERRUPTED = "DPONE_INTERRUPTED"
    INTERNAL = "DPONE_INTERNAL"

    MAPPING_POLICY_INVALID = "DPONE_AIRFLOW_MAPPING_POLICY_INVALID"
    MAPPING_REQUIRES_CHUNKED_BACKFILL = "DPONE_AIRFLOW_MAPPING_REQUIRES_CHUNKED_BACKFILL"
    MAPPING_TASK_LIMIT_EXCEEDED = "DPONE_AIRFLOW_MAPPING_TASK_LIMIT_EXCEEDED"
    MAPPING_POOL_REQUIRED = "DPONE_AIRFLOW_MAPPING_POOL_REQUIRED"
    MAPPING_PARALLELISM_MULTIPLIER = "DPONE_AIRFLOW_MAPPING_PARALLELISM_MULTIPLIER"
    MAPPING_STATE_UNSUPPORTED = "DPONE_AIRFLOW_MAPPING_STATE_UNSUPPORTED"
    MAPPING_PLAN_MISMATCH = "DPONE_AIRFLOW_MAPPING_PLAN_MISMATCH"
    MAPPING_ITEM_INVALID = "DPONE_AIRFLOW_MAPPING_ITEM_INVALID"
    MAPPING_CAMPAIGN_BUSY = "DPONE_AIRFLOW_MAPPING_CAMPAIGN_BUSY"
    MAPPING_UNSUPPORTED = "DPONE_AIRFLOW_MAPPING_UNSUPPORTED"

    BACKFILL_PLAN_INVALID = "DPONE_BACKFILL_PLAN_INVALID"
    BACKFILL_PLAN_MOVED = "DPONE_BACKFILL_PLAN_MOVED"
    BACKFILL_CAMPAIGN_BUSY = "DPONE_BACKFILL_CAMPAIGN_BUSY"
    BACKFILL_CAMPAIGN_DRIFT = "DPONE_BACKFILL_CAMPAIGN_DRIFT"
    BACKFILL_CAMPAIGN_LEASE_LOST = "DPONE_BACKFILL_CAMPAIGN_LEASE_LOST"
    BACKFILL_CAMPAIGN_MISSING = "DPONE_BACKFILL_CAMPAIGN_MISSING"
    BACKFILL_CAMPAIGN_STOPPED = "DPONE_BACKFILL_CAMPAIGN_STOPPED"
    BACKFILL_CHUNK_BUSY = "DPONE_BACKFILL_CHUNK_BUSY"
    BACKFILL_CHUNK_FAILED = "DPONE_BACKFILL_CHUNK_FAILED"
    BACKFILL_CHUNK_LEASE_LOST = "DPONE_BACKFILL_CHUNK_LEASE_LOST"
    BACKFILL_LANE_LOST = "DPONE_BACKFILL_LANE_LOST"
    BACKFILL_OVERLAP = "DPONE_BACKFILL_OVERLAP"
    BACKFILL_SESSION_UNSAFE = "DPONE_BACKFILL_SESSION_UNSAFE"
    BACKFILL_NULLS_FOUND = "DPONE_BACKFILL_NULLS_FOUND"
    BACKFILL_ROWS_DIFFER = "DPONE_BACKFILL_ROWS_DIFFER"

    CONNECTION_MISSING = "DPONE_CONNECTION_MISSING"
    CONNECTION_INVALID = "DPONE_CONNECTION_INVALID"
    CONNECTION_FAILED = "DPONE_CONNECTION_FAILED"
    DATABASE_FAILED = "DPONE_DATABASE_FAILED"
    LEDGER_MISSING = "DPONE_LEDGER_MISSING"
    TABLE_MISSING = "DPONE_TABLE_MISSING"
    TABLE_UNSUITABLE = "DPONE_TABLE_UNSUITABLE"
    COLUMNS_DIFFER = "DPONE_COLUMNS_DIFFER"


class DponeError(Exception):
    """The root of the hierarchy.

    `message` says what happened, `where` the place (file:line:column, a chunk, a table), `next_step` what to do now. `fields` are
    further values that are safe to show.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    exit_code: ClassVar[ExitCode] = ExitCode.REFUSED

    def __init__(
        self, message: str, *, where: str | None = None, next_step: str | None = None, **fields: str | int
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.next_step = next_step
        self.fields = fields

    def __str__(self) -> str:
        parts = [f"{self.code.value}: {self.message}"]
        if self.where:
            parts.append(f"at {self.where}")
        if self.next_step:
            parts.append(f"next: {self.next_step}")
        return " | ".join(parts)

    def to_payload(self) -> dict[str, object]:
        """Give the `dpone.error.v1` document, plain values only."""
        return {
            "schema": "dpone.error.v1",
            "code": self.code.value,
            "message": self.message,
            "where": self.where,
            "next_step": self.next_step,
            "fields": dict(self.fields),
        }


class ManifestInvalidError(DponeError):
    """A manifest or catalog is malformed: bad YAML, an unknown, duplicate or misplaced key, a value of the wrong kind.

    Retry: no. Do: mend the file at the place given.
    """

    code = ErrorCode.MANIFEST_INVALID


class NotSupportedError(DponeError):
    """The file asks for something that is part of the contract but that this release cannot do yet.

    Retry: no. Do: remove the key, or use a release that supports it. Such a key is never ignored.
    """

    code = ErrorCode.NOT_SUPPORTED


class UsageError(DponeError):
    """A command was called with arguments that do not fit together.

    Retry: no. Do: see the command's --help.
    """

    code = ErrorCode.USAGE


class PackInvalidError(DponeError):
    """A pack is not what its fingerprint says, is newer than this reader, or is no pack at all.

    Retry: no. Do: build it again with `dpone pack build` and publish the file unchanged.
    """

    code = ErrorCode.PACK_INVALID


class PackTooLargeError(DponeError):
    """A pack, a process argument or a mapping item is larger than what Airflow and a pod can carry.

    Retry: no. Do: lower `max_items`, or split the workload.
    """

    code = ErrorCode.PACK_TOO_LARGE


class RunContextInvalidError(DponeError):
    """The environment or the process argument of a run is malformed or contradicts itself.

    Retry: no. Do: let the provider set these variables; do not set them by hand.
    """

    code = ErrorCode.RUN_CONTEXT_INVALID


class OutcomeInvalidError(DponeError):
    """A run ended without the document that says how, or with one of another plan, item or attempt.

    Retry: safe; committed chunks are skipped. Do: read the run's own log above for what ended it.
    """

    code = ErrorCode.OUTCOME_INVALID
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class OutcomeNotPassedError(DponeError):
    """A run reported that it did not load its chunks.

    Retry: safe; committed chunks are skipped. Do: read the first failed chunk's error, mend its cause, clear the task.
    """

    code = ErrorCode.OUTCOME_NOT_PASSED
    exit_code = ExitCode.CHUNKS_FAILED


class RetryAuthorityExceededError(DponeError):
    """A DAG asks for more Airflow retries than the compiler found to be safe for its load.

    Retry: no. Do: lower `retries` to the number given in the pack.
    """

    code = ErrorCode.RETRY_AUTHORITY_EXCEEDED


class InterruptedRunError(DponeError):
    """The run was told to stop (Ctrl-C or SIGTERM): running chunks had a bounded grace, what was not started is released.

    Retry: safe. Do: run or clear it again; committed chunks are skipped.
    """

    code = ErrorCode.INTERRUPTED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class InternalError(DponeError):
    """dpone itself failed in a way it does not know.

    Retry: safe for data; the ledger decides. Do: report it with the log.
    """

    code = ErrorCode.INTERNAL
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class MappingPolicyInvalidError(DponeError):
    """The mode or a limit of `airflow.mapping` is malformed.

    Retry: no. Do: mode is internal, visible or summary; max_items 1..200; max_active 1..64 and at most max_items.
    """

    code = ErrorCode.MAPPING_POLICY_INVALID


class MappingRequiresChunkedBackfillError(DponeError):
    """A mapped mode was asked for a process that is no chunked backfill with a fixed window.

    Retry: no. Do: declare `sink.strategy.mode: backfill` with a `chunk` block whose window has no tokens, or use mode internal.
    """

    code = ErrorCode.MAPPING_REQUIRES_CHUNKED_BACKFILL


class MappingTaskLimitExceededError(DponeError):
    """Mode visible would need more mapped tasks than `max_items` allows.

    Retry: no. Do: use mode summary, a larger chunk step, or a larger max_items (at most 200).
    """

    code = ErrorCode.MAPPING_TASK_LIMIT_EXCEEDED


class MappingPoolRequiredError(DponeError):
    """Modes visible and summary need an Airflow pool.

    Retry: no. Do: name a pool in `airflow.mapping.pool` and create it in Airflow.
    """

    code = ErrorCode.MAPPING_POOL_REQUIRED


class MappingParallelismMultiplierError(DponeError):
    """Modes visible and summary need `parallel_workers: 1`; otherwise workers would multiply with mapped tasks.

    Retry: no. Do: set `backfill.parallel_workers: 1`; `max_active` is the parallelism of a mapped load.
    """

    code = ErrorCode.MAPPING_PARALLELISM_MULTIPLIER


class MappingStateUnsupportedError(DponeError):
    """Modes visible and summary need a ledger with distributed locks and compare-and-set.

    Retry: no. Do: use `state.backend: audit_schema` with `require_distributed_lock: true` on a Postgres or SQL Server sink.
    """

    code = ErrorCode.MAPPING_STATE_UNSUPPORTED


class MappingPlanMismatchError(DponeError):
    """The plan that the run derived from its process is not the plan that its mapping item names.

    Retry: no. Do: publish pack and runtime of one release together; do not edit items.
    """

    code = ErrorCode.MAPPING_PLAN_MISMATCH


class MappingItemInvalidError(DponeError):
    """A mapping item is malformed, too large, holds unknown fields, or names a range that its plan does not have.

    Retry: no. Do: let the provider write the item; do not set the variable by hand.
    """

    code = ErrorCode.MAPPING_ITEM_INVALID


class MappingCampaignBusyError(DponeError):
    """The short lock under which a mapped item opens its campaign was not free within its bound.

    Retry: yes, nothing has been read or written. Do: nothing, unless it repeats; then look for a long transaction on the target.
    """

    code = ErrorCode.MAPPING_CAMPAIGN_BUSY
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class MappingUnsupportedError(DponeError):
    """The installed Airflow or provider cannot build the mapped operator that the pack asks for.

    Retry: no. Do: install a supported Airflow and a provider at least as new as the pack asks for.
    """

    code = ErrorCode.MAPPING_UNSUPPORTED


class PlanInvalidError(DponeError):
    """A chunk window cannot be planned: empty, reversed, too many chunks, or a kind or step that does not fit.

    Retry: no. Do: mend `backfill.chunk` as the message says.
    """

    code = ErrorCode.BACKFILL_PLAN_INVALID


class PlanMovedError(DponeError):
    """The plan is not the one that was reviewed.

    Retry: no. Do: review `dpone backfill plan` again and pass its new hash.
    """

    code = ErrorCode.BACKFILL_PLAN_MOVED


class CampaignBusyError(DponeError):
    """Another run holds this campaign.

    Retry: yes, when that run has ended. Do: wait for it, or end it; nothing needs to be deleted.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_BUSY
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class CampaignDriftError(DponeError):
    """A campaign of this key exists with another plan, configuration, source or target.

    Retry: no. Do: restore what changed, or begin a new campaign under another `backfill_id`.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_DRIFT


class CampaignLeaseLostError(DponeError):
    """The run lost the session that marked it as this campaign's only coordinator.

    Retry: safe. Do: run it again; if it repeats, look for a proxy or a timeout that ends idle sessions.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_LEASE_LOST
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class CampaignMissingError(DponeError):
    """The ledger knows no campaign of this key.

    Retry: no. Do: begin it with `dpone backfill run MANIFEST --execute`, or check the manifest, the window and the ledger's schema.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_MISSING


class CampaignStoppedError(DponeError):
    """The campaign was cancelled, halted or closed, so no further chunk begins.

    Retry: no. Do: `dpone backfill resume MANIFEST --reason ...` where it may go on.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_STOPPED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class ChunkBusyError(DponeError):
    """Chunks of the selection are still held by another run after the longest useful wait.

    Retry: yes. Do: see which runs are alive; a dead one frees its chunk within two minutes by itself.
    """

    code = ErrorCode.BACKFILL_CHUNK_BUSY
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class ChunkFailedError(DponeError):
    """A chunk could not be loaded; none of its rows are in the target.

    Retry: helps once the cause is mended. Do: read the cause, mend it, run the campaign again; committed chunks are skipped.
    """

    code = ErrorCode.BACKFILL_CHUNK_FAILED
    exit_code = ExitCode.CHUNKS_FAILED


class ChunkLeaseLostError(DponeError):
    """Another attempt owns the chunk now, or its campaign was closed; this attempt recorded neither rows nor status.

    Retry: safe, the ledger decides. Do: nothing, unless it repeats; then two schedulers run the same load.
    """

    code = ErrorCode.BACKFILL_CHUNK_LEASE_LOST
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class LaneLostError(DponeError):
    """A lane's process ended or fell silent, and its chunk was not committed.

    Retry: safe. Do: look for an out-of-memory kill or an eviction at that time.
    """

    code = ErrorCode.BACKFILL_LANE_LOST
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class OverlapError(DponeError):
    """Another unfinished campaign covers part of the same window of the same target.

    Retry: no. Do: finish the other campaign, or cancel it with `dpone backfill cancel`, then run this one.
    """

    code = ErrorCode.BACKFILL_OVERLAP


class SessionUnsafeError(DponeError):
    """The connection runs through a transaction-pooling proxy, which cannot hold the session lock of an internal run.

    Retry: no. Do: connect to the server itself or through a session pool, or use a mapped mode.
    """

    code = ErrorCode.BACKFILL_SESSION_UNSAFE


class NullsFoundError(DponeError):
    """The source holds rows whose chunk column is NULL: no chunk would load them.

    Retry: no. Do: mend the rows, or set `chunk.nulls: ignore` to leave them behind knowingly.
    """

    code = ErrorCode.BACKFILL_NULLS_FOUND


class RowsDifferError(DponeError):
    """Source and target counted different numbers of rows for one chunk; the chunk was rolled back.

    Retry: rarely helps. Do: look for triggers or rules on the target that drop or add rows.
    """

    code = ErrorCode.BACKFILL_ROWS_DIFFER
    exit_code = ExitCode.CHUNKS_FAILED


class ConnectionMissingError(DponeError):
    """No connection of this name is configured where the run looks for it.

    Retry: no. Do: set DPONE_CONN_<NAME> or AIRFLOW_CONN_<NAME>, or put a file of that name under DPONE_CONNECTIONS_DIR.
    """

    code = ErrorCode.CONNECTION_MISSING


class ConnectionInvalidError(DponeError):
    """A connection's value cannot be read or is of another kind than the manifest says.

    Retry: no. Do: give a URI such as postgresql://user:password@host:5432/database.
    """

    code = ErrorCode.CONNECTION_INVALID


class ConnectionFailedError(DponeError):
    """A database could not be reached or refused the login.

    Retry: helps if the server was away. Do: check host, port, database, user and password of the named connection.
    """

    code = ErrorCode.CONNECTION_FAILED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class DatabaseFailedError(DponeError):
    """A database refused or broke off a statement.

    Retry: depends on the SQLSTATE given. Do: read the server's message; committed chunks are safe.
    """

    code = ErrorCode.DATABASE_FAILED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class LedgerMissingError(DponeError):
    """The ledger's tables do not exist and could not be created.

    Retry: no. Do: let a role that may create them run the DDL that the message names, or grant CREATE.
    """

    code = ErrorCode.LEDGER_MISSING


class TableMissingError(DponeError):
    """A table named by the manifest does not exist or cannot be seen by this user.

    Retry: no. Do: check schema, name (case matters) and privileges.
    """

    code = ErrorCode.TABLE_MISSING


class TableUnsuitableError(DponeError):
    """The target is of a kind in which exactly-once cannot be promised (unlogged, temporary, foreign, a view, row security).

    Retry: no. Do: load into an ordinary or partitioned, logged table.
    """

    code = ErrorCode.TABLE_UNSUITABLE


class ColumnsDifferError(DponeError):
    """Source and target columns do not fit without loss.

    Retry: no. Do: alter the target, or choose columns, as the message names them.
    """

    code = ErrorCode.COLUMNS_DIFFER
