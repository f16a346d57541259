"""The PostgreSQL side of the ledger: batches through a pipeline, advisory locks, the session fence, the DDL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import TypeVar

import psycopg
from psycopg import errors

from dpone_contract.errors import (
    CampaignBusyError,
    DatabaseFailedError,
    SessionUnsafeError,
)
from dpone_runtime.adapters.postgres.batches import (
    lock_key,
    postgres_queries,
    run_batch,
    sent,
    settings_statement,
)
from dpone_runtime.adapters.postgres.connect import (
    PgConnection,
    connect,
    ledger_denied,
    ledger_gone,
    session_settings,
    translate,
    translated,
)
from dpone_runtime.adapters.postgres.identifiers import ledger_tables
from dpone_runtime.adapters.postgres.swap import build_missing_index, hold_shadow, swap_tables
from dpone_runtime.adapters.sql.queries import Queries, Statement
from dpone_runtime.adapters.sql.rows import Row
from dpone_runtime.adapters.sql.session import LockTimeoutError
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.lease import LEASE_TTL
from dpone_runtime.domain.publication import ShadowContent, Swap

T = TypeVar("T")

PROTOCOL_IDLE_MS = 10_000
FENCE_SILENCE = LEASE_TTL
"""After how long without a word a run without a live lease loses its fence to another one."""

FENCE_WAIT = timedelta(seconds=5)
_COMPLETE = (
    "begin",
    "read_campaign",
    "read_chunk",
    "committed_chunks",
    "count_statuses",
    "list_statuses",
    "list_failures",
)
"""How a batch begins that is a transaction of its own, or none."""
_CREATES = {
    "campaigns": ("create_campaigns", "create_campaigns_index"),
    "chunks": ("create_chunks", "create_chunks_running", "create_chunks_failed"),
    "tallies": ("create_tallies", "fill_tallies"),
    "events": ("create_events", "create_events_index"),
    "shadows": ("add_shadows",),
}
"""What makes each table of a ledger, and what an earlier release had not made."""


CAPABILITIES = StateCapabilities(
    backend="audit_schema",
    dialect="postgres",
    durable_read=True,
    durable_write=True,
    lock_scope="postgres_advisory_campaign",
    distributed_lock=True,
    distributed_chunk_lease=True,
    compare_and_set_completion=True,
    continuous_campaign_session_fence=True,
)


def ledger_ddl(schema: str) -> tuple[str, ...]:
    """Give the statements that create a ledger, for a role that may."""
    queries = postgres_queries(schema)
    names = ("create_schema", *chain.from_iterable(_CREATES.values()))
    return tuple(queries.statement(name).text.replace("%%", "%") for name in names)


class PostgresSession:
    """`SqlSession` over one psycopg connection; the fence opens a second one."""

    def __init__(self, connection: ResolvedConnection, schema: str) -> None:
        self.queries = postgres_queries(schema)
        self._resolved = connection
        self._schema = schema
        self._where = f"ledger in schema {schema} of connection {connection.name}"
        self._connection = connect(connection, "ledger")

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if self._connection.closed and statements[0].name in _COMPLETE:
            # The rest of a transaction that broke must not run outside of it.
            self._connection = connect(self._resolved, "ledger", again=True)
        try:
            cursors = run_batch(self._connection, statements)
        except errors.LockNotAvailable as error:
            self._roll_back()
            raise LockTimeoutError from error
        except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
            self._roll_back()
            raise ledger_gone(self._schema, self._where) from error
        except psycopg.Error as error:
            self._roll_back()
            reads = all(statement.text.startswith("SELECT") for statement in statements)
            doing = "reading the ledger" if reads else "writing the ledger"
            raise translate(error, doing, self._where) from error
        if statements[-1].name == "commit" and cursors[-1].statusmessage != "COMMIT":
            raise DatabaseFailedError(
                f"the ledger's transaction ended with {cursors[-1].statusmessage}",
                where=self._where,
                next_step="run it again",
            )
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def _roll_back(self) -> None:
        try:
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()

    def begin_statements(self, lock_wait: timedelta) -> tuple[Statement, ...]:
        wait_ms = int(lock_wait.total_seconds() * 1000)
        settings = session_settings(self._connection, wait_ms, PROTOCOL_IDLE_MS)
        return (self.queries.statement("begin"), settings_statement(settings))

    def lock_value(self, purpose: str, *scope: object) -> int:
        return lock_key(purpose, *scope)

    def queries_for_schema(self, schema: str) -> Queries:
        return self.queries.for_tables(ledger_tables(schema))

    def ledger_tables(self) -> frozenset[str]:
        rows = self.batch((self.queries.statement("ledger_tables", schema=self._schema),))[0]
        return frozenset(row[0] for row in rows)

    def create_ledger(self) -> None:
        query = self.queries.statement
        begin = self.begin_statements(timedelta(seconds=30))
        try:
            run_batch(self._connection, (*begin, query("ddl_lock", lock=lock_key("ddl"))))
            found = {
                row[0] for row in self._connection.execute(*sent(query("ledger_tables", schema=self._schema)))
            }
            if not self._schema_exists():
                self._connection.execute(*sent(query("create_schema")))
            for name in chain.from_iterable(made for table, made in _CREATES.items() if table not in found):
                self._connection.execute(*sent(query(name)))
            self._connection.execute("COMMIT")
        except errors.InsufficientPrivilege as error:
            self._roll_back()
            raise ledger_denied(error, self._schema, self._where) from error
        except psycopg.Error as error:
            self._roll_back()
            raise translate(error, "creating the ledger", self._where) from error

    def _schema_exists(self) -> bool:
        # CREATE SCHEMA IF NOT EXISTS asks for CREATE on the database even where the schema is there.
        found = self._connection.execute(
            "SELECT to_regnamespace(quote_ident(%s))", (self._schema,)
        ).fetchone()
        return found is not None and found[0] is not None

    def build_missing_index(self, swap: Swap) -> str | None:
        return self._in_transaction("building an index", lambda: build_missing_index(self._connection, swap))

    def hold_shadow(self, swap: Swap) -> ShadowContent:
        return self._in_transaction("looking into a shadow", lambda: hold_shadow(self._connection, swap))

    def swap_tables(self, swap: Swap) -> None:
        self._in_transaction("exchanging two tables", lambda: swap_tables(self._connection, swap))

    def _in_transaction(self, doing: str, step: Callable[[], T]) -> T:
        try:
            return step()
        except errors.LockNotAvailable as error:
            self._roll_back()
            raise LockTimeoutError from error
        except psycopg.Error as error:
            self._roll_back()
            raise translate(error, doing, f"connection {self._resolved.name}") from error

    def capabilities(self) -> StateCapabilities:
        return CAPABILITIES

    @contextmanager
    def fence(self, lock: object, held_by: str) -> Iterator[PostgresFence]:
        connection = connect(self._resolved, "fence")
        try:
            self.require_own_session(connection)
            taken = run_batch(connection, (self.queries.statement("fence_take", lock=lock),))[0].fetchone()
            if (taken is None or not taken[0]) and not self._take_from_silent_run(connection, lock, held_by):
                raise CampaignBusyError(
                    f"campaign {held_by} is held by another run",
                    where=f"campaign {held_by}",
                    next_step="wait until that run has ended, then run this again; nothing needs to be deleted",
                    run_key=held_by,
                )
            yield PostgresFence(connection, self.queries.statement("fence_held", lock=lock))
        finally:
            connection.close()

    def _take_from_silent_run(self, connection: PgConnection, lock: object, run_key: str) -> bool:
        """Take the fence of a run that lives no more as far as anybody can see: a stopped process keeps its sessions.

        A run asks for its fence every thirty seconds. Should it wake up, it finds the fence gone and ends; until it looks,
        it can do no harm, since no commit rests on the fence.
        """
        query = self.queries.statement
        silent = query("end_silent_run", lock=lock, run_key=run_key, silence=FENCE_SILENCE)
        if not run_batch(connection, (silent,))[0].fetchall():
            return False
        statements = (
            *self.begin_statements(FENCE_WAIT),
            query("session_lock", lock=lock),
            query("commit"),
        )
        try:
            run_batch(connection, statements)
        except errors.LockNotAvailable:
            return False
        return True

    def require_own_session(self, connection: PgConnection) -> None:
        """Refuse a transaction pooler: its clients change server sessions.

        One that hands out its sessions in turn does so from one transaction to the next; one that hands out the last
        one that came back does so while another transaction keeps that one.

        Errors: SessionUnsafeError.
        """
        with translated("looking for a proxy before it", f"connection {self._resolved.name}"):
            # A plain statement gives back the session that the Flush after a pipeline may have taken (see run_batch).
            self._connection.execute("SELECT 1")
            backends = {_backend(connection), _backend(connection)}
            self._connection.execute("BEGIN")
            try:
                self._connection.execute("SELECT 1")
                backends.add(_backend(connection))
            finally:
                self._connection.execute("ROLLBACK")
        if len(backends) > 1:
            raise SessionUnsafeError(
                "the connection runs through a transaction-pooling proxy, which cannot hold a session lock",
                where=f"connection {self._resolved.name}",
                next_step="connect to the server itself or through a session pool, or use a mapped mode",
            )

    def close(self) -> None:
        self._connection.close()


class PostgresFence:
    """The session lock of an internal run, on a connection of its own."""

    def __init__(self, connection: PgConnection, held: Statement) -> None:
        self._connection = connection
        self._held = held

    def held(self) -> bool:
        try:
            found = run_batch(self._connection, (self._held,))[0].fetchone()
        except psycopg.Error:
            return False
        return found is not None and bool(found[0])


def _backend(connection: PgConnection) -> object:
    found = connection.execute("SELECT pg_backend_pid()").fetchone()
    return found[0] if found else None
