"""The reading side of a lane on PostgreSQL: one chunk's rows as a COPY, and its content if asked, from one snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from dpone_contract.chunk_plan import Chunk
from dpone_runtime.adapters.postgres.batches import run_batch, settings_statement
from dpone_runtime.adapters.postgres.connect import (
    DATA_LOCK_WAIT_MS,
    connect,
    session_settings,
    translated,
)
from dpone_runtime.adapters.postgres.content import content_query, pinned_settings, read_content, row_text
from dpone_runtime.adapters.postgres.copy import CopyStream, copy_out
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.adapters.postgres.seen_table import SeenTable
from dpone_runtime.adapters.postgres.selection import filtered
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.ports.connectors import SliceContent

_IDLE_MS = 60_000


class PostgresSource:
    """Reads chunks over one session, opened with the first and again after one that was broken off.

    Views and filters are read on the wall clock of the window and under settings of our own: what is loaded does not depend on
    what a role or a database has set.
    `digests`: a chunk's content is read before its rows, which takes as long again.
    """

    def __init__(
        self,
        connection: ResolvedConnection,
        chunked: ChunkedTable,
        seen: SeenTable,
        *,
        digests: bool = False,
    ) -> None:
        self._resolved = connection
        self._chunked = chunked
        self._seen = seen
        self._look = seen.look()
        self._digests = digests
        self._connection = connect(connection, "source", again=True)

    @contextmanager
    def read(self, chunk: Chunk) -> Iterator[CopyStream]:
        if self._connection.closed:
            self._connection = connect(self._resolved, "source", again=True)
        stream: CopyStream | None = None
        try:
            doing = f"reading {self._chunked.table}"
            with translated(doing):
                settings = session_settings(self._connection, DATA_LOCK_WAIT_MS, _IDLE_MS)
                settings |= pinned_settings(self._chunked.timezone)
                level = "REPEATABLE READ" if self._digests else "READ COMMITTED"
                begin = Statement("begin", f"BEGIN ISOLATION LEVEL {level} READ ONLY", {})
                wait = Statement("wait", f"SET LOCAL lock_timeout = {DATA_LOCK_WAIT_MS}", {})
                # Nothing before the lock takes a snapshot, nor does the lock: what is read later is as of after its wait.
                opening = (begin, wait, *self._seen.lock("ACCESS SHARE"), settings_statement(settings))
                found = run_batch(self._connection, (*opening, self._look))[-1]
                self._seen.require("source", found.fetchall())
                content = self._content(chunk) if self._digests else None
                stream = copy_out(self._connection, self.statement(chunk), doing)
                stream.content = content
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
        rows = f"SELECT {chunked.select_list} FROM {chunked.name} WHERE {self._covered(chunk)}"
        return f"COPY ({rows}) TO STDOUT {chunked.format.options}"

    def _content(self, chunk: Chunk) -> SliceContent:
        chunked = self._chunked
        query = content_query(chunked.name, row_text(chunked), self._covered(chunk))
        return read_content(self._connection, query, chunked.timezone)

    def _covered(self, chunk: Chunk) -> str:
        return filtered(self._chunked.predicate(chunk), self._chunked.where)

    def close(self) -> None:
        self._connection.close()
