"""`SqlSession` over the simulated database: `SqlLedger` runs on it unchanged, with the query texts of PostgreSQL's `ledger.sql`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from dpone_contract.errors import CampaignBusyError, DatabaseFailedError, TableMissingError
from dpone_runtime.adapters.postgres.batches import lock_key, postgres_queries
from dpone_runtime.adapters.postgres.session import FENCE_SILENCE, FENCE_WAIT, PROTOCOL_IDLE_MS
from dpone_runtime.adapters.sql.ledger import TABLES
from dpone_runtime.adapters.sql.queries import Queries, Statement
from dpone_runtime.adapters.sql.rows import Row
from dpone_runtime.adapters.sql.session import LockTimeoutError
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.publication import ShadowContent, Swap
from tests.simulation import exchange
from tests.simulation.database import Session
from tests.simulation.exchange import settings
from tests.simulation.reading import SCHEMA
from tests.simulation.tables import Answer, ConnectionLostError, LockNotAvailableError, UndefinedTableError

QUERIES = postgres_queries(SCHEMA)
_LOST = "the connection broke while writing the ledger"

Wait = Callable[[Callable[[], bool]], None]
Connect = Callable[[str], Session]


class SimulatedSession:
    """One coordinator's session. `wait` gives way until a condition holds; `connect` opens a session for a purpose."""

    def __init__(self, connect: Connect, wait: Wait) -> None:
        self.queries = QUERIES
        self._connect = connect
        self._wait = wait
        self._server = connect("ledger")
        self._closed = False

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if self._closed and statements[0].name == "begin":
            self._server, self._closed = self._connect("ledger"), False
        answer = _answer(self._server, statements, self._wait)
        self._closed = self._closed or isinstance(answer.error, ConnectionLostError)
        return _rows(answer)

    def begin_statements(self, lock_wait: timedelta) -> tuple[Statement, ...]:
        return (QUERIES.statement("begin"), settings(lock_wait, PROTOCOL_IDLE_MS))

    def lock_value(self, purpose: str, *scope: object) -> object:
        return lock_key(purpose, *scope)

    def queries_for_schema(self, schema: str) -> Queries:
        assert schema == SCHEMA, "the simulated database has one ledger"
        return QUERIES

    def create_ledger(self) -> None:
        """It is there."""

    def ledger_tables(self) -> frozenset[str]:
        return TABLES

    @contextmanager
    def fence(self, lock: object, held_by: str) -> Iterator[SimulatedFence]:
        server = self._connect("fence")
        try:
            taken = asked(server, (QUERIES.statement("fence_take", lock=lock),), self._wait)
            if not taken[0][0][0] and not self._take_from_silent_run(server, lock, held_by):
                raise CampaignBusyError("held by another run", where=held_by, run_key=held_by)
            yield SimulatedFence(server, QUERIES.statement("fence_held", lock=lock), self._wait)
        finally:
            server.hang_up()

    def _take_from_silent_run(self, server: Session, lock: object, run_key: str) -> bool:
        silent = QUERIES.statement("end_silent_run", lock=lock, run_key=run_key, silence=FENCE_SILENCE)
        if not asked(server, (silent,), self._wait)[0]:
            return False
        begin, taking = self.begin_statements(FENCE_WAIT), QUERIES.statement("session_lock", lock=lock)
        try:
            asked(server, (*begin, taking, QUERIES.statement("commit")), self._wait)
        except LockTimeoutError:
            return False
        return True

    def build_missing_index(self, swap: Swap) -> str | None:
        return exchange.build_missing_index(self.batch, swap)

    def hold_shadow(self, swap: Swap) -> ShadowContent:
        return exchange.hold_shadow(self.batch, swap)

    def swap_tables(self, swap: Swap) -> None:
        exchange.swap_tables(self.batch, swap)

    def capabilities(self) -> StateCapabilities:
        return StateCapabilities(
            backend="audit_schema",
            dialect="simulated",
            durable_read=True,
            durable_write=True,
            lock_scope="simulated_advisory_campaign",
            distributed_lock=True,
            distributed_chunk_lease=True,
            compare_and_set_completion=True,
            continuous_campaign_session_fence=True,
        )

    def close(self) -> None:
        self._server.hang_up()


class SimulatedFence:
    """The session lock of an internal run."""

    def __init__(self, server: Session, held: Statement, wait: Wait) -> None:
        self._server, self._held, self._wait = server, held, wait

    def held(self) -> bool:
        try:
            return bool(asked(self._server, (self._held,), self._wait)[0][0][0])
        except DatabaseFailedError:
            return False


def asked(server: Session, statements: Sequence[Statement], wait: Wait) -> list[list[Row]]:
    """Send statements together, and give each one's rows.

    Errors: LockTimeoutError, TableMissingError, DatabaseFailedError; the transaction is undone.
    """
    return _rows(_answer(server, statements, wait))


def _answer(server: Session, statements: Sequence[Statement], wait: Wait) -> Answer:
    server.send(statements)
    wait(lambda: server.answer is not None)
    return server.take_answer()


def _rows(answer: Answer) -> list[list[Row]]:
    if isinstance(answer.error, LockNotAvailableError):
        raise LockTimeoutError from answer.error
    if isinstance(answer.error, ConnectionLostError):
        raise DatabaseFailedError(_LOST, next_step="run it again", transient=True)
    if isinstance(answer.error, UndefinedTableError):
        raise TableMissingError(
            f"there is no table {answer.error}", next_step="look for it"
        ) from answer.error
    if answer.error is not None:
        raise DatabaseFailedError("a statement was refused", next_step="run it again") from answer.error
    return [list(rows) for rows in answer.rows]
