"""`LocalFileLedger`: the ledger port over the files of a folder, with locks in the target's database for what files cannot lock.

It promises less than a ledger beside the target: it learns of a commit after it has happened, and holds for one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from dpone_contract.chunk_options import MAX_CHUNKS_LIMIT
from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import (
    CampaignBusyError,
    ChunkBusyError,
    ChunkLeaseLostError,
    InternalError,
    StateUnsupportedError,
)
from dpone_runtime.adapters.local_file.campaign_file import CampaignFile
from dpone_runtime.adapters.local_file.campaign_index import CampaignIndex
from dpone_runtime.adapters.local_file.file_lock import FileLock, LockBusyError
from dpone_runtime.adapters.local_file.folder import LedgerFolder
from dpone_runtime.adapters.local_file.neighbours import neighbours
from dpone_runtime.domain.campaign import Campaign, TableIdentity
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.claim import LedgerView
from dpone_runtime.domain.event import Event, PastEvent
from dpone_runtime.domain.lease import LEASE_TTL
from dpone_runtime.domain.local_run import LocalRun
from dpone_runtime.domain.stored_rows import (
    carried_chunk,
    committed_windows,
    completed_chunk,
    event_of_campaign,
    event_of_change,
    failed_since_opened,
    may_complete,
    renewed_chunk,
    stored_campaign,
    stored_chunk,
)
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest
from dpone_runtime.ports.ledger import (
    Change,
    Decision,
    FailureGroup,
    Fence,
    OpeningDecision,
    OpeningView,
    OtherCampaign,
    RunningChunk,
    StaleRevisionError,
    grouped_failures,
)
from dpone_runtime.ports.target_locks import TargetLocks

OPENING_WAIT = timedelta(seconds=30)
TRANSITION_WAIT = timedelta(seconds=15)
RENEWAL_WAIT = timedelta(seconds=5)

CAPABILITIES = StateCapabilities(
    backend="local_file",
    dialect="file",
    durable_read=True,
    durable_write=True,
    lock_scope="process",
    distributed_lock=False,
    distributed_chunk_lease=False,
    compare_and_set_completion=True,
    continuous_campaign_session_fence=False,
)


def machine_clock() -> datetime:
    """Give this machine's time, the ledger's clock."""
    return datetime.now(UTC)


class LocalFence:
    """The lock of a run: its campaign's file, and the session that has the target."""

    def __init__(self, file: FileLock, target: Fence) -> None:
        self._file = file
        self._target = target

    def held(self) -> bool:
        return self._file.held() and self._target.held()


class LocalFileLedger:
    """`CampaignLedger` in a folder. `run` is what its lanes commit under, None where nothing is run.

    `clock` and `lease_ttl` are arguments for tests; runs use the defaults.
    """

    def __init__(
        self,
        folder: Path,
        locks: TargetLocks,
        run: LocalRun | None = None,
        *,
        clock: Callable[[], datetime] = machine_clock,
        lease_ttl: timedelta = LEASE_TTL,
    ) -> None:
        self._folder = LedgerFolder(folder, clock)
        self._locks = locks
        self._run = run
        self._clock = clock
        self._lease_ttl = lease_ttl

    def capabilities(self) -> StateCapabilities:
        return CAPABILITIES

    def authority(self) -> dict[str, str]:
        return {"dialect": CAPABILITIES.dialect, "folder": str(self._folder.path)}

    def ensure_schema(self) -> None:
        self._folder.create()

    def exists(self) -> bool:
        return self._folder.path.is_dir()

    # Changes.

    def transition(self, run_key: RunKey, chunk_index: int | None, decide: Decision) -> Change | None:
        with self._transition_lock(run_key):
            file = self._folder.file(run_key)
            index, now = file.refresh(), self._clock()
            view = LedgerView(index.campaign, file.chunk(chunk_index or 0), index.live_leases(now), now)
            return self._written(file, decide(view))

    def open_campaign(
        self, run_key: RunKey, target: TableIdentity, decide: OpeningDecision, *, with_committed: bool = False
    ) -> Change | None:
        # Neither it nor those that are beside it can change meanwhile: a run holds the lock that openings and swaps take.
        self._locks.require_same_table(run_key, target)
        elsewhere = self._locks.campaigns_on(target)
        try:
            with self._folder.locked(OPENING_WAIT):
                file = self._folder.file(run_key)
                index = file.refresh()
                others = self._others(run_key, target, with_committed=with_committed)
                view = OpeningView(index.campaign, (*others, *elsewhere))
                return self._written(file, decide(view))
        except LockBusyError as error:
            raise CampaignBusyError(
                f"campaign {run_key} could not be opened: its folder was locked for {OPENING_WAIT.seconds} s",
                where=str(self._folder.path),
                next_step="run it again; if it repeats, look for a stopped process that has the folder's .lock",
                run_key=run_key,
            ) from error

    def _others(
        self, run_key: RunKey, target: TableIdentity, *, with_committed: bool
    ) -> tuple[OtherCampaign, ...]:
        found = []
        for key in neighbours(self._folder.path, run_key, target, over=with_committed):
            file = self._folder.file(key)
            index = file.refresh()
            campaign = index.campaign
            if campaign is None or not campaign.target.same_object(target):
                continue
            if campaign.over and not with_committed:
                continue
            rows = file.chunks(index.rows(1, campaign.chunks_total)) if with_committed else ()
            committed = committed_windows(campaign, rows) if with_committed else ()
            live = index.live_leases(self._clock())
            found.append(OtherCampaign(campaign, live, str(file.summary_path), committed))
        return tuple(found)

    def publish(self, run_key: RunKey, *_what: object, **_how: object) -> Change | None:
        raise StateUnsupportedError(
            f"campaign {run_key} cannot be published: a file cannot commit together with the exchange of two tables",
            next_step="set state.backend: audit_schema, or publication.mode: direct",
            key="publication.mode",
        )

    def close_campaign(self, run_key: RunKey, decide: Decision) -> Change | None:
        self._end_all_holders(run_key)
        change = self.transition(run_key, None, decide)
        self._end_all_holders(run_key)
        return change

    def _end_all_holders(self, run_key: RunKey) -> None:
        with self._reading(run_key) as (_, index):
            running = index.running()
        for chunk_index in running:
            self.end_holders(run_key, chunk_index)

    def _written(self, file: CampaignFile, change: Change | None) -> Change | None:
        if change is None:
            return None
        now, rows = self._clock(), list[tuple[Event | None, Campaign | ChunkRecord | None]]()
        campaign = chunk = None
        before = file.refresh().campaign
        if change.campaign is not None:
            campaign = stored_campaign(before, change.campaign, now)
            if campaign is None:
                raise StaleRevisionError
            rows.append((event_of_campaign(change.event_of_campaign, campaign), campaign))
        if change.chunk is not None:
            chunk = stored_chunk(file.chunk(change.chunk.chunk_index), change.chunk, now, self._lease_ttl)
            if chunk is None or (before is None and campaign is None):
                raise StaleRevisionError
            rows.append((event_of_change(change.event, chunk), chunk))
        if campaign is not None and change.reloaded is not None:
            rows += self._carried(file, campaign, change.reloaded)
        file.add(rows, now)
        return change

    def _carried(
        self, file: CampaignFile, campaign: Campaign, reloaded: frozenset[int]
    ) -> Iterator[tuple[Event, ChunkRecord]]:
        index = file.refresh()
        for record in file.chunks(index.rows(1, campaign.chunks_total)):
            carried = carried_chunk(record, campaign.round, reloaded)
            if carried is not None:
                row, event = carried
                yield event, row

    def renew(self, record: ChunkRecord) -> bool:
        try:
            with self._folder.locked(RENEWAL_WAIT):
                file = self._folder.file(record.run_key)
                file.refresh()
                now = self._clock()
                row = renewed_chunk(file.chunk(record.chunk_index), record, now, self._lease_ttl)
                if row is None:
                    return False
                file.add([(None, row)], now)
                return True
        except LockBusyError:
            # Somebody is at work with the folder: no loss, the next renewal tells.
            return True

    def record_commit(self, request: LoadRequest, receipt: LoadReceipt) -> None:
        with self._transition_lock(request.run_key):
            file = self._folder.file(request.run_key)
            index, now = file.refresh(), self._clock()
            found = file.chunk(request.chunk.index)
            mine = may_complete(
                found,
                index.campaign,
                owner=request.owner,
                revision=request.revision,
                round_number=request.round,
            )
            if found is None or not mine:
                raise ChunkLeaseLostError(
                    "another attempt owns the chunk now, or its campaign was closed; its rows are loaded again by whoever does",
                    where=f"campaign {request.run_key}, chunk {request.chunk.index}",
                    next_step="run it again; committed chunks are skipped",
                )
            row, event = completed_chunk(
                found, receipt.rows_extracted, receipt.rows_loaded, now, receipt.content_digest
            )
            file.add([(event, row)], now)

    def add_event(self, event: Event) -> None:
        with self._transition_lock(event.run_key):
            file = self._folder.file(event.run_key)
            if file.refresh().campaign is None:
                raise StaleRevisionError
            file.add([(event, None)], self._clock())

    # Reading.

    def read_campaign(self, run_key: RunKey) -> Campaign | None:
        with self._reading(run_key) as (_, index):
            return index.campaign

    def read_chunk(self, run_key: RunKey, chunk_index: int) -> ChunkRecord | None:
        with self._reading(run_key) as (file, _):
            return file.chunk(chunk_index)

    def read_chunks(self, run_key: RunKey, first: int, last: int) -> tuple[ChunkRecord, ...]:
        with self._reading(run_key) as (file, index):
            return tuple(file.chunks(index.rows(first, last)))

    def campaign_events(self, run_key: RunKey) -> tuple[PastEvent, ...]:
        with self._reading(run_key) as (file, index):
            return tuple(file.events(index.history()))

    def verdicts(self, run_key: RunKey, first: int, last: int, after: int) -> tuple[PastEvent, ...]:
        with self._reading(run_key) as (file, index):
            return tuple(file.events(index.verdicts(first, last, after)))

    def committed(self, run_key: RunKey, round_number: int, first: int, last: int) -> frozenset[int]:
        with self._reading(run_key) as (_, index):
            return index.committed(round_number, first, last)

    def chunk_statuses(
        self, run_key: RunKey, first: int = 1, last: int = MAX_CHUNKS_LIMIT
    ) -> Mapping[int, ChunkStatus]:
        with self._reading(run_key) as (_, index):
            campaign = index.campaign
            statuses = {} if campaign is None else index.statuses(campaign.round, self._clock())
            return {chunk: status for chunk, status in statuses.items() if first <= chunk <= last}

    def failures(self, run_key: RunKey, limit: int) -> tuple[ChunkRecord, ...]:
        with self._reading(run_key) as (file, index):
            return tuple(file.chunks(islice(index.failed_rows(), limit)))

    def failed_or_lapsed(self, run_key: RunKey, first: int, last: int, limit: int) -> tuple[ChunkRecord, ...]:
        with self._reading(run_key) as (file, index):
            lapsed = [offset for number in index.lapsed(self._clock()) if (offset := index.row(number))]
            found = file.chunks((*index.failed_rows(), *lapsed))
            chosen = (record for record in found if first <= record.chunk_index <= last)
            return tuple(sorted(chosen, key=lambda record: record.chunk_index)[:limit])

    def failed_count(self, run_key: RunKey) -> int:
        with self._reading(run_key) as (file, index):
            campaign, failed = index.campaign, file.chunks(index.failed_rows())
            return 0 if campaign is None else sum(failed_since_opened(record, campaign) for record in failed)

    def failure_groups(self, run_key: RunKey) -> tuple[FailureGroup, ...]:
        with self._reading(run_key) as (file, index):
            return grouped_failures(file.chunks(index.failed_rows()))

    def running(self, run_key: RunKey, limit: int) -> tuple[RunningChunk, ...]:
        now = self._clock()
        with self._reading(run_key) as (file, index):
            offsets = [offset for number in index.running()[:limit] if (offset := index.row(number))]
            return tuple(
                RunningChunk(record, (record.lease_expires_at or now) - now)
                for record in file.chunks(offsets)
            )

    def others(self, run_key: RunKey, target: TableIdentity) -> tuple[OtherCampaign, ...]:
        elsewhere = self._locks.campaigns_on(target)
        with self._folder.looking():
            return (*self._others(run_key, target, with_committed=False), *elsewhere)

    def counts(self, run_key: RunKey, round_number: int) -> Mapping[ChunkStatus, int]:
        with self._reading(run_key) as (_, index):
            return index.counts(round_number, self._clock())

    # Locks.

    def end_holders(self, run_key: RunKey, chunk_index: int) -> int:
        campaign = self.read_campaign(run_key)
        if campaign is None:
            return 0
        return self._locks.end_holders(campaign.target.relation, run_key, chunk_index)

    @contextmanager
    def fence(self, run_key: RunKey) -> Iterator[LocalFence]:
        if self._run is None:
            raise InternalError("a run began without its ledger", next_step="report it with the log")
        with self._folder.held_for_run(run_key) as file, self._locks.fence(run_key, self._run) as target:
            self._lapse_leases(run_key)
            yield LocalFence(file, target)

    def _lapse_leases(self, run_key: RunKey) -> None:
        """Let every lease of the campaign end now: who took them held what this run holds, and left nothing at work."""
        with self._transition_lock(run_key):
            file = self._folder.file(run_key)
            running, now = file.refresh().running(), self._clock()
            records = [
                record for index in running if (record := file.chunk(index)) and record.lease_live(now)
            ]
            if records:
                file.add([(None, replace(record, lease_expires_at=now)) for record in records], now)

    @contextmanager
    def _transition_lock(self, run_key: RunKey) -> Iterator[None]:
        with ExitStack() as held:
            try:
                held.enter_context(self._folder.locked(TRANSITION_WAIT))
            except LockBusyError as error:
                raise ChunkBusyError(
                    f"the ledger of campaign {run_key} was locked for {TRANSITION_WAIT.seconds} s",
                    where=str(self._folder.path),
                    next_step="look for a stopped process that has the folder's .lock open",
                ) from error
            yield

    @contextmanager
    def _reading(self, run_key: RunKey) -> Iterator[tuple[CampaignFile, CampaignIndex]]:
        with self._folder.looking():
            file = self._folder.file(run_key)
            yield file, file.refresh()

    def close(self) -> None:
        self._folder.close()
        self._locks.close()
