"""The coordinator: one thread that claims chunks, hands them to lanes, renews leases and hears how each chunk ended.

A lane that is free takes the next chunk at once. Between any two steps that wait for the ledger it listens to all lanes. A known
failure, or a chunk that nobody told the end of, blocks new claims; chunks at work may finish, within a bound. A failure that may
pass by itself is tried again first (`ChunkRetries`). A run that goes on after failures does so until the ledger halts the campaign.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, assert_never

from dpone_contract.chunk_plan import ChunkPlan
from dpone_contract.errors import (
    CampaignLeaseLostError,
    ChunkLeaseLostError,
    DponeError,
    LaneLostError,
    error_class,
)
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.domain.claim import ClaimVerdict
from dpone_runtime.domain.lease import RENEW_EVERY
from dpone_runtime.domain.retry_rule import THREE_TRIES, RetryRule
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId, LanePool, receipt_of
from dpone_runtime.ports.ledger import Fence
from dpone_runtime.services.chunk_claims import ChunkClaims, RenewalVerdict
from dpone_runtime.services.chunk_ends import AGAIN, ChunkEnds
from dpone_runtime.services.chunk_queue import ChunkQueue
from dpone_runtime.services.chunk_retries import ChunkRetries
from dpone_runtime.services.ledger_absence import LedgerAbsence
from dpone_runtime.services.run_report import RunObserver, RunReport

TICK = timedelta(milliseconds=500)
SETTLE_EVERY = timedelta(milliseconds=100)
LANE_END_GRACE = timedelta(seconds=3)
STOP_GRACE = timedelta(seconds=15)
FAILURE_GRACE = timedelta(minutes=5)
"""How long chunks at work may take to finish once another one has failed."""

MAX_LANES_LOST = 3
_AT_ONCE = timedelta()
_LOOK_FOR_A_KILL = "look for an out-of-memory kill or an eviction at this time, then run it again"


class Clock(Protocol):
    """Elapsed time of this process; never compared with the ledger's."""

    def __call__(self) -> timedelta:
        """Give the time since some fixed moment."""


@dataclass
class _Active:
    """A claimed chunk of a lane. `sent` is set before its frame is written: from then on only its row says how it ended."""

    record: ChunkRecord
    request: LoadRequest
    renewed_at: timedelta
    sent: bool = False


class Coordinator:
    """Runs the chunks of one selection over lanes.

    `stop_requested` is asked on every turn; `fence` is None for mapped items.
    """

    def __init__(
        self,
        claims: ChunkClaims,
        lanes: LanePool,
        plan: ChunkPlan,
        observer: RunObserver,
        clock: Clock,
        *,
        lane_count: int,
        stop_requested: Callable[[], bool],
        fence: Fence | None,
        goes_on: bool = False,
        retry_rule: RetryRule = THREE_TRIES,
    ) -> None:
        self._claims = claims
        self._lanes = lanes
        self._plan = plan
        self._observer = observer
        self._clock = clock
        self._lane_count = lane_count
        self._stop_requested = stop_requested
        self._fence = fence
        self._fence_checked_at = clock()
        self._opening: set[LaneId] = set()
        self._idle: deque[LaneId] = deque()
        self._active: dict[LaneId, _Active] = {}
        self._begun = False
        self._lanes_lost = 0
        self._stop_at: timedelta | None = None
        self._fatal: DponeError | None = None
        self.report = RunReport()
        self._retries = ChunkRetries(retry_rule, clock)
        self._absence = LedgerAbsence(observer, clock)
        self._ends = ChunkEnds(claims, observer, self.report, self._retries, clock, goes_on=goes_on)

    def run(self, indexes: Iterator[int], selected: int, skipped: int) -> RunReport:
        """Run chunks in order until all are done, a failure ends it, or the run is told to stop.

        `indexes` gives the selected chunks that are not committed yet, `selected` counts all of the selection.

        Errors: CampaignLeaseLostError, ChunkBusyError, LaneLostError or what a lane says when lanes cannot be opened; the
        lanes are ended and unsent claims released before any of them leaves.
        """
        self.report.selected, self.report.skipped = selected, skipped
        self._queue = ChunkQueue(indexes, self._plan.run_key, self._observer)
        try:
            while self._work_left():
                self._turn()
            if not self.report.interrupted:
                self._ends.give_up()
        finally:
            self._end_everything()
        if self._fatal is not None:
            raise self._fatal
        begun = self.report.skipped + self.report.committed + len(self.report.failures)
        self.report.left = max(0, selected - begun)
        return self.report

    @property
    def _blocked(self) -> bool:
        report = self.report
        return report.ending or report.interrupted or report.stopped or self._fatal is not None

    def _work_left(self) -> bool:
        return bool(self._active) or self._ends.unsettled or (not self._blocked and self._claimable)

    @property
    def _claimable(self) -> bool:
        return self._queue.left or self._retries.waiting

    def _turn(self) -> None:
        """Each step waits for the ledger once at the most, and what lanes say is heard before the next turn."""
        self._bound()
        self._renew_most_overdue()
        self._check_fence()
        if self._ends.unsettled:
            with self._absence:
                self._ends.settle()
        self._start_lanes()
        claimed = self._dispatch_one()
        if not self._work_left():
            return
        self._observer.tick(len(self._active), self.report)
        self._listen(self._patience(claimed))

    def _patience(self, claimed: bool) -> timedelta:
        if self._ends.unsettled:
            return SETTLE_EVERY
        more = claimed and self._idle and not self._blocked
        at_once = (more or self._overdue() is not None) and not self._absence.lasts
        return _AT_ONCE if at_once else TICK

    def _listen(self, patience: timedelta) -> bool:
        """Take all that lanes say and all that have ended as one observation; nothing is claimed before it is through.

        Gives whether any of it may have made the coordinator wait for the ledger.
        """
        events = self._lanes.poll(patience)
        for event in events:
            self._handle(event)
        return any(event.kind is not LaneEventKind.PROGRESS for event in events)

    # Stopping.

    def _bound(self) -> None:
        """Give chunks at work a bound once nothing new may begin, and end what exceeds it."""
        now = self._clock()
        if self._stop_requested() and not self.report.interrupted:
            self.report.interrupted = True
            self._stop_within(STOP_GRACE, "stopping")
        elif self._stop_at is None and self._failed_too_often:
            self._stop_within(FAILURE_GRACE, "after a failure no chunk begins")
        if self._stop_at is not None and self._active and now >= self._stop_at:
            self._interrupt_active()

    @property
    def _failed_too_often(self) -> bool:
        """Whether failures let nothing begin any more, of this run alone or, where the ledger has stopped it, of its campaign."""
        report = self.report
        return report.ending or self._fatal is not None or (report.stopped and bool(report.failures))

    def _stop_within(self, grace: timedelta, why: str) -> None:
        at = self._clock() + grace
        self._stop_at = at if self._stop_at is None else min(at, self._stop_at)
        if self._active:
            self._observer.waiting(f"{why}: {len(self._active)} chunks may finish")

    # Claiming and sending.

    def _start_lanes(self) -> None:
        """Start what is missing of the lanes, while there is something to claim that no idle lane waits for."""
        if self._blocked or self._ends.unsettled or self._idle or not self._claimable:
            return
        for _ in range(self._lane_count - len(self._active) - len(self._opening)):
            self._opening.add(self._lanes.start())

    def _dispatch_one(self) -> bool:
        """Give one idle lane a chunk; whether a claim was tried. Nothing is claimed before every first lane is open."""
        if self._idle:
            # What has ended since the last look is given nothing.
            self._listen(_AT_ONCE)
        self._begun = self._begun or not self._opening
        if not self._begun or not self._idle or self._blocked or self._ends.unsettled:
            return False
        index = self._retries.take_due()
        if index is None:
            index = self._queue.take(self._clock(), at_work=bool(self._active))
        return index is not None and self._claim(index)

    def _claim(self, index: int) -> bool:
        """Claim a chunk; whether the ledger has answered."""
        claim = None
        with self._absence:
            claim = self._claims.claim(index)
        if claim is None:
            self._queue.give_back(index)
            return False
        match claim.verdict:
            case ClaimVerdict.CLAIM:
                if claim.record is not None and claim.request is not None:
                    self._send(claim.record, claim.request)
            case ClaimVerdict.COMMITTED:
                self.report.skipped += 1
            case ClaimVerdict.BUSY | ClaimVerdict.NOT_NOW | ClaimVerdict.LAPSED:
                self._queue.put_back(index, claim.verdict, self._clock())
            case ClaimVerdict.STOPPED:
                self.report.stopped = True
            case _:
                assert_never(claim.verdict)
        return True

    def _send(self, record: ChunkRecord, request: LoadRequest) -> None:
        """Hand a claimed chunk to a lane, unless the lane or a peer ended while it was claimed: then it is given back."""
        self._queue.claimed()
        lane = self._idle.popleft()
        self._active[lane] = active = _Active(record, request, self._clock())
        while self._listen(_AT_ONCE):
            # Each lane answers once at the most; then nothing lies between the last look and the write.
            continue
        if lane not in self._active:
            return
        if self._blocked or self._ends.unsettled:
            self._idle.append(lane)
            self._unsend(self._active.pop(lane))
            return
        # Latched before the write: whatever part of the frame crosses, the row decides how the chunk ended.
        active.sent = True
        self._lanes.send(lane, request)

    def _unsend(self, active: _Active) -> None:
        """Give a claim back that no lane has been told of."""
        with self._absence:
            self._claims.release(active.record, "claimed and not sent")
        self._queue.give_back(active.record.chunk_index)

    # Ownership.

    def _overdue(self) -> LaneId | None:
        """Give the lane whose lease has waited longest for a renewal that is due."""
        due = [(active.renewed_at, lane) for lane, active in self._active.items()]
        at, lane = min(due, default=(self._clock(), None))
        return lane if self._clock() - at >= RENEW_EVERY else None

    def _renew_most_overdue(self) -> None:
        lane = self._overdue()
        if lane is None:
            return
        active, now, verdict = self._active[lane], self._clock(), None
        with self._absence:
            verdict = self._claims.renew(active.record)
        match verdict:
            case RenewalVerdict.RENEWED | RenewalVerdict.COMMITTED:
                active.renewed_at = now
            case RenewalVerdict.LOST:
                del self._active[lane]
                self._lanes.end((lane,), LANE_END_GRACE)
                reason = "the lease lapsed or another attempt took the chunk"
                self._ends.unknown(active.record, ChunkLeaseLostError(reason, next_step=AGAIN))

    def _check_fence(self) -> None:
        now = self._clock()
        if self._fence is None or now - self._fence_checked_at < RENEW_EVERY:
            return
        self._fence_checked_at = now
        if not self._fence.held():
            raise CampaignLeaseLostError(
                f"the session lock of campaign {self._plan.run_key} is gone",
                where=f"campaign {self._plan.run_key}",
                next_step="run it again; if it repeats, look for a proxy or a timeout that ends idle sessions",
            )

    # What lanes say.

    def _handle(self, event: LaneEvent) -> None:
        match event.kind:
            case LaneEventKind.OPENED:
                self._opening.discard(event.lane)
                self._idle.append(event.lane)
            case LaneEventKind.PROGRESS:
                self._observer.moved(event.chunk_index or 0, event.bytes_moved)
            case LaneEventKind.BROKEN:
                self._forget(event.lane)
                kind = error_class(event.code or LaneLostError.code.value)
                self._give_up(kind(event.message, where=event.where, next_step=event.next_step))
            case LaneEventKind.GONE:
                self._gone(event)
            case _:
                if (active := self._active.pop(event.lane, None)) is not None:
                    self._idle.append(event.lane)
                    self._chunk_ended(active, event)

    def _chunk_ended(self, active: _Active, event: LaneEvent) -> None:
        record = active.record
        match event.kind:
            case LaneEventKind.COMMITTED:
                self._ends.told(active.request, record, receipt_of(event))
            case LaneEventKind.BUSY:
                # We own the row, so whoever holds the chunk's lock may be ended.
                with self._absence:
                    self._claims.end_holders(record)
                    self._claims.release(record, "the chunk's lock was held")
                self._queue.put_back(record.chunk_index, ClaimVerdict.BUSY, self._clock())
            case LaneEventKind.COMMIT_UNKNOWN:
                lost = LaneLostError("the answer to COMMIT was lost", next_step=AGAIN, transient=True)
                self._ends.unknown(record, lost)
            case LaneEventKind.LEASE_LOST:
                self._ends.lost(record, event.message)
            case _:
                code = event.code or LaneLostError.code.value
                with self._absence:
                    self._ends.failed(record, code, event.message, event.next_step, transient=event.transient)

    def _gone(self, event: LaneEvent) -> None:
        was_opening = event.lane in self._opening
        self._forget(event.lane)
        self._lanes_lost += 1
        active = self._active.pop(event.lane, None)
        if active is not None and active.sent:
            reason = f"the lane's process ended ({event.message})"
            self._ends.unknown(active.record, LaneLostError(reason, next_step=_LOOK_FOR_A_KILL))
        elif active is not None:
            self._unsend(active)
        if was_opening or self._lanes_lost > MAX_LANES_LOST:
            self._give_up(
                LaneLostError(
                    f"lanes keep ending: {event.message}",
                    where=f"campaign {self._plan.run_key}",
                    next_step=_LOOK_FOR_A_KILL,
                )
            )

    def _give_up(self, error: DponeError) -> None:
        """Begin nothing more; chunks at work may finish before the run ends with the first such error."""
        self._fatal = self._fatal or error

    def _forget(self, lane: LaneId) -> None:
        self._opening.discard(lane)
        if lane in self._idle:
            self._idle.remove(lane)

    # Ends.

    def _interrupt_active(self) -> None:
        active, self._active = self._active, {}
        self._lanes.end(tuple(active), LANE_END_GRACE)
        for chunk in active.values():
            self._ends.unknown(chunk.record, None, "interrupted")

    def _end_everything(self) -> None:
        """Leave no lane, and no claim that nobody works on, however the run ends."""
        try:
            if self._active:
                self._interrupt_active()
            while self._ends.unsettled:
                with self._absence:
                    self._ends.settle()
                if self._ends.unsettled:
                    self._lanes.poll(SETTLE_EVERY)
        finally:
            self._lanes.close(LANE_END_GRACE)
