"""The reading side of a lane on PostgreSQL: one chunk's rows as a COPY from one snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from dpone_contract.chunk_plan import Chunk
from dpone_runtime.adapters.postgres.connect import connect, session_settings, translated
from dpone_runtime.adapters.postgres.copy import CopyStream, copy_out
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.adapters.postgres.selection import filtered
from dpone_runtime.adapters.postgres.session import run_batch, settings_statement
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.connections import ResolvedConnection

_IDLE_MS = 60_000


class PostgresSource:
    """Reads chunks over one session, opened with the first and again after one that was broken off."""

    def __init__(self, connection: ResolvedConnection, chunked: ChunkedTable) -> None:
        self._resolved = connection
        self._chunked = chunked
        self._connection = connect(connection, "source")

    @contextmanager
    def read(self, chunk: Chunk) -> Iterator[CopyStream]:
        if self._connection.closed:
            self._connection = connect(self._resolved, "source")
        stream: CopyStream | None = None
        try:
            doing = f"reading {self._chunked.table}"
            with translated(doing):
                settings = session_settings(self._connection, 0, _IDLE_MS) | self._chunked.format.settings
                begin = Statement("begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", {})
                run_batch(self._connection, (begin, settings_statement(settings)))
                stream = copy_out(self._connection, self.statement(chunk), doing)
            yield stream
        finally:
            self._leave(stream)

    def _leave(self, stream: CopyStream | None) -> None:
        """End the transaction, or the session where rows are still under way.

        It raises nothing: the chunk may be committed by now.
        """
        try:
            if stream is not None and stream.ended:
                self._connection.execute("ROLLBACK")
            else:
                self._connection.close()
        except psycopg.Error:
            self._connection.close()

    def statement(self, chunk: Chunk) -> str:
        """Give the COPY of one chunk."""
        chunked = self._chunked
        where = filtered(chunked.predicate(chunk), chunked.where)
        rows = f"SELECT {chunked.select_list} FROM {chunked.name} WHERE {where}"
        return f"COPY ({rows}) TO STDOUT {chunked.format.options}"

    def close(self) -> None:
        self._connection.close()
