"""`ScriptedLanes`: the port `LanePool` in memory. What each lane does is a script; polling it moves the clock.

It commits through the ledger as a sink does, so that what a test expects of the ledger is decided by the ledger.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from itertools import count

from dpone_contract.errors import ChunkLeaseLostError
from dpone_runtime.adapters.memory.ledger import MemoryLedger
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId
from tests.campaign_factories import FixedClock

SECOND = timedelta(seconds=1)
LONGEST_RUN = timedelta(hours=2)


class Act(StrEnum):
    """What becomes of one attempt of a chunk."""

    COMMIT = "commit"
    FAIL = "fail"
    BUSY = "busy"
    UNKNOWN_COMMITTED = "commit, and the answer is lost"
    UNKNOWN_UNDONE = "undo, and the answer is lost"
    DIE_COMMITTED = "commit, and the lane dies"
    DIE = "the lane dies before its commit"
    NEVER_END = "work on for ever"


@dataclass(frozen=True)
class Attempt:
    """One attempt: what becomes of it after how long. `commits_when_ended`: a COMMIT under way that outruns the end.

    `transient`: a failure that may pass by itself.
    """

    act: Act = Act.COMMIT
    takes: timedelta = SECOND
    rows: int = 10
    code: str = "DPONE_BACKFILL_CHUNK_FAILED"
    commits_when_ended: bool = False
    transient: bool = False


class Opening(StrEnum):
    """What becomes of a lane that is started."""

    OPENS = "opens"
    BROKEN = "cannot connect"
    DIES = "dies"
    NEVER = "says nothing"


@dataclass
class _Lane:
    opened: bool = False
    request: LoadRequest | None = None
    attempt: Attempt | None = None


@dataclass(order=True)
class _Due:
    at: timedelta
    number: int
    lane: LaneId | None = field(compare=False)
    act: Callable[[], Sequence[LaneEvent]] = field(compare=False)


class ScriptedLanes:
    """Lanes as scripts: `attempts` by chunk, each attempt of it in order and then commits; `openings` by lane in order."""

    def __init__(
        self,
        ledger: MemoryLedger,
        clock: FixedClock,
        attempts: Mapping[int, Sequence[Attempt]] | None = None,
        openings: Sequence[Opening] = (),
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._attempts = {index: list(found) for index, found in (attempts or {}).items()}
        self._openings = list(openings)
        self._lanes: dict[LaneId, _Lane] = {}
        self._due: list[_Due] = []
        self._numbers = count(1)
        self.started: list[LaneId] = []
        self.sent: list[tuple[timedelta, LaneId, int]] = []
        self.ended: list[LaneId] = []
        self.closed = False
        self.most_at_work = 0

    # What a test says.

    def at(self, when: timedelta, act: Callable[[], object]) -> None:
        """Have something happen in the world at a moment."""

        def happen() -> Sequence[LaneEvent]:
            act()
            return ()

        heapq.heappush(self._due, _Due(when, next(self._numbers), None, happen))

    def say(self, when: timedelta, event: LaneEvent) -> None:
        """Have a lane say something at a moment."""
        heapq.heappush(self._due, _Due(when, next(self._numbers), None, lambda: (event,)))

    @property
    def alive(self) -> tuple[LaneId, ...]:
        """Lanes that have not ended."""
        return tuple(self._lanes)

    # The port.

    def start(self) -> LaneId:
        lane = LaneId(len(self.started) + 1)
        self.started.append(lane)
        self._lanes[lane] = _Lane()
        match self._openings.pop(0) if self._openings else Opening.OPENS:
            case Opening.OPENS:
                self._later(lane, SECOND / 10, lambda: self._open(lane))
            case Opening.BROKEN:
                event = LaneEvent(
                    lane,
                    LaneEventKind.BROKEN,
                    code="DPONE_CONNECTION_FAILED",
                    message="no route",
                    next_step="look",
                )
                self._later(lane, SECOND / 10, lambda: (event,))
            case Opening.DIES:
                self._later(lane, SECOND / 10, lambda: self._die(lane))
            case Opening.NEVER:
                pass
        return lane

    def send(self, lane: LaneId, request: LoadRequest) -> None:
        found = self._lanes[lane]
        assert found.opened, "a chunk was sent to a lane that is not open"
        assert found.request is None, "a chunk was sent to a lane that has one"
        index = request.chunk.index
        script = self._attempts.get(index, [])
        attempt = script.pop(0) if script else Attempt()
        found.request, found.attempt = request, attempt
        self.sent.append((self._clock.elapsed(), lane, index))
        self._ledger.hold_chunk(request.run_key, index)
        self.most_at_work = max(
            self.most_at_work, sum(other.request is not None for other in self._lanes.values())
        )
        if attempt.act is not Act.NEVER_END:
            self._later(lane, attempt.takes, lambda: self._act(lane))

    def poll(self, timeout: timedelta) -> tuple[LaneEvent, ...]:
        assert not self.closed, "polled after the end"
        assert self._clock.elapsed() < LONGEST_RUN, "the run does not come to an end"
        now = self._clock.elapsed()
        until = min(now + timeout, self._due[0].at) if self._due else now + timeout
        self._clock.advance(max(until - now, timedelta(0)))
        events: list[LaneEvent] = []
        while self._due and self._due[0].at <= self._clock.elapsed():
            due = heapq.heappop(self._due)
            if due.lane is None or due.lane in self._lanes:
                events.extend(due.act())
        return tuple(events)

    def end(self, lanes: tuple[LaneId, ...], grace: timedelta) -> None:
        for lane in lanes:
            found = self._lanes.pop(lane, None)
            if found is None:
                continue
            self.ended.append(lane)
            if found.request is not None and found.attempt is not None and found.attempt.commits_when_ended:
                self._complete(found.request, found.attempt)

    def close(self, grace: timedelta) -> None:
        assert not self.closed, "closed twice"
        self.closed = True
        self._lanes.clear()

    # What lanes do.

    def _later(self, lane: LaneId, after: timedelta, act: Callable[[], Sequence[LaneEvent]]) -> None:
        heapq.heappush(self._due, _Due(self._clock.elapsed() + after, next(self._numbers), lane, act))

    def _open(self, lane: LaneId) -> Sequence[LaneEvent]:
        self._lanes[lane].opened = True
        return (LaneEvent(lane, LaneEventKind.OPENED),)

    def _die(self, lane: LaneId) -> Sequence[LaneEvent]:
        del self._lanes[lane]
        return (LaneEvent(lane, LaneEventKind.GONE, message="killed by signal 9"),)

    def _complete(self, request: LoadRequest, attempt: Attempt) -> bool:
        try:
            self._ledger.complete_chunk(request, attempt.rows, attempt.rows)
        except ChunkLeaseLostError:
            return False
        finally:
            self._ledger.release_chunk(request.run_key, request.chunk.index)
        return True

    def _act(self, lane: LaneId) -> Sequence[LaneEvent]:
        found = self._lanes[lane]
        request, attempt = found.request, found.attempt
        assert request is not None
        assert attempt is not None
        index = request.chunk.index
        found.request = found.attempt = None
        match attempt.act:
            case Act.DIE:
                # The database has not noticed yet: its session still holds the chunk.
                return self._die(lane)
            case Act.DIE_COMMITTED:
                self._complete(request, attempt)
                return self._die(lane)
            case Act.UNKNOWN_COMMITTED | Act.UNKNOWN_UNDONE:
                if attempt.act is Act.UNKNOWN_COMMITTED:
                    self._complete(request, attempt)
                return (LaneEvent(lane, LaneEventKind.COMMIT_UNKNOWN, index),)
            case Act.COMMIT:
                if not self._complete(request, attempt):
                    return (LaneEvent(lane, LaneEventKind.LEASE_LOST, index, message="not its own any more"),)
                rows = attempt.rows
                return (LaneEvent(lane, LaneEventKind.COMMITTED, index, rows, rows, rows * 100),)
            case Act.BUSY:
                return (LaneEvent(lane, LaneEventKind.BUSY, index),)
            case _:
                self._ledger.release_chunk(request.run_key, index)
                return (
                    LaneEvent(
                        lane,
                        LaneEventKind.FAILED,
                        index,
                        code=attempt.code,
                        message="the rows are bad",
                        transient=attempt.transient,
                    ),
                )


class Told:
    """`RunObserver` that remembers."""

    def __init__(self) -> None:
        self.chunks = Counter[int]()
        self.failures: list[object] = []
        self.waits: list[str] = []
        self.bytes_moved = 0
        self.ticks: list[int] = []

    def committed(self, record, rows, bytes_moved):
        self.chunks[record.chunk_index] += 1

    def failed(self, failure):
        self.failures.append(failure)

    def moved(self, chunk_index, bytes_moved):
        self.bytes_moved += bytes_moved

    def waiting(self, reason):
        self.waits.append(reason)

    def tick(self, running, report):
        self.ticks.append(running)
