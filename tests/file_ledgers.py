"""Ledgers in a folder without a database: their target's locks are this process's own, and nobody else is on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpone_contract.errors import CampaignBusyError
from dpone_runtime.adapters.local_file.ledger import LocalFileLedger
from dpone_runtime.domain.local_run import LocalRun, new_local_run
from tests.campaign_factories import TARGET


class OwnFence:
    """A target's session, until the test ends it."""

    def __init__(self) -> None:
        self.alive = True

    def held(self) -> bool:
        return self.alive


class OwnTargetLocks:
    """`TargetLocks` of one process: a target is a name in a set."""

    def __init__(self) -> None:
        self.fences: dict[str, OwnFence] = {}
        self.ended: list[tuple[str, str, int]] = []

    @contextmanager
    def fence(self, run_key: str, run: LocalRun) -> Iterator[OwnFence]:
        if run.relation in self.fences:
            raise CampaignBusyError("the target is held", where=f"campaign {run_key}", next_step="wait")
        self.fences[run.relation] = OwnFence()
        try:
            yield self.fences[run.relation]
        finally:
            del self.fences[run.relation]

    def end_holders(self, relation: str, run_key: str, chunk_index: int) -> int:
        self.ended.append((relation, run_key, chunk_index))
        return 0

    def campaigns_on(self, target: object) -> tuple[()]:  # the port's
        return ()

    def close(self) -> None:
        """Nothing is open."""


def ledger_in(folder: Path, locks: OwnTargetLocks | None = None, **arguments: Any) -> LocalFileLedger:
    """Give the ledger of a run; the folder is made."""
    ledger = LocalFileLedger(folder, locks or OwnTargetLocks(), new_local_run(TARGET.relation), **arguments)
    ledger.ensure_schema()
    return ledger
