"""Who may retry a task, and how often: computed from what a retried chunk would do to the target."""

from __future__ import annotations

from dpone_contract.manifest import DatabaseType, InnerMode, Manifest, StateBackend
from dpone_contract.pack import RetryAuthority

MAX_RETRIES = 3
_CHANGES = {
    InnerMode.PARTITION_REPLACE: "replaces its slice and commits it",
    InnerMode.REPLACE: "replaces its slice and commits it",
    InnerMode.INCREMENTAL_APPEND: "appends its rows and commits them",
    InnerMode.INCREMENTAL_MERGE: "merges its rows by their key and commits them",
    InnerMode.FULL_REFRESH: "replaces the whole table and commits it",
}
_LEDGER_SINKS = (DatabaseType.POSTGRES, DatabaseType.MSSQL)


def has_audit_ledger(manifest: Manifest) -> bool:
    """Whether the ledger lives in the target's own database, authored or by default."""
    backend = manifest.backfill.state.backend
    return manifest.sink.type in _LEDGER_SINKS and backend in (None, StateBackend.AUDIT_SCHEMA)


def retry_authority(manifest: Manifest) -> RetryAuthority:
    """Give up to three retries where a chunk's commit is replay-safe and nothing is lost by a swap, else none, with the reason.

    Source: the design, pack and mapping plan (retry authority); the backfill guide, removing the retained backup.
    """
    mode = manifest.backfill.inner_mode
    if manifest.sink.type is not DatabaseType.POSTGRES:
        return RetryAuthority(
            max_retries=0,
            reason=f"a chunk's commit on {manifest.sink.type.value} is not certified as replay-safe",
        )
    if not has_audit_ledger(manifest):
        return RetryAuthority(max_retries=0, reason="the ledger is not committed together with the rows")
    publication = manifest.backfill.publication
    if publication.swaps and not publication.retain_backup:
        return RetryAuthority(
            max_retries=0,
            reason="publication by shadow_swap drops what was live (retain_backup: false), so that a person decides about another run",
        )
    published = ", and the ledger has the tables exchanged once" if publication.swaps else ""
    return RetryAuthority(
        max_retries=MAX_RETRIES,
        reason=f"{mode.value} {_CHANGES[mode]} together with the ledger; committed chunks are skipped{published}",
    )
