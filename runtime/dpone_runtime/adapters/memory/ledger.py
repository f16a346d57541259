"""`MemoryLedger`: the reference that the conformance suite is written against.

Process-scoped: its locks are threads' locks and its state dies with the process, so it promises nothing to a second process, and a
mapped run is refused.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta

from dpone_contract.chunk_options import MAX_CHUNKS_LIMIT
from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import CampaignBusyError, ChunkLeaseLostError
from dpone_runtime.adapters.memory.history import MemoryHistory
from dpone_runtime.domain.campaign import Campaign, TableIdentity
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.claim import LedgerView
from dpone_runtime.domain.event import Event, PastEvent
from dpone_runtime.domain.lease import LEASE_TTL
from dpone_runtime.domain.publication import Receipts, ShadowContent, Swap
from dpone_runtime.domain.stored_rows import (
    carried_chunk,
    committed_windows,
    completed_chunk,
    event_of_campaign,
    event_of_change,
    failed_since_opened,
    may_complete,
    renewed_chunk,
    shown_in_round,
    stored_campaign,
    stored_chunk,
)
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest
from dpone_runtime.ports.ledger import (
    Change,
    Decision,
    FailureGroup,
    OpeningDecision,
    OpeningView,
    OtherCampaign,
    PublicationDecision,
    PublicationView,
    RunningChunk,
    StaleRevisionError,
    grouped_failures,
)

_NAME = "memory"


class ChunkHold:
    """A chunk's lock as a data transaction holds it; `ended` once somebody has ended the holder."""

    def __init__(self) -> None:
        self.ended = False


class MemoryFence:
    """The campaign's lock of one run; a test takes it away with `lose`."""

    def __init__(self) -> None:
        self._held = True

    def held(self) -> bool:
        return self._held

    def lose(self) -> None:
        """Act as a server that has ended the session."""
        self._held = False


class MemoryLedger:
    """`CampaignLedger` in dictionaries. `clock` is the ledger's clock; `events` gives the history in order.

    One lock stands for all transaction locks: every transition is alone.
    """

    def __init__(self, clock: Callable[[], datetime], lease_ttl: timedelta = LEASE_TTL) -> None:
        self._clock = clock
        self._lease_ttl = lease_ttl
        self._lock = threading.RLock()
        self._campaigns: dict[RunKey, Campaign] = {}
        self._chunks: dict[tuple[RunKey, int], ChunkRecord] = {}
        self._holds: dict[tuple[RunKey, int], ChunkHold] = {}
        self._created = False
        self.fences: dict[RunKey, MemoryFence] = {}
        self._history = MemoryHistory(clock)
        self.shadow_content: ShadowContent | None = None
        self.swapped: list[Swap] = []

    @property
    def events(self) -> list[Event]:
        """The history in order."""
        return self._history.events()

    def capabilities(self) -> StateCapabilities:
        return StateCapabilities(
            backend=_NAME,
            dialect=_NAME,
            durable_read=False,
            durable_write=False,
            lock_scope="process",
            distributed_lock=False,
            distributed_chunk_lease=False,
            compare_and_set_completion=True,
            continuous_campaign_session_fence=False,
        )

    def authority(self) -> dict[str, str]:
        return {"dialect": _NAME, "schema": _NAME}

    def ensure_schema(self) -> None:
        self._created = True

    def exists(self) -> bool:
        return self._created

    def transition(self, run_key: RunKey, chunk_index: int | None, decide: Decision) -> Change | None:
        with self._lock:
            campaign = self._campaigns.get(run_key)
            chunk = self._chunks.get((run_key, chunk_index or 0))
            change = decide(LedgerView(campaign, chunk, self._live_leases(run_key), self._clock()))
            return self._written(change)

    def open_campaign(
        self, run_key: RunKey, target: TableIdentity, decide: OpeningDecision, *, with_committed: bool = False
    ) -> Change | None:
        with self._lock:
            others = self._others(run_key, target, with_committed=with_committed)
            return self._written(decide(OpeningView(self._campaigns.get(run_key), others)))

    def _others(
        self, run_key: RunKey, target: TableIdentity, *, with_committed: bool
    ) -> tuple[OtherCampaign, ...]:
        return tuple(
            OtherCampaign(
                campaign,
                self._live_leases(campaign.run_key),
                _NAME,
                committed_windows(campaign, self._records(campaign.run_key)) if with_committed else (),
            )
            for _, campaign in sorted(self._campaigns.items())
            if campaign.run_key != run_key
            and campaign.target.same_object(target)
            and (with_committed or not campaign.over)
        )

    def publish(
        self,
        run_key: RunKey,
        swap: Swap,
        decide: PublicationDecision,
        *,
        fenced: bool,
        told: Callable[[str], None] = lambda _line: None,
    ) -> Change | None:
        """The tables are a test's own: `shadow_content` says what the shadow holds, `swapped` which swaps were made."""
        del told
        with self._lock:
            if not fenced and run_key in self.fences:
                raise _held(run_key)
            campaign = self._campaigns.get(run_key)
            done = [
                record
                for record in self._records(run_key)
                if campaign is not None and record.committed_in(campaign.round)
            ]
            receipts = Receipts(len(done), sum(record.rows_loaded or 0 for record in done))
            content = self.shadow_content or ShadowContent(receipts.rows, 0)
            change = self._written(decide(PublicationView(campaign, receipts, content)))
            if change is not None:
                self.swapped.append(swap)
            return change

    def close_campaign(self, run_key: RunKey, decide: Decision) -> Change | None:
        self._end_all_holders(run_key)
        change = self.transition(run_key, None, decide)
        self._end_all_holders(run_key)
        return change

    def read_campaign(self, run_key: RunKey) -> Campaign | None:
        with self._lock:
            return self._campaigns.get(run_key)

    def read_chunk(self, run_key: RunKey, chunk_index: int) -> ChunkRecord | None:
        with self._lock:
            return self._chunks.get((run_key, chunk_index))

    def read_chunks(self, run_key: RunKey, first: int, last: int) -> tuple[ChunkRecord, ...]:
        return tuple(record for record in self._records(run_key) if first <= record.chunk_index <= last)

    def add_event(self, event: Event) -> None:
        with self._lock:
            self._history.add(event)

    def campaign_events(self, run_key: RunKey) -> tuple[PastEvent, ...]:
        with self._lock:
            return self._history.of_campaign(run_key)

    def verdicts(self, run_key: RunKey, first: int, last: int, after: int) -> tuple[PastEvent, ...]:
        with self._lock:
            return self._history.verdicts(run_key, first, last, after)

    def committed(self, run_key: RunKey, round_number: int, first: int, last: int) -> frozenset[int]:
        return frozenset(
            record.chunk_index
            for record in self._records(run_key)
            if record.committed_in(round_number) and first <= record.chunk_index <= last
        )

    def chunk_statuses(
        self, run_key: RunKey, first: int = 1, last: int = MAX_CHUNKS_LIMIT
    ) -> Mapping[int, ChunkStatus]:
        campaign = self.read_campaign(run_key)
        if campaign is None:
            return {}
        return {
            record.chunk_index: self._shown(record, campaign.round)
            for record in self._records(run_key)
            if first <= record.chunk_index <= last
        }

    def failures(self, run_key: RunKey, limit: int) -> tuple[ChunkRecord, ...]:
        return tuple(self._shown_as(run_key, ChunkStatus.FAILED))[:limit]

    def failed_or_lapsed(self, run_key: RunKey, first: int, last: int, limit: int) -> tuple[ChunkRecord, ...]:
        found = self._shown_as(run_key, ChunkStatus.FAILED, ChunkStatus.LEASE_EXPIRED)
        return tuple(record for record in found if first <= record.chunk_index <= last)[:limit]

    def failed_count(self, run_key: RunKey) -> int:
        with self._lock:
            campaign = self._campaigns[run_key]
            return sum(failed_since_opened(record, campaign) for record in self._records(run_key))

    def failure_groups(self, run_key: RunKey) -> tuple[FailureGroup, ...]:
        return grouped_failures(self._shown_as(run_key, ChunkStatus.FAILED))

    def running(self, run_key: RunKey, limit: int) -> tuple[RunningChunk, ...]:
        now = self._clock()
        found = self._shown_as(run_key, ChunkStatus.RUNNING, ChunkStatus.LEASE_EXPIRED)
        return tuple(RunningChunk(record, (record.lease_expires_at or now) - now) for record in found[:limit])

    def others(self, run_key: RunKey, target: TableIdentity) -> tuple[OtherCampaign, ...]:
        with self._lock:
            return self._others(run_key, target, with_committed=False)

    def counts(self, run_key: RunKey, round_number: int) -> Mapping[ChunkStatus, int]:
        counts = Counter(self._shown(record, round_number) for record in self._records(run_key))
        del counts[ChunkStatus.PENDING]
        return counts

    def renew(self, record: ChunkRecord) -> bool:
        with self._lock:
            found = self._chunks.get((record.run_key, record.chunk_index))
            row = renewed_chunk(found, record, self._clock(), self._lease_ttl)
            if row is None:
                return False
            self._store(row)
            return True

    def record_commit(self, request: LoadRequest, receipt: LoadReceipt) -> None:
        """A sink of this ledger has called `complete_chunk`."""

    def end_holders(self, run_key: RunKey, chunk_index: int) -> int:
        with self._lock:
            hold = self._holds.pop((run_key, chunk_index), None)
            if hold is None:
                return 0
            hold.ended = True
            return 1

    def close(self) -> None:
        """Nothing is open."""

    @contextmanager
    def fence(self, run_key: RunKey) -> Iterator[MemoryFence]:
        with self._lock:
            if run_key in self.fences:
                raise _held(run_key)
            fence = self.fences[run_key] = MemoryFence()
        try:
            yield fence
        finally:
            with self._lock:
                del self.fences[run_key]

    # What a sink of this ledger does, in place of a data transaction.

    def hold_chunk(self, run_key: RunKey, chunk_index: int) -> ChunkHold:
        """Take a chunk's lock. A former holder does not wait here: it is a test's own."""
        with self._lock:
            hold = self._holds[run_key, chunk_index] = ChunkHold()
            return hold

    def release_chunk(self, run_key: RunKey, chunk_index: int) -> None:
        """Give a chunk's lock back."""
        with self._lock:
            self._holds.pop((run_key, chunk_index), None)

    def complete_chunk(self, request: LoadRequest, rows_extracted: int, rows_loaded: int) -> None:
        """Turn a chunk's row to committed, under the guards of the query of this name.

        Errors: ChunkLeaseLostError, and nothing is written, where another attempt owns the chunk or the campaign is closed
        or in another round.
        """
        with self._lock:
            found = self._chunks.get((request.run_key, request.chunk.index))
            campaign = self._campaigns.get(request.run_key)
            mine = may_complete(
                found,
                campaign,
                owner=request.owner,
                revision=request.revision,
                round_number=request.round,
            )
            if found is None or not mine:
                raise ChunkLeaseLostError(
                    "another attempt owns the chunk now, or its campaign was closed",
                    where=f"campaign {request.run_key}, chunk {request.chunk.index}",
                    next_step="run it again; committed chunks are skipped",
                )
            row, event = completed_chunk(found, rows_extracted, rows_loaded, self._clock())
            self._store(row)
            self._history.add(event)

    # Writing: all of a change or nothing, under the lock.

    def _written(self, change: Change | None) -> Change | None:
        if change is None:
            return None
        now = self._clock()
        campaign = chunk = None
        if change.campaign is not None:
            found = self._campaigns.get(change.campaign.run_key)
            campaign = stored_campaign(found, change.campaign, now)
        if change.chunk is not None:
            before = self._chunks.get((change.chunk.run_key, change.chunk.chunk_index))
            chunk = stored_chunk(before, change.chunk, now, self._lease_ttl)
        if (campaign is None) != (change.campaign is None) or (chunk is None) != (change.chunk is None):
            raise StaleRevisionError
        if campaign is not None:
            self._campaigns[campaign.run_key] = campaign
            self._history.add(event_of_campaign(change.event_of_campaign, campaign))
        if chunk is not None:
            self._store(chunk)
            self._history.add(event_of_change(change.event, chunk))
        if campaign is not None and change.reloaded is not None:
            self._carry(campaign, change.reloaded)
        return change

    def _carry(self, campaign: Campaign, reloaded: frozenset[int]) -> None:
        for record in self._records(campaign.run_key):
            carried = carried_chunk(record, campaign.round, reloaded)
            if carried is not None:
                self._store(carried[0])
                self._history.add(carried[1])

    def _store(self, record: ChunkRecord) -> None:
        self._chunks[record.run_key, record.chunk_index] = record

    # Reading.

    def _records(self, run_key: RunKey) -> list[ChunkRecord]:
        with self._lock:
            return [record for (key, _), record in sorted(self._chunks.items()) if key == run_key]

    def _shown_as(self, run_key: RunKey, *wanted: ChunkStatus) -> list[ChunkRecord]:
        statuses = self.chunk_statuses(run_key)
        return [record for record in self._records(run_key) if statuses[record.chunk_index] in wanted]

    def _live_leases(self, run_key: RunKey) -> int:
        now = self._clock()
        return sum(key == run_key and record.lease_live(now) for (key, _), record in self._chunks.items())

    def _shown(self, record: ChunkRecord, round_number: int) -> ChunkStatus:
        return shown_in_round(record, round_number, self._clock())

    def _end_all_holders(self, run_key: RunKey) -> None:
        for record in self._records(run_key):
            if record.status is ChunkStatus.RUNNING:
                self.end_holders(run_key, record.chunk_index)


def _held(run_key: RunKey) -> CampaignBusyError:
    return CampaignBusyError(
        f"campaign {run_key} is held by another run",
        where=f"campaign {run_key}",
        next_step="wait until that run has ended",
        run_key=run_key,
    )
