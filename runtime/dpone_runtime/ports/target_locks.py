"""What a ledger that has no database of its own borrows from its target's: locks, and a look at the ledgers that live there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from dpone_contract.chunk_plan import RunKey
from dpone_runtime.domain.campaign import TableIdentity
from dpone_runtime.domain.local_run import LocalRun
from dpone_runtime.ports.ledger import Fence, OtherCampaign


class TargetLocks(Protocol):
    """The port. Nothing is opened before it is needed.

    Errors of every method: DatabaseFailedError, ConnectionFailedError.
    """

    def fence(self, run_key: RunKey, run: LocalRun, /) -> AbstractContextManager[Fence]:
        """Be the only such run of a target, whatever folder or machine its ledger is on; its lanes may commit meanwhile.

        Whatever an earlier run has left at work in the target is ended first.

        Errors: CampaignBusyError where another run has the target; SessionUnsafeError behind a transaction-pooling proxy.
        """

    def end_holders(self, relation: str, run_key: RunKey, chunk_index: int, /) -> int:
        """End every dpone session that holds a chunk's lock; give how many there were."""

    def campaigns_on(self, target: TableIdentity, /) -> tuple[OtherCampaign, ...]:
        """Give the campaigns of ledgers beside the target that may still write to it."""

    def require_same_table(self, run_key: RunKey, target: TableIdentity, /) -> None:
        """Require a target's name to lead to the table that was looked at; no swap can come while the fence is held.

        Errors: CampaignBusyError.
        """

    def close(self) -> None:
        """End the session, if there is one."""
