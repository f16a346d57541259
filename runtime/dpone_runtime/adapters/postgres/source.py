"""The reading side of a lane on PostgreSQL: one chunk's rows as a binary COPY from one snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpone_contract.chunk_plan import Chunk
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.connect import connect, session_settings, translated
from dpone_runtime.adapters.postgres.copy import CopyStream, copy_out
from dpone_runtime.adapters.postgres.identifiers import quoted, quoted_table
from dpone_runtime.adapters.postgres.predicate import chunk_predicate
from dpone_runtime.adapters.postgres.session import run_batch, settings_statement
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.ports.connectors import Column

_IDLE_MS = 60_000


class PostgresSource:
    """Reads chunks over one session, opened with the first and again after one that was broken off."""

    def __init__(
        self,
        connection: ResolvedConnection,
        table: TableName,
        columns: tuple[str, ...],
        chunk_column: Column,
        timezone: str,
    ) -> None:
        self._resolved = connection
        self._table = table
        self._columns = columns
        self._chunk_column = chunk_column
        self._timezone = timezone
        self._connection = connect(connection, "source")

    @contextmanager
    def read(self, chunk: Chunk) -> Iterator[CopyStream]:
        if self._connection.closed:
            self._connection = connect(self._resolved, "source")
        doing = f"reading {self._table}"
        with translated(doing):
            settings = session_settings(self._connection, 0, _IDLE_MS)
            begin = Statement("begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", {})
            run_batch(self._connection, (begin, settings_statement(settings)))
            with copy_out(self._connection, self.statement(chunk), doing) as stream:
                yield stream
            self._connection.execute("ROLLBACK")

    def statement(self, chunk: Chunk) -> str:
        """Give the COPY of one chunk."""
        columns = ", ".join(map(quoted, self._columns))
        where = chunk_predicate(self._chunk_column, self._timezone, chunk)
        return f"COPY (SELECT {columns} FROM {quoted_table(self._table)} WHERE {where}) TO STDOUT (FORMAT binary)"

    def close(self) -> None:
        self._connection.close()
