"""Errors of a campaign, its chunks, leases and lanes."""

from __future__ import annotations

from dpone_contract.errors.codes import ErrorCode, ExitCode
from dpone_contract.errors.root import DponeError


class CampaignBusyError(DponeError):
    """Another run holds this campaign, or the locks that opening it takes.

    Raised: while a run opens its campaign; it has moved nothing.

    Retry: yes, when that run has ended. Do: wait for it, or end it; nothing needs to be deleted.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_BUSY
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class CampaignDriftError(DponeError):
    """A campaign of this key exists with another plan, configuration, source or target, or with other columns.

    Raised: while a run opens its campaign, or before a verification compares anything; nothing was moved.

    Retry: no. Do: restore what changed, or begin a new campaign under another `backfill_id`.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_DRIFT


class CampaignLeaseLostError(DponeError):
    """The run lost the session that marked it as this campaign's only coordinator.

    Raised: by a run of mode internal, which looks every 30 seconds; it ends its lanes and releases their chunks.

    Retry: safe. Do: run it again; if it repeats, look for a proxy or a timeout that ends idle sessions.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_LEASE_LOST
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class CampaignMissingError(DponeError):
    """The ledger knows no campaign of this key.

    Raised: by the `dpone backfill` commands that need a campaign which has begun.

    Retry: no. Do: begin it with `dpone backfill run MANIFEST --execute`, or check the manifest, the window and the ledger's schema.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_MISSING


class CampaignStoppedError(DponeError):
    """The campaign was cancelled, halted or closed, so no further chunk begins; or it is over, so nothing can be cancelled.

    Raised: while a run opens its campaign, before it claims a chunk, and by `backfill cancel`.

    Retry: no. Do: `dpone backfill resume MANIFEST --reason ...` where it may go on.
    """

    code = ErrorCode.BACKFILL_CAMPAIGN_STOPPED


class ChunkBusyError(DponeError):
    """Chunks of the selection, or the ledger's own locks, were held by others for longer than it is useful to wait.

    Raised: by a run that has loaded whatever was free and waited for the rest, or that waits for the ledger itself.

    Retry: yes. Do: see which runs are alive; a dead one frees its chunk within two minutes by itself.
    """

    code = ErrorCode.BACKFILL_CHUNK_BUSY
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class ChunkFailedError(DponeError):
    """A chunk could not be loaded; none of its rows are in the target.

    Raised: by a lane while it loads a chunk; the run lets chunks at work finish and begins no other.

    Retry: helps once the cause is mended. Do: read the cause, mend it, then `dpone backfill retry-failed MANIFEST --execute`;
    `dpone backfill resume MANIFEST` also loads what is pending.
    """

    code = ErrorCode.BACKFILL_CHUNK_FAILED
    exit_code = ExitCode.CHUNKS_FAILED


class ChunkLeaseLostError(DponeError):
    """Another attempt owns the chunk now, or its campaign was closed; this attempt recorded neither rows nor status.

    Raised: by a lane before and at its COMMIT, and by the coordinator when it renews a lease.

    Retry: safe, the ledger decides. Do: nothing, unless it repeats; then two schedulers run the same load.
    """

    code = ErrorCode.BACKFILL_CHUNK_LEASE_LOST
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class LaneLostError(DponeError):
    """A lane's process ended or fell silent, and its chunk was not committed.

    Raised: by the coordinator, once the chunk's row says that nothing was committed.

    Retry: safe. Do: look for an out-of-memory kill or an eviction at that time.
    """

    code = ErrorCode.BACKFILL_LANE_LOST
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class OverlapError(DponeError):
    """Another unfinished campaign covers part of the same window of the same target, or an append would meet what is loaded.

    Raised: while a run opens its campaign; by `check`, as a warning, for workloads of one catalog.

    Retry: no. Do: finish the other campaign, or cancel it with `dpone backfill cancel`, then run this one; an append may be let
    with `dpone backfill run MANIFEST --execute --reason ...` where the rows that were loaded are gone.
    """

    code = ErrorCode.BACKFILL_OVERLAP


class StateUnsupportedError(DponeError):
    """The ledger that the manifest names cannot promise what the load needs of it.

    Raised: by `check` and `pack build`, and by a run before it connects.

    Retry: no. Do: keep the ledger beside the target (`state.backend: audit_schema`), or leave out what needs it.
    """

    code = ErrorCode.BACKFILL_STATE_UNSUPPORTED


class NullsFoundError(DponeError):
    """The source holds rows whose chunk column is NULL: no chunk would load them.

    Raised: before a campaign begins, if `chunk.nulls` is `fail`.

    Retry: no. Do: mend the rows, set `chunk.nulls: include` to load them too, or `ignore` to leave them behind knowingly.
    """

    code = ErrorCode.BACKFILL_NULLS_FOUND


class RowsDifferError(DponeError):
    """Source and target counted different numbers of rows for one chunk; the chunk was rolled back.

    Raised: by a lane before its COMMIT, if `verify` is `strict` or `checksum`.

    Retry: rarely helps. Do: look for triggers or rules on the target that drop or add rows.
    """

    code = ErrorCode.BACKFILL_ROWS_DIFFER
    exit_code = ExitCode.CHUNKS_FAILED


class ContentDiffersError(DponeError):
    """What the target holds of a chunk is not what the source's snapshot held; the chunk was rolled back.

    Raised: by a lane before its COMMIT, if `verify` is `checksum`.

    Retry: rarely helps. Do: look for triggers, rules or others that change the rows of the target.
    """

    code = ErrorCode.BACKFILL_CONTENT_DIFFERS
    exit_code = ExitCode.CHUNKS_FAILED


class VerificationMismatchError(DponeError):
    """Chunks that are committed hold something else than the source does now.

    Raised: by `dpone backfill verify`, once it has compared everything.

    Retry: no. Do: find out which side was changed; where the target was, or where the source's newer rows are wanted,
    `dpone backfill verify MANIFEST --repair --reason ...` loads those chunks again.
    """

    code = ErrorCode.BACKFILL_VERIFICATION_MISMATCH
    exit_code = ExitCode.VERIFICATION_MISMATCH


class VerificationIncompleteError(DponeError):
    """Everything that was compared is equal, but some chunks could not be compared: they are not committed.

    Raised: by `dpone backfill verify`.

    Retry: after the campaign is complete. Do: `dpone backfill resume MANIFEST`, then verify again.
    """

    code = ErrorCode.BACKFILL_VERIFICATION_INCOMPLETE
    exit_code = ExitCode.INCOMPLETE


class InterruptedRunError(DponeError):
    """The run was told to stop (Ctrl-C or SIGTERM): running chunks had a bounded grace, what was not started is released.

    Raised: by a run, or any other command, that was asked to stop.

    Retry: safe. Do: run or clear it again; committed chunks are skipped.
    """

    code = ErrorCode.INTERRUPTED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
