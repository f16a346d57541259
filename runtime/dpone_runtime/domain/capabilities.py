"""What a ledger can promise, and what a mapped run requires of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import JsonValue

from dpone_contract.errors import MappingStateUnsupportedError


@dataclass(frozen=True)
class StateCapabilities:
    """The published capability fields of a state backend."""

    backend: str
    dialect: str
    durable_read: bool
    durable_write: bool
    lock_scope: str
    distributed_lock: bool
    distributed_chunk_lease: bool
    compare_and_set_completion: bool
    continuous_campaign_session_fence: bool

    def to_document(self) -> dict[str, JsonValue]:
        """Give plain values."""
        return asdict(self)


def require_mapped_execution(capabilities: StateCapabilities) -> None:
    """Require what several runs of one campaign at once need.

    Errors: MappingStateUnsupportedError naming what is missing.
    """
    needed = ("distributed_lock", "distributed_chunk_lease", "compare_and_set_completion")
    missing = [name for name in needed if not getattr(capabilities, name)]
    if missing:
        raise MappingStateUnsupportedError(
            f"the {capabilities.dialect} ledger lacks {', '.join(missing)}",
            where="sink.strategy.backfill.state",
            next_step="use state.backend: audit_schema on a Postgres or SQL Server sink, or mode internal",
        )
