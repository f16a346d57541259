"""`LanePool` of simulated lanes: each goes through the statements of `PostgresSink.load`, one batch at a time, and may be stopped between."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import date, timedelta

from dpone_contract.errors import ErrorCode
from dpone_contract.manifest import InnerMode
from dpone_runtime.adapters.postgres.completion import RowCompletion
from dpone_runtime.adapters.postgres.connect import DATA_LOCK_WAIT_MS
from dpone_runtime.adapters.postgres.seen_table import SeenTable
from dpone_runtime.adapters.postgres.session import PROTOCOL_IDLE_MS
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId
from tests.simulation.database import Session
from tests.simulation.exchange import lock_table, settings
from tests.simulation.pipes import Stream
from tests.simulation.preparation import LoadedTable
from tests.simulation.processes import Process
from tests.simulation.reading import SCHEMA
from tests.simulation.session import QUERIES
from tests.simulation.tables import Answer, ConnectionLostError, LockNotAvailableError, NotNullViolationError

COMPLETION = RowCompletion(SCHEMA)
LOCK_WAIT = timedelta(seconds=5)
DATA_LOCK_WAIT = timedelta(milliseconds=DATA_LOCK_WAIT_MS)
PARTS = 2
"""How many rows an attempt writes of a day."""
SILENCE = 90.0
SLOW_TICK = timedelta(seconds=5)
"""A coordinator may come back from its wait later than it asked to; so a wait of minutes takes a few steps only."""

Condition = Callable[[], bool]
Steps = Generator[Condition | None, None, None]


def rows_of(request: LoadRequest) -> int:
    """How many rows an attempt writes."""
    days = date.fromisoformat(request.chunk.upper) - date.fromisoformat(request.chunk.lower)
    return PARTS * days.days


class Lane:
    """One lane's process, and its pipe. `poisoned` makes the source fail in the middle of the next chunk."""

    def __init__(self, pool: SimulatedLanes, number: LaneId) -> None:
        self.name = f"{pool.parent.name}/lane {number}"
        self.number = number
        self.orders = Stream[LoadRequest]()
        self.words = Stream[LaneEvent]()
        self.frozen_at: float | None = None
        self.dead = False
        self.poisoned = False
        self._pool = pool
        self._session: Session | None = None
        self._condition: Condition | None = None
        self._steps = self._serve()

    # The scheduler's side.

    def ready(self) -> bool:
        """Whether a step would do something."""
        if self.dead or self.frozen_at is not None:
            return False
        return self._condition is None or self._condition()

    def step(self) -> None:
        """Go on to the next place where the lane waits."""
        try:
            self._condition = next(self._steps)
        except StopIteration:
            self.kill()

    def timer(self) -> float:
        """A lane waits for its server and its parent alone."""
        return float("inf")

    def kill(self, *, host_vanished: bool = False) -> None:
        """End the process; its session loses its client."""
        if not self.dead:
            self.dead = True
            self._steps.close()
            if self._session is not None:
                self._session.hang_up(host_vanished=host_vanished)

    # The lane's own side.

    def _serve(self) -> Steps:
        yield None
        self._connect()
        told = self.words.put(LaneEvent(self.number, LaneEventKind.OPENED))
        while told:
            yield lambda: bool(self.orders.arrived) or self._pool.parent.dead
            if not self.orders.arrived or (request := self.orders.arrived.popleft()) is None:
                return
            event = yield from self._load(request)
            told = not self._pool.parent.dead and self.words.put(event)

    def _connect(self) -> Session:
        database, parent = self._pool.parent.database, self._pool.parent
        self._session = database.connect(f"{self.name}/sink", parent.clocks.skew)
        return self._session

    def _ask(self, *statements: Statement) -> Generator[Condition | None, None, Answer]:
        session = self._session
        assert session is not None
        session.send(statements)
        yield lambda: session.answer is not None
        return session.take_answer()

    def _load(self, request: LoadRequest) -> Generator[Condition | None, None, LaneEvent]:
        """The first row of the source is awaited, then one transaction is gone through."""
        if self._session is None or self._session.dead or self._session.lost_at is not None:
            self._connect()
        yield None
        begun = yield from self._ask(
            QUERIES.statement("begin"),
            settings(LOCK_WAIT, PROTOCOL_IDLE_MS),
            COMPLETION.lock(request),
            settings(DATA_LOCK_WAIT),
            *COMPLETION.guard(request),
        )
        if isinstance(begun.error, LockNotAvailableError):
            return self._event(request, LaneEventKind.BUSY)
        if begun.error is not None:
            return self._failed(request, begun)
        if not begun.rows[-1]:
            yield from self._ask(QUERIES.statement("rollback"))
            return self._event(request, LaneEventKind.LEASE_LOST)
        for batch in (
            self._pool.look(),
            *((statement,) for statement in self._pool.slice_change(request)),
        ):
            answer = yield from self._ask(*batch)
            if answer.error is not None:
                return self._failed(request, answer)
            if batch[-1].name == "seen_columns" and not self._pool.is_same(answer):
                yield from self._ask(QUERIES.statement("rollback"))
                return self._event(
                    request, LaneEventKind.FAILED, code=ErrorCode.BACKFILL_CAMPAIGN_DRIFT.value
                )
            if self.poisoned:
                self.poisoned = False
                yield from self._ask(QUERIES.statement("rollback"))
                return self._event(request, LaneEventKind.FAILED, code=ErrorCode.BACKFILL_CHUNK_FAILED.value)
        return (yield from self._commit(request))

    def _commit(self, request: LoadRequest) -> Generator[Condition | None, None, LaneEvent]:
        rows = rows_of(request)
        done = yield from self._ask(
            settings(LOCK_WAIT),
            *COMPLETION.complete(request, LoadReceipt(rows, rows, rows)),
            QUERIES.statement("commit"),
        )
        if isinstance(done.error, NotNullViolationError):
            return self._event(request, LaneEventKind.LEASE_LOST)
        if isinstance(done.error, ConnectionLostError):
            return self._event(request, LaneEventKind.COMMIT_UNKNOWN)
        if done.error is not None:
            return self._failed(request, done)
        return self._event(request, LaneEventKind.COMMITTED)

    def _failed(self, request: LoadRequest, answer: Answer) -> LaneEvent:
        assert answer.error is not None
        code = ErrorCode.DATABASE_FAILED.value
        return self._event(request, LaneEventKind.FAILED, code, transient=True)

    def _event(
        self, request: LoadRequest, kind: LaneEventKind, code: str | None = None, *, transient: bool = False
    ) -> LaneEvent:
        rows = rows_of(request) if kind is LaneEventKind.COMMITTED else 0
        told = LaneEvent(self.number, kind, request.chunk.index, rows, rows, rows, message=kind.value)
        return replace(told, code=code, transient=transient)


class SimulatedLanes:
    """The lanes of one coordinator, which load `table`. `started` is told of each."""

    def __init__(
        self, parent: Process, mode: InnerMode, table: LoadedTable, started: Callable[[Lane], None]
    ) -> None:
        self.parent = parent
        self._mode = mode
        self._table = table
        self._started = started
        self._lanes: dict[LaneId, Lane] = {}
        self._count = 0

    def look(self) -> tuple[Statement, ...]:
        """Give what locks the table against changes and looks whether it is the one that it was."""
        seen = SeenTable(table=self._table.name, relation=int(self._table.relation), kind="r", types={})
        (lock,) = seen.lock("ROW EXCLUSIVE")
        return (replace(lock, values=lock_table(self._table.name, "ROW EXCLUSIVE").values), seen.look())

    def is_same(self, answer: Answer) -> bool:
        """Whether the table is the one that it was."""
        return answer.rows[-1] == [(self._table.relation,)]

    def slice_change(self, request: LoadRequest) -> tuple[Statement, ...]:
        """Give what changes the slice: DELETE where the mode replaces, COPY in two halves."""
        values = {
            "run_key": request.run_key,
            "chunk_index": request.chunk.index,
            "round": request.round,
            "revision": request.revision,
            "owner": request.owner,
            "table": str(self._table.name),
            "lower": date.fromisoformat(request.chunk.lower).toordinal(),
            "upper": date.fromisoformat(request.chunk.upper).toordinal(),
        }
        names: tuple[str, ...] = ("copy_first", "copy_last")
        if self._mode is not InnerMode.INCREMENTAL_APPEND:
            names = ("slice", *names)
        return tuple(Statement(name, name, values) for name in names)

    # The port.

    def start(self) -> LaneId:
        self.parent.require_alive()
        self._count += 1
        lane = Lane(self, LaneId(self._count))
        self._lanes[lane.number] = lane
        self._started(lane)
        return lane.number

    def send(self, lane: LaneId, request: LoadRequest) -> None:
        self.parent.require_alive()
        if not self._lanes[lane].orders.put(request):
            self.parent.die()

    def poll(self, timeout: timedelta) -> tuple[LaneEvent, ...]:
        slow = SLOW_TICK if timeout >= timedelta(milliseconds=500) else timeout
        self.parent.wait(
            lambda: any(lane.words.arrived or self._gone(lane) for lane in self._lanes.values()), slow
        )
        events, ends = list[LaneEvent](), list[Lane]()
        for lane in self._lanes.values():
            nonsense = self._hear(lane, events)
            if nonsense or self._gone(lane):
                ends.append(lane)
        for lane in ends:
            # What it has not got through its pipe is lost with it.
            lane.kill()
            del self._lanes[lane.number]
            events.append(LaneEvent(lane.number, LaneEventKind.GONE, message="killed by signal 9"))
        return tuple(events)

    @staticmethod
    def _hear(lane: Lane, events: list[LaneEvent]) -> bool:
        """Take what has arrived, up to nonsense; whether there was any."""
        while lane.words.arrived:
            word = lane.words.arrived.popleft()
            if word is None:
                return True
            events.append(word)
        return False

    def _gone(self, lane: Lane) -> bool:
        silent_since = [at for at in (lane.frozen_at, lane.words.held_at) if at is not None]
        now = self.parent.database.elapsed
        return lane.dead or any(now - at > SILENCE for at in silent_since)

    def end(self, lanes: tuple[LaneId, ...], grace: timedelta) -> None:
        self.parent.require_alive()
        for number in lanes:
            lane = self._lanes.pop(number, None)
            if lane is not None:
                lane.kill()

    def close(self, grace: timedelta) -> None:
        self.parent.require_alive()
        for lane in self._lanes.values():
            lane.kill()
        self._lanes.clear()
