"""A database in memory as the protocol meets PostgreSQL: READ COMMITTED, row locks, advisory locks, sessions, one clock.

Nothing happens by itself. A session executes one statement when the scheduler steps it; time passes when the scheduler says so.
What a client sends together is executed whether the client lives or not, as a server does with what has arrived.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dpone_runtime.adapters.sql.queries import Statement
from tests.campaign_factories import NOON, TARGET
from tests.simulation.table_locks import TableLocks
from tests.simulation.tables import (
    Answer,
    Commit,
    ConnectionLostError,
    LockNotAvailableError,
    Row,
    StatementError,
    Tables,
    Transaction,
)

Lock = int | tuple[Any, ...]
Waiting = Generator[Callable[[], bool], None, list[tuple[Any, ...]]]

CHECKS_ITS_CLIENT = 10.0
"""Seconds: `client_connection_check_interval`, how long a waiting statement outlives its client."""
KEEPALIVE = 40.0
"""Seconds until a server gives up a client whose host has vanished: idle 20, and 4 probes of 5."""
MOMENT = 1e-6
"""What a statement takes: no two of them happen at one time."""

EVER = float("inf")


class Database:
    """Committed tables, locks, sessions and the clock. `committed` holds the state, `events` the history in order.

    `own_clock`: every session takes the time from its client.
    """

    def __init__(
        self,
        execute: Callable[[Session, Statement], list[tuple[Any, ...]] | Waiting],
        *,
        own_clock: bool = False,
    ) -> None:
        self.execute = execute
        self.own_clock = own_clock
        self.elapsed = 0.0
        self.committed = Tables({}, {}, {}, {}, {TARGET.name: TARGET.relation})
        self.events: list[Row] = []
        self.sessions: list[Session] = []
        self.advisory: dict[Lock, dict[Session, bool]] = {}
        self.row_locks: dict[Lock, Session] = {}
        self.table_locks = TableLocks()
        self.on_commit: list[Callable[[Commit], None]] = []
        self.on_change: list[Callable[[Session], None]] = []
        self.rows_written = 0
        self.tables_made = int(TARGET.relation)
        self.events_written = 0
        self._names = Counter[str]()

    def now(self) -> datetime:
        """The one clock that decides."""
        return NOON + timedelta(seconds=self.elapsed)

    def connect(self, name: str, skew: float = 0.0) -> Session:
        """Open a session; `skew` is how far its client's own clock is off, in seconds."""
        self._names[name] += 1
        number = self._names[name]
        session = Session(self, name if number == 1 else f"{name} {number}", skew)
        self.sessions.append(session)
        return session


class Session:
    """The server's side of one connection."""

    def __init__(self, database: Database, name: str, skew: float) -> None:
        self.database = database
        self.name = name
        self.skew = skew
        self.dead = False
        self.slow = False
        """Its process on the server comes to nothing at the moment, be it that the disk is busy."""
        self.signalled = False
        self.lost_at: float | None = None
        self.host_vanished = False
        self.answer: Answer | None = None
        self.transaction: Transaction | None = None
        self.copying = False
        self.lock_timeout = EVER
        self.idle_bound = EVER
        self.ran: list[str] = []
        self._inbox: deque[Statement] = deque()
        self._rows: list[list[tuple[Any, ...]]] = []
        self._asked = False
        self._last_word = False
        self._alone = False
        self._running: Waiting | None = None
        self._free: Callable[[], bool] | None = None
        self._since = 0.0
        self._own_locks: list[tuple[Lock, bool]] = []
        self._own_rows: list[Lock] = []
        self._savepoint: tuple[int, float] = (0, EVER)

    # The client's side.

    def send(self, statements: Sequence[Statement]) -> None:
        """Hand over statements that are sent together; `answer` is set when the last has run or one has failed."""
        if self.dead or self.lost_at is not None:
            self.answer = Answer(error=ConnectionLostError())
            return
        self.answer, self._asked, self._rows = None, True, []
        self._inbox.extend(statements)

    def take_answer(self) -> Answer:
        """Give the answer that has arrived."""
        answer, self.answer = self.answer, None
        assert answer is not None, "no answer has arrived"
        return answer

    def hang_up(self, *, host_vanished: bool = False) -> None:
        """Lose the client: the server reads the end of the stream after what was sent, or nothing at all for a while."""
        if self.lost_at is None:
            self.lost_at, self.host_vanished = self.database.elapsed, host_vanished

    def lose_answer(self) -> bool:
        """Break the connection while an answer is on its way; False where none is."""
        if not self._asked or self.answer is not None or self.dead or self.lost_at is not None:
            return False
        self.hang_up()
        self.answer = Answer(error=ConnectionLostError())
        return True

    # The scheduler's side.

    def ready(self) -> bool:
        """Whether a step would do something."""
        if self.dead or self.slow:
            return False
        if self.signalled:
            return True
        if self._running is not None:
            return self._free is None or self._free() or self.database.elapsed >= self._waits_until()
        return bool(self._inbox) or self.database.elapsed >= self._idle_until()

    def timer(self) -> float:
        """When the session becomes ready though nobody does anything."""
        if self.dead or self.slow or self.signalled:
            return EVER
        return self._waits_until() if self._running is not None else self._idle_until()

    def idle_for(self) -> float:
        """How long the server has waited for a word of its client, in seconds."""
        asked = bool(self._running or self._inbox or self.transaction)
        return 0.0 if asked else self.database.elapsed - self._since

    def step(self) -> None:
        """Execute one statement, go on waiting, or end."""
        if self.signalled:
            # The signal may arrive while a statement runs: that one, be it COMMIT, is finished first.
            if self._last_word or self._running is not None or not self._inbox:
                self.end()
                return
            self._last_word = True
        try:
            if self._running is not None:
                self._go_on()
            elif self._inbox:
                self._begin(self._inbox.popleft())
            else:
                self.end()
        except StatementError as error:
            self._inbox.clear()
            self._running = None
            self.roll_back()
            self._reply(Answer(error=error))

    def end(self) -> None:
        """End the session as the server does: its transaction is undone, its locks are free."""
        self.roll_back()
        for lock, _ in self._own_locks:
            self.database.advisory[lock].pop(self, None)
        self._own_locks.clear()
        self._inbox.clear()
        self._running, self.dead = None, True
        if self._asked and self.answer is None:
            self.answer = Answer(error=ConnectionLostError())

    def _waits_until(self) -> float:
        until = self._since + self.lock_timeout
        if self.lost_at is not None and not self.host_vanished:
            until = min(until, max(self.lost_at, self._since) + CHECKS_ITS_CLIENT)
        return until

    def _idle_until(self) -> float:
        until = EVER
        if self.lost_at is not None:
            until = self.lost_at + (KEEPALIVE if self.host_vanished else 0.0)
        if self.transaction is not None and not self.copying:
            until = min(until, self._since + self.idle_bound)
        return until

    def _begin(self, statement: Statement) -> None:
        self.ran.append(statement.name)
        self.database.elapsed += MOMENT
        self._since = self.database.elapsed
        self._alone = self.transaction is None
        found = self.database.execute(self, statement)
        if isinstance(found, list):
            self._done(found)
            return
        self._running = found
        self._go_on()

    def _go_on(self) -> None:
        assert self._running is not None
        try:
            if self._free is not None and not self._free():
                if self.lost_at is not None and self.database.elapsed < self._since + self.lock_timeout:
                    self.end()
                    return
                self._free = None
                self._running.throw(LockNotAvailableError())
            self._free = next(self._running)
        except StopIteration as stopped:
            self._running = self._free = None
            self._done(stopped.value)
        except StatementError:
            self._free = None
            raise

    def _done(self, rows: list[tuple[Any, ...]]) -> None:
        if self._alone and self.ran[-1] != "begin" and self.transaction is not None:
            self.commit()
        self._rows.append(rows)
        self._since = self.database.elapsed
        if not self._inbox:
            self._reply(Answer(tuple(self._rows)))

    def _reply(self, answer: Answer) -> None:
        self._since = self.database.elapsed
        self._asked = False
        if self.lost_at is None:
            self.answer = answer

    # What statements do.

    def clock(self) -> datetime:
        """`clock_timestamp()`."""
        now = self.database.now()
        return now + timedelta(seconds=self.skew) if self.database.own_clock else now

    def begin(self) -> None:
        """Begin a transaction."""
        self.transaction = Transaction()

    def commit(self) -> None:
        """Make the transaction's changes the state, and give its locks back."""
        wrote, database = self.transaction, self.database
        assert wrote is not None, "COMMIT outside a transaction"
        before = database.committed
        if wrote.campaigns or wrote.chunks or wrote.events or wrote.inserted or wrote.deleted or wrote.names:
            rows = {number: row for number, row in before.rows.items() if number not in wrote.deleted}
            after = Tables(
                {**before.campaigns, **wrote.campaigns},
                {**before.chunks, **wrote.chunks},
                {**rows, **wrote.inserted},
                {**before.tallies, **wrote.tallies},
                _present({**before.names, **wrote.names}) if wrote.names else before.names,
            )
            database.committed = after
            database.events.extend(wrote.events)
            self._release()
            for check in database.on_commit:
                check(Commit(before, after, wrote, database.now()))
        self._release()

    def roll_back(self) -> None:
        """Undo the transaction."""
        self._release()

    def set_savepoint(self) -> None:
        """Remember which advisory locks are held, and how long is waited for one."""
        self._savepoint = (len(self._own_locks), self.lock_timeout)

    def roll_back_to_savepoint(self) -> None:
        """Give back the advisory locks since the savepoint; nothing is written after one that is gone back to."""
        held, self.lock_timeout = self._savepoint
        for lock, _ in self._own_locks[held:]:
            self.database.advisory[lock].pop(self, None)
        del self._own_locks[held:]

    def _release(self) -> None:
        self.transaction, self.copying = None, False
        self.lock_timeout = self.idle_bound = EVER
        kept = []
        for lock, of_session in self._own_locks:
            if of_session:
                kept.append((lock, True))
            else:
                self.database.advisory[lock].pop(self, None)
        self._own_locks = kept
        for row in self._own_rows:
            self.database.row_locks.pop(row, None)
        self.database.table_locks.release(self)
        self._own_rows.clear()

    def changes(self) -> Transaction:
        """The transaction to write in; a statement outside one is its own, which the caller commits."""
        if self.transaction is None:
            self.begin()
        assert self.transaction is not None
        return self.transaction

    def campaign(self, run_key: str, snapshot: Tables | None = None) -> Row | None:
        """A campaign's row as the snapshot, or the newest, shows it to this transaction."""
        own = self.transaction.campaigns.get(run_key) if self.transaction else None
        return own or (snapshot or self.database.committed).campaigns.get(run_key)

    def chunk(self, key: tuple[str, int]) -> Row | None:
        """A chunk's row as its newest version, or this transaction's own."""
        own = self.transaction.chunks.get(key) if self.transaction else None
        return own or self.database.committed.chunks.get(key)

    def chunks_of(self, run_key: str) -> list[Row]:
        """A campaign's chunk rows by index."""
        found = self.database.committed.chunks
        if self.transaction and self.transaction.chunks:
            found = {**found, **self.transaction.chunks}
        return [found[key] for key in sorted(found) if key[0] == run_key]

    def relation(self, name: str) -> str | None:
        """Which table a name stands for as the newest catalog, or this transaction's own changes, have it."""
        if self.transaction and name in self.transaction.names:
            return self.transaction.names[name]
        return self.database.committed.names.get(name)

    def tally(self, key: tuple[str, int, int]) -> int:
        """What a slot counts as its newest version, or this transaction's own."""
        own = self.transaction.tallies.get(key) if self.transaction else None
        return self.database.committed.tallies.get(key, 0) if own is None else own

    def may_take(self, lock: Lock, *, shared: bool) -> bool:
        """Whether an advisory lock is free for this session."""
        holders = self.database.advisory.get(lock, {})
        return not any(holder is not self and not (shared and others) for holder, others in holders.items())

    def take(self, lock: Lock, *, shared: bool = False, of_session: bool = False) -> bool:
        """Take an advisory lock if it is free."""
        if not self.may_take(lock, shared=shared):
            return False
        holders = self.database.advisory.setdefault(lock, {})
        if self not in holders:
            self._own_locks.append((lock, of_session))
        holders[self] = shared and holders.get(self, True)
        return True

    def may_take_row(self, row: Lock) -> bool:
        """Whether no other transaction has a row's lock."""
        return self.database.row_locks.get(row, self) is self

    def take_row(self, row: Lock) -> bool:
        """Take a row's lock if no other transaction has it."""
        if not self.may_take_row(row):
            return False
        if self.database.row_locks.setdefault(row, self) is self:
            self._own_rows.append(row)
        return True

    def tell_of_change(self) -> None:
        """Tell that this session is about to change the target."""
        for look in self.database.on_change:
            look(self)


def _present(names: Mapping[str, str | None]) -> dict[str, str]:
    return {name: relation for name, relation in names.items() if relation is not None}
