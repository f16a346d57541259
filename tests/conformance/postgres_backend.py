"""The ledger in PostgreSQL as the suite drives it: what the port cannot do is done by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from dpone_contract.errors import ChunkLeaseLostError
from dpone_runtime.adapters.postgres.batches import lock_key, postgres_queries, run_batch
from dpone_runtime.adapters.postgres.completion import RowCompletion
from dpone_runtime.adapters.postgres.connect import connect
from dpone_runtime.adapters.postgres.identifiers import ledger_tables
from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.adapters.sql.queries import Queries
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.lease import OwnerToken
from dpone_runtime.ports.connectors import LoadReceipt
from tests.conformance.ledger_suite import Hold, LedgerBackend

SCHEMA = "audit of dpone %"


def resolved(uri: str) -> ResolvedConnection:
    """A connection as the environment would give it."""
    return ResolvedConnection("target", uri, "test", "DPONE_CONN_TARGET")


@contextmanager
def opened_ledger(uri: str, schema: str = SCHEMA) -> Iterator[SqlLedger]:
    """A ledger over a session of its own."""
    session = PostgresSession(resolved(uri), schema)
    try:
        yield SqlLedger(session, schema)
    finally:
        session.close()


class PostgresHold(Hold):
    """A sink's session in a transaction with a chunk's lock."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self._connection = connection

    def ended(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False


class PostgresBackend(LedgerBackend):
    """Two sessions of a coordinator each, and one of the test's own."""

    def __init__(self, uri: str, ledger: SqlLedger, second: SqlLedger) -> None:
        self.ledger, self.second = ledger, second
        self.uri = uri
        self.admin = psycopg.connect(uri, autocommit=True)
        self.queries = postgres_queries(SCHEMA)
        self._sinks: list[psycopg.Connection[tuple[object, ...]]] = []
        ledger.ensure_schema()

    def close(self) -> None:
        """End every session."""
        for connection in (self.admin, *self._sinks):
            connection.close()

    def run(self, text: str, **values: object) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement of the test's own, `{name}` standing for the ledger's tables."""
        statement = Queries({"test": text}, ledger_tables(SCHEMA)).statement("test", **values)
        return self.admin.execute(statement.text.encode(), dict(statement.values))

    def expire_lease(self, record):
        expire = (
            "UPDATE {chunks} SET lease_expires_at = clock_timestamp() - interval '1 s' "
            "WHERE run_key = %(run_key)s AND chunk_index = %(chunk_index)s AND lease_expires_at IS NOT NULL"
        )
        changed = self.run(expire, run_key=record.run_key, chunk_index=record.chunk_index)
        assert 1 == changed.rowcount

    def waits_for_a_row(self) -> bool:
        """Whether any session waits for a row that another transaction has changed."""
        text = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'transactionid' AND datname = current_database())"
        return self.run(text).fetchone() == (True,)

    def pass_time(self):
        """The server's clock moves by itself."""

    def complete(self, request, rows_extracted, rows_loaded):
        completing = RowCompletion(SCHEMA).complete(request, LoadReceipt(rows_extracted, rows_loaded, 0))
        query = self.queries.statement
        with connect(resolved(self.uri), "sink") as connection:
            try:
                run_batch(connection, (query("begin"), *completing, query("commit")))
            except psycopg.errors.NotNullViolation as error:
                raise ChunkLeaseLostError("refused") from error

    def hold_chunk(self, record):
        sink = connect(resolved(self.uri), "sink")
        self._sinks.append(sink)
        lock = lock_key("chunk", SCHEMA, record.run_key, record.chunk_index)
        run_batch(sink, (self.queries.statement("begin"), self.queries.statement("lock", lock=lock)))
        return PostgresHold(sink)

    def events(self):
        columns = "run_key, kind, round, revision, chunk_index, attempt, owner, detail"
        rows = self.run(f"SELECT {columns} FROM {{events}} ORDER BY event_id").fetchall()
        return [
            Event(row[0], EventKind(row[1]), *row[2:6], row[6] and OwnerToken(row[6]), row[7]) for row in rows
        ]


@pytest.fixture
def postgres_backend(shared_database: str) -> Iterator[PostgresBackend]:
    """A created, empty ledger, dropped afterwards."""
    with opened_ledger(shared_database) as ledger, opened_ledger(shared_database) as second:
        backend = PostgresBackend(shared_database, ledger, second)
        try:
            yield backend
        finally:
            backend.close()
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(SCHEMA)))
