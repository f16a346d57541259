"""The coordinator: one thread that claims chunks, hands them to lanes, renews leases and judges how each chunk ended.

A lane that is free takes the next chunk at once. A known failure blocks new claims; chunks at work finish. A failure that may pass by
itself is tried again first (`ChunkRetries`). What a lane that is gone did is read from the chunk's row, never guessed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol, assert_never

from dpone_contract.chunk_plan import ChunkPlan
from dpone_contract.errors import (
    CampaignLeaseLostError,
    ChunkBusyError,
    ChunkLeaseLostError,
    ExitCode,
    InterruptedRunError,
    LaneLostError,
    error_class,
)
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.domain.claim import ClaimVerdict
from dpone_runtime.domain.lease import BUSY_WAIT, RENEW_EVERY
from dpone_runtime.domain.retry_rule import THREE_TRIES, RetryRule
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId, LanePool, receipt_of
from dpone_runtime.ports.ledger import Fence
from dpone_runtime.services.chunk_claims import ChunkClaims, RenewalVerdict
from dpone_runtime.services.chunk_retries import ChunkRetries
from dpone_runtime.services.run_report import Failure, RunObserver, RunReport

TICK = timedelta(milliseconds=500)
LOOK_AGAIN = timedelta(seconds=2)
LANE_END_GRACE = timedelta(seconds=3)
STOP_GRACE = timedelta(seconds=15)
MAX_LANES_LOST = 3
_HOLDER_LOOKS = 20
_AGAIN = "run it again; committed chunks are skipped"
_LOOK_FOR_A_KILL = "look for an out-of-memory kill or an eviction at this time, then run it again"


class Clock(Protocol):
    """Elapsed time of this process; never compared with the ledger's."""

    def __call__(self) -> timedelta:
        """Give the time since some fixed moment."""


@dataclass
class _Active:
    record: ChunkRecord
    request: LoadRequest
    renewed_at: timedelta


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
        self._retries = ChunkRetries(retry_rule, clock)
        self._opening: set[LaneId] = set()
        self._idle: deque[LaneId] = deque()
        self._active: dict[LaneId, _Active] = {}
        self._busy: deque[int] = deque()
        self._look_at = timedelta()
        self._busy_since: timedelta | None = None
        self._waited_for = ""
        self._lanes_lost = 0
        self._blocked = False
        self.report = RunReport()

    def run(self, indexes: Iterator[int], selected: int, skipped: int) -> RunReport:
        """Run chunks in order until all are done, one has failed, or the run is told to stop.

        `indexes` gives the selected chunks that are not committed yet, `selected` counts all of the selection.

        Errors: CampaignLeaseLostError, ChunkBusyError, LaneLostError when lanes cannot be opened; the lanes are ended
        and unsent claims released before any of them leaves.
        """
        self.report.selected, self.report.skipped = selected, skipped
        self._pending = iter(indexes)
        self._next = next(self._pending, None)
        try:
            if self._next is not None:
                for _ in range(self._lane_count):
                    self._opening.add(self._lanes.start())
            while self._work_left():
                self._turn()
            if not self.report.interrupted:
                self._report(*self._retries.give_up())
        finally:
            self._end_everything()
        begun = self.report.skipped + self.report.committed + len(self.report.failures)
        self.report.left = max(0, selected - begun)
        return self.report

    def _work_left(self) -> bool:
        if self._active:
            return True
        waiting = self._next is not None or bool(self._busy) or self._retries.waiting
        return waiting and not self._blocked

    def _turn(self) -> None:
        if self._stop_requested() and not self.report.interrupted:
            self.report.interrupted = self._blocked = True
            self._stop_at = self._clock() + STOP_GRACE
            if self._active:
                self._observer.waiting(f"stopping: {len(self._active)} chunks may finish")
        if self.report.interrupted and self._active and self._clock() >= self._stop_at:
            self._interrupt_active()
            return
        self._renew_due()
        self._dispatch()
        if not self._work_left():
            return
        self._observer.tick(len(self._active), self.report)
        for event in self._lanes.poll(TICK):
            self._handle(event)

    # Claiming and sending.

    def _dispatch(self) -> None:
        """Give idle lanes their next chunk. One known failure blocks all new claims."""
        while self._idle and not self._blocked:
            index = self._take_index()
            if index is None:
                return
            claim = self._claims.claim(index)
            match claim.verdict:
                case ClaimVerdict.CLAIM:
                    self._send(claim.record, claim.request)
                case ClaimVerdict.COMMITTED:
                    self.report.skipped += 1
                case ClaimVerdict.BUSY | ClaimVerdict.NOT_NOW | ClaimVerdict.LAPSED:
                    self._put_back(index, claim.verdict)
                case ClaimVerdict.STOPPED:
                    self.report.stopped = self._blocked = True
                case _:
                    assert_never(claim.verdict)

    def _take_index(self) -> int | None:
        """Give the chunk to try next; None while there is nothing to do but wait.

        Errors: ChunkBusyError after the longest useful wait.
        """
        if self._clock() < self._look_at:
            return None
        waited = self._clock() - self._busy_since if self._busy_since is not None else timedelta()
        if waited > BUSY_WAIT and self._busy and not self._active:
            self.report.busy = tuple(self._busy)
            raise ChunkBusyError(
                f"{len(self._busy)} chunks are still held by other runs after {BUSY_WAIT.seconds} s, "
                f"the first is chunk {self._busy[0]}",
                where=f"campaign {self._plan.run_key}, chunk {self._busy[0]}",
                next_step="see with `dpone backfill status MANIFEST` who is at work, then run this again",
                chunk_index=self._busy[0],
            )
        if (due := self._retries.take_due()) is not None:
            return due
        if self._next is not None:
            index, self._next = self._next, next(self._pending, None)
            return index
        return self._busy.popleft() if self._busy else None

    def _put_back(self, index: int, verdict: ClaimVerdict) -> None:
        self._busy.append(index)
        if self._busy_since is None:
            self._busy_since = self._clock()
            why = (
                "max_active is reached"
                if verdict is ClaimVerdict.NOT_NOW
                else f"chunk {index} is held by another run"
            )
            if why != self._waited_for:
                self._waited_for = why
                self._observer.waiting(f"{why}; looking again for up to {BUSY_WAIT.seconds} s")
        # Of busy chunks the next one may be free; where too many are at work, none is.
        if self._next is None or verdict is ClaimVerdict.NOT_NOW:
            self._look_at = self._clock() + LOOK_AGAIN

    def _send(self, record: ChunkRecord | None, request: LoadRequest | None) -> None:
        if record is None or request is None:
            return
        self._busy_since = None
        lane = self._idle.popleft()
        # Latched before the write: whatever part of the frame crosses, the row decides how the chunk ended.
        self._active[lane] = _Active(record, request, self._clock())
        self._lanes.send(lane, request)

    # Ownership.

    def _renew_due(self) -> None:
        now = self._clock()
        for lane, active in list(self._active.items()):
            if now - active.renewed_at < RENEW_EVERY:
                continue
            match self._claims.renew(active.record):
                case RenewalVerdict.RENEWED | RenewalVerdict.COMMITTED:
                    active.renewed_at = now
                case RenewalVerdict.LOST:
                    self._lanes.end((lane,), LANE_END_GRACE)
                    self._ended(
                        lane,
                        ChunkLeaseLostError(
                            "the lease lapsed or another attempt took the chunk", next_step=_AGAIN
                        ),
                    )
                    self._replace_lane()
        if self._fence is not None and now - self._fence_checked_at >= RENEW_EVERY:
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
                self._observer.moved(event.bytes_moved)
            case LaneEventKind.BROKEN:
                self._broken(event)
            case LaneEventKind.GONE:
                self._gone(event)
            case _:
                if (active := self._finished(event.lane)) is not None:
                    self._chunk_ended(active, event)

    def _chunk_ended(self, active: _Active, event: LaneEvent) -> None:
        record = active.record
        match event.kind:
            case LaneEventKind.COMMITTED:
                self._committed(active, event)
            case LaneEventKind.BUSY:
                # We own the row, so whoever holds the chunk's lock may be ended.
                self._claims.end_holders(record)
                self._claims.release(record, "the chunk's lock was held")
                self._put_back(record.chunk_index, ClaimVerdict.BUSY)
            case LaneEventKind.COMMIT_UNKNOWN:
                self._claims.end_holders(record)
                lost = LaneLostError("the answer to COMMIT was lost", next_step=_AGAIN, transient=True)
                self._read_back(record, lost)
            case _:
                self._fail(record, event)

    def _committed(self, active: _Active, event: LaneEvent) -> None:
        """Record what a lane has committed; a ledger beside the target knows of it already."""
        record = active.record
        try:
            self._claims.record_commit(active.request, receipt_of(event))
        except ChunkLeaseLostError as lost:
            kind, code = LaneEventKind.LEASE_LOST, lost.code.value
            self._fail(record, LaneEvent(event.lane, kind, code=code, message=lost.message, next_step=_AGAIN))
            return
        self._count(record, event.rows_extracted, event.rows_loaded, event.bytes_moved)

    def _finished(self, lane: LaneId) -> _Active | None:
        active = self._active.pop(lane, None)
        if active is not None:
            self._idle.append(lane)
        return active

    def _broken(self, event: LaneEvent) -> None:
        self._forget(event.lane)
        kind = error_class(event.code or LaneLostError.code.value)
        raise kind(event.message, where=event.where, next_step=event.next_step)

    def _gone(self, event: LaneEvent) -> None:
        was_opening = event.lane in self._opening
        self._forget(event.lane)
        self._lanes_lost += 1
        if event.lane in self._active:
            reason = LaneLostError(f"the lane's process ended ({event.message})", next_step=_LOOK_FOR_A_KILL)
            self._ended(event.lane, reason)
        if was_opening or self._lanes_lost > MAX_LANES_LOST:
            raise LaneLostError(
                f"lanes keep ending: {event.message}",
                where=f"campaign {self._plan.run_key}",
                next_step=_LOOK_FOR_A_KILL,
            )
        self._replace_lane()

    def _replace_lane(self) -> None:
        if self._work_left() and not self._blocked:
            self._opening.add(self._lanes.start())

    def _forget(self, lane: LaneId) -> None:
        self._opening.discard(lane)
        if lane in self._idle:
            self._idle.remove(lane)

    # How chunks end.

    def _ended(self, lane: LaneId, reason: LaneLostError | ChunkLeaseLostError | InterruptedRunError) -> None:
        """A lane is gone: end what it left in the database, then let the chunk's row say what it did."""
        self._forget(lane)
        active = self._active.pop(lane, None)
        if active is None:
            return
        for _ in range(_HOLDER_LOOKS):
            if not self._claims.end_holders(active.record):
                break
            for event in self._lanes.poll(timedelta(milliseconds=100)):
                self._handle(event)
        self._read_back(active.record, reason)

    def _read_back(
        self, record: ChunkRecord, reason: LaneLostError | ChunkLeaseLostError | InterruptedRunError
    ) -> None:
        row = self._claims.read_back(record)
        if row is None and isinstance(reason, InterruptedRunError):
            if self._claims.release(record, "interrupted"):
                return
            # The row is not ours to release: the commit may have come in since it was read.
            row = self._claims.read_back(record)
        if row is not None:
            self._count(record, row.rows_extracted or 0, row.rows_loaded or 0, 0)
        elif not isinstance(reason, InterruptedRunError):
            kind = (
                LaneEventKind.LEASE_LOST if isinstance(reason, ChunkLeaseLostError) else LaneEventKind.FAILED
            )
            told = LaneEvent(LaneId(0), kind, code=reason.code.value, message=reason.message)
            self._fail(record, replace(told, next_step=reason.next_step, transient=reason.transient))

    def _count(self, record: ChunkRecord, extracted: int, loaded: int, bytes_moved: int) -> None:
        self.report.committed += 1
        self.report.rows_extracted += extracted
        self.report.rows_loaded += loaded
        self.report.bytes_moved += bytes_moved
        self._observer.committed(record, loaded, bytes_moved)

    def _fail(self, record: ChunkRecord, event: LaneEvent) -> None:
        """Record a failure where the row is still ours; a row that is not tells that the lease was lost."""
        code, next_step, transient = event.code or LaneLostError.code.value, event.next_step, event.transient
        message = self._retries.counted(record.chunk_index, event.message)
        if event.kind is LaneEventKind.LEASE_LOST or not self._claims.fail(record, code, message):
            row = self._claims.read_back(record)
            if row is not None:
                # A COMMIT without an answer was still under way.
                self._count(record, row.rows_extracted or 0, row.rows_loaded or 0, 0)
                return
            if event.kind is not LaneEventKind.LEASE_LOST:
                message = f"another attempt owns the chunk now; this one ended with: {message}"
            code, next_step, transient = ChunkLeaseLostError.code.value, _AGAIN, False
        infrastructure = error_class(code).exit_code is ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
        failure = Failure(record.chunk_index, record.attempt, code, message, next_step, infrastructure)
        if transient and not self._blocked and (wait := self._retries.postpone(failure)) is not None:
            again = f"is tried again in {wait.total_seconds():g} s"
            self._observer.waiting(f"chunk {record.chunk_index} {again}: {message}")
            return
        self._report(failure)

    def _report(self, *failures: Failure) -> None:
        for failure in failures:
            self._blocked = True
            self.report.failures.append(failure)
            self._observer.failed(failure)

    # Ends.

    def _interrupt_active(self) -> None:
        lanes = tuple(self._active)
        self._lanes.end(lanes, LANE_END_GRACE)
        for lane in lanes:
            self._ended(lane, InterruptedRunError("the run was told to stop", next_step=_AGAIN))

    def _end_everything(self) -> None:
        """Leave no lane, and no claim that nobody works on, however the run ends."""
        self._blocked = True
        try:
            if self._active:
                self._interrupt_active()
        finally:
            self._lanes.close(LANE_END_GRACE)
