"""The ledger: what decides. Every change is one short transition under a lock, a compare-and-set and an event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from dpone_contract.chunk_options import MAX_CHUNKS_LIMIT
from dpone_contract.chunk_plan import RunKey
from dpone_runtime.domain.campaign import Campaign, TableIdentity, Window
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.claim import LedgerView
from dpone_runtime.domain.event import Event, PastEvent
from dpone_runtime.domain.publication import Receipts, ShadowContent, Swap
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest


@dataclass(frozen=True)
class Change:
    """What a decision writes: a campaign's or a chunk's next revision, and the event that tells of it.

    `campaign_event` tells of the campaign's row where a chunk's row is written with it. `reloaded` comes with a campaign's next round that loads those chunks only: every other chunk that is committed in the
    round before is carried into it, in the same transaction.
    """

    event: Event
    campaign: Campaign | None = None
    chunk: ChunkRecord | None = None
    reloaded: frozenset[int] | None = None
    campaign_event: Event | None = None

    @property
    def event_of_campaign(self) -> Event:
        """What tells of the campaign's row."""
        return self.campaign_event or self.event


@dataclass(frozen=True)
class OtherCampaign:
    """Another campaign on the same target; `live_leases` counts its chunks at work, `ledger` names where it is kept.

    `committed` says what it has committed there in any round, where that was asked for. `foreign`: its ledger is another one,
    in which nothing is ever written.
    """

    campaign: Campaign
    live_leases: int
    ledger: str
    committed: tuple[Window, ...] = ()
    foreign: bool = False


@dataclass(frozen=True)
class OpeningView:
    """What an opening sees under the target lock."""

    campaign: Campaign | None
    others: tuple[OtherCampaign, ...]


@dataclass(frozen=True)
class PublicationView:
    """What a publication sees: the campaign and its receipts under the locks of its ledger, and a shadow that nobody can write to."""

    campaign: Campaign | None
    receipts: Receipts
    content: ShadowContent


@dataclass(frozen=True)
class RunningChunk:
    """A chunk that is marked running, and what its lease has left by the ledger's clock; of a lapsed one nothing or less."""

    record: ChunkRecord
    lease_left: timedelta


@dataclass(frozen=True)
class FailureGroup:
    """Failed chunks of one error code: how many, and the first of them."""

    code: str
    chunks: int
    first_chunk_index: int


def grouped_failures(failed: Iterable[ChunkRecord]) -> tuple[FailureGroup, ...]:
    """Group failed chunks, which come by index, for ledgers that have no SQL."""
    counts = Counter[str]()
    first: dict[str, int] = {}
    for record in failed:
        code = record.error_code or ""
        counts[code] += 1
        first.setdefault(code, record.chunk_index)
    order = sorted(counts, key=lambda code: (-counts[code], code))
    return tuple(FailureGroup(code, counts[code], first[code]) for code in order)


Decision = Callable[[LedgerView], Change | None]
OpeningDecision = Callable[[OpeningView], Change | None]
PublicationDecision = Callable[[PublicationView], Change | None]


class Fence(Protocol):
    """The session lock of an internal run."""

    def held(self) -> bool:
        """Whether the very session that took the lock still holds it."""


class CampaignLedger(Protocol):
    """The port. All times are the ledger's own clock.

    Errors of every method: DatabaseFailedError, ConnectionFailedError. A transition whose revision has moved raises
    StaleRevisionError and has written nothing.
    """

    def capabilities(self) -> StateCapabilities:
        """Say what this ledger can promise."""

    def authority(self) -> dict[str, str]:
        """Name, without a credential, where the truth is kept."""

    def ensure_schema(self) -> None:
        """Create schema and tables where they are missing; LedgerMissingError where that is not allowed."""

    def exists(self) -> bool:
        """Whether the ledger's tables are there; LedgerMissingError where only some are."""

    def transition(self, run_key: RunKey, chunk_index: int | None, decide: Decision) -> Change | None:
        """Under the transition lock: read one view, decide, write the change with its event, or nothing."""

    def open_campaign(
        self, run_key: RunKey, target: TableIdentity, decide: OpeningDecision, *, with_committed: bool = False
    ) -> Change | None:
        """Under the target lock and the transition lock: read, decide, write. CampaignBusyError after 30 s.

        The view holds the other campaigns that may still write; `with_committed`, also those that are over, each with what
        it has committed: all of a finished one, else the ranges of adjacent committed chunks.
        """

    def close_campaign(self, run_key: RunKey, decide: Decision) -> Change | None:
        """Like `transition`, under the exclusive close lock too; ends the holders of all its chunk locks around it."""

    def publish(
        self,
        run_key: RunKey,
        swap: Swap,
        decide: PublicationDecision,
        /,
        *,
        fenced: bool,
        told: Callable[[str], None] = ...,
    ) -> Change | None:
        """Exchange a campaign's tables and write the change that says so in one transaction, or neither.

        First it takes the campaign's fence for its length, unless the caller holds it (`fenced`), builds what the shadow lacks of
        indexes, each in a transaction of its own that `told` hears of, and keeps others from writing to the shadow. Then, under the target lock, the transition lock and the exclusive close lock: read one view, decide; where
        that gives a change: hold both tables against everybody, require them to be what they were, exchange them, write.

        Errors: CampaignBusyError where another run holds the fence; PublicationBusyError where a table is held by others;
        PublicationRefusedError for tables that are not what they were; StateUnsupportedError where the ledger is not beside them.
        """

    def read_campaign(self, run_key: RunKey) -> Campaign | None:
        """Read a campaign's current row."""

    def read_chunk(self, run_key: RunKey, chunk_index: int) -> ChunkRecord | None:
        """Read a chunk's current row, None if it was never claimed."""

    def read_chunks(self, run_key: RunKey, first: int, last: int) -> tuple[ChunkRecord, ...]:
        """Read the current rows in `first..last` by index; chunks that were never claimed have none."""

    def add_event(self, event: Event) -> None:
        """Add a line of history that changes no row: what a verification found."""

    def campaign_events(self, run_key: RunKey) -> tuple[PastEvent, ...]:
        """Give the campaign's own history in order, without that of its chunks."""

    def verdicts(self, run_key: RunKey, first: int, last: int, after: int) -> tuple[PastEvent, ...]:
        """Give in order what verifications found of the chunks `first..last` in events later than the id `after`."""

    def committed(self, run_key: RunKey, round_number: int, first: int, last: int) -> frozenset[int]:
        """Give the indexes in `first..last` that are committed in a round."""

    def chunk_statuses(
        self, run_key: RunKey, first: int = 1, last: int = MAX_CHUNKS_LIMIT
    ) -> Mapping[int, ChunkStatus]:
        """Give the shown status of each chunk of `first..last` that has a row; what an earlier round has left: pending.

        It holds all of them at once.
        """

    def failures(self, run_key: RunKey, limit: int) -> tuple[ChunkRecord, ...]:
        """Give the first chunks of a campaign that failed in its round, by index."""

    def failed_or_lapsed(self, run_key: RunKey, first: int, last: int, limit: int) -> tuple[ChunkRecord, ...]:
        """Give the first chunks in `first..last` that failed in the campaign's round, or whose lease has lapsed, by index."""

    def failed_count(self, run_key: RunKey) -> int:
        """Count the chunks of an open campaign that have failed since it was opened or resumed, and not been claimed since.

        May be called inside a decision: then no other failure of the campaign is recorded meanwhile.
        """

    def failure_groups(self, run_key: RunKey) -> tuple[FailureGroup, ...]:
        """Count the chunks that failed in the campaign's round by code, the most frequent first."""

    def running(self, run_key: RunKey, limit: int) -> tuple[RunningChunk, ...]:
        """Give the first chunks that are marked running, live or lapsed, by index."""

    def others(self, run_key: RunKey, target: TableIdentity) -> tuple[OtherCampaign, ...]:
        """Give the other campaigns that may still write to a target, without a lock: to look, not to decide."""

    def counts(self, run_key: RunKey, round_number: int) -> Mapping[ChunkStatus, int]:
        """Count the chunks of a round by shown status, all but those that are pending; at a cost that does not grow with them."""

    def renew(self, record: ChunkRecord) -> bool:
        """Move a live lease's expiry; False where it is lapsed or no longer this owner's at this revision.

        A row that is locked for longer than a bounded wait is no loss: True, and the next renewal tells.
        """

    def record_commit(self, request: LoadRequest, receipt: LoadReceipt) -> None:
        """Record what a data transaction has committed, where it could not do so itself; else it has, and nothing is done.

        Errors: ChunkLeaseLostError, and nothing is written, where the chunk is no longer this attempt's, or its campaign is
        closed or in another round: the chunk is then loaded again by whoever owns it.
        """

    def end_holders(self, run_key: RunKey, chunk_index: int) -> int:
        """End every dpone session that holds a chunk's lock; give how many there were.

        May be called inside a decision: then no chunk of the campaign changes hands meanwhile.
        """

    def close(self) -> None:
        """End the ledger's session."""

    def fence(self, run_key: RunKey) -> AbstractContextManager[Fence]:
        """Hold a campaign's session lock; CampaignBusyError when another session has it."""


class StaleRevisionError(Exception):
    """A row's revision moved between reading and writing: the race is lost, nothing was written."""
