"""Ledgers in a folder without a database: their target's locks are this process's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpone_contract.errors import CampaignBusyError
from dpone_runtime.adapters.local_file.ledger import LocalFileLedger
from dpone_runtime.domain.local_run import LocalRun, new_local_run
from dpone_runtime.ports.connectors import LoadReceipt
from dpone_runtime.ports.ledger import OtherCampaign
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import open_campaign
from tests.campaign_factories import RUN_KEY, TARGET, make_campaign, make_plan


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
        self.beside: tuple[OtherCampaign, ...] = ()

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

    def campaigns_on(self, _target: object) -> tuple[OtherCampaign, ...]:
        return self.beside

    def require_same_table(self, _run_key: object, _target: object) -> None:
        """No name leads anywhere."""

    def close(self) -> None:
        """Nothing is open."""


def ledger_in(folder: Path, locks: OwnTargetLocks | None = None, **arguments: Any) -> LocalFileLedger:
    """Give the ledger of a run; the folder is made."""
    ledger = LocalFileLedger(folder, locks or OwnTargetLocks(), new_local_run(TARGET.relation), **arguments)
    ledger.ensure_schema()
    return ledger


def claims_of(ledger: LocalFileLedger, chunks: int = 5) -> ChunkClaims:
    """The claims of a run on the campaign of these tests."""
    return ChunkClaims(ledger, make_plan(chunks), max_active=None, dag_run_id=None)


def commit(ledger: LocalFileLedger, *indexes: int) -> None:
    """Claim chunks and record them as committed, with seven rows each."""
    for index in indexes:
        request = claims_of(ledger).claim(index).request
        assert request is not None
        ledger.record_commit(request, LoadReceipt(7, 7, 0))


@contextmanager
def reading(folder: Path) -> Iterator[LocalFileLedger]:
    """Look at a folder as the next command does."""
    ledger = ledger_in(folder)
    try:
        yield ledger
    finally:
        ledger.close()


def statuses(folder: Path) -> dict[int, str]:
    """Give the shown status of every chunk that was claimed, as the next command sees it."""
    with reading(folder) as ledger:
        return {index: status.value for index, status in ledger.chunk_statuses(RUN_KEY).items()}


def leave_begun(folder: Path) -> None:
    """Leave a campaign with two committed chunks and one at work, its summary as old as the campaign."""
    ledger = ledger_in(folder)
    open_campaign(ledger, make_campaign())
    # Without an end of this ledger nothing but the journal has the chunks, as after a kill.
    commit(ledger, 1, 2)
    claims_of(ledger).claim(3)


def leave_ended(folder: Path) -> None:
    """Leave the same and one more chunk, with a summary of all of it."""
    leave_begun(folder)
    with reading(folder) as ledger:
        commit(ledger, 4)
