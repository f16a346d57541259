"""What a doctor asks of the target's server besides the ledger; nothing is changed there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from dpone_contract.chunk_plan import RunKey


@dataclass(frozen=True)
class LockingSession:
    """A session of dpone that holds locks. `state` and `in_transaction` are None where this user may not see them."""

    pid: int
    name: str
    state: str | None
    in_transaction: timedelta | None
    waits: bool
    holds: tuple[str, ...]


class TargetDiagnostics(Protocol):
    """A look at the target's server.

    Errors of every method: DatabaseFailedError, ConnectionFailedError.
    """

    def missing_rights(self) -> tuple[str, ...]:
        """Say what this user lacks for a ledger whose tables are there: rights, or a server that can be written."""

    def pooled(self) -> bool:
        """Whether a proxy hands this connection's transactions to changing sessions."""

    def sessions(
        self, run_key: RunKey, relation: str | None, chunk_indexes: tuple[int, ...]
    ) -> tuple[LockingSession, ...]:
        """Give the sessions of dpone that hold locks in this database, and which of them are a campaign's or its chunks'."""

    def close(self) -> None:
        """End the session."""
