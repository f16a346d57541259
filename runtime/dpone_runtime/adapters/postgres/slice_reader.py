"""One side of a verification on PostgreSQL: what a chunk's slice holds now, and what no chunk covers."""

from __future__ import annotations

import psycopg

from dpone_contract.chunk_plan import Chunk, ChunkPlan
from dpone_runtime.adapters.postgres.batches import run_batch, settings_statement
from dpone_runtime.adapters.postgres.connect import connect, session_settings, translate
from dpone_runtime.adapters.postgres.content import (
    content_of_row,
    content_query,
    count_query,
    pinned_settings,
    row_text,
)
from dpone_runtime.adapters.postgres.predicate import ChunkedTable, uncovered_predicates
from dpone_runtime.adapters.postgres.selection import filtered
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.domain.coverage import COUNTED_TO, Coverage
from dpone_runtime.ports.connectors import SliceContent

_LOCK_WAIT_MS = 60_000
_IDLE_MS = 10_000
_COVERAGE_MS = 300_000
"""Coverage is told beside a load that is done: without an index it may take as long as the table is large."""


class PostgresSliceReader:
    """Reads over one session of its own, opened again after a slice that was broken off.

    `whole`: a slice is all that the table holds, as of a target that is refreshed as a whole.
    """

    def __init__(self, connection: ResolvedConnection, chunked: ChunkedTable, *, whole: bool = False) -> None:
        self._resolved = connection
        self._chunked = chunked
        self._whole = whole
        self._connection = connect(connection, "verify")

    def content(self, chunk: Chunk, *, digest: bool) -> SliceContent:
        chunked = self._chunked
        where = None if self._whole else filtered(chunked.predicate(chunk), chunked.where)
        query = (
            content_query(chunked.name, row_text(chunked), where)
            if digest
            else count_query(chunked.name, where)
        )
        return content_of_row(self._answer(query, f"chunk {chunk.index} of {chunked.table}"))

    def coverage(self, plan: ChunkPlan) -> Coverage:
        chunked = self._chunked
        groups = uncovered_predicates(chunked.chunk_column, plan)
        counts = (
            f"(SELECT count(*) FROM (SELECT FROM {chunked.name} WHERE {filtered(group, chunked.where)}"
            f" LIMIT {COUNTED_TO}) uncovered)"
            for group in groups
        )
        null, below, above = self._answer(
            f"SELECT {', '.join(counts)}", f"table {chunked.table}", timeout_ms=_COVERAGE_MS
        )
        return Coverage(int(str(null)), int(str(below)), int(str(above)))

    def _answer(self, query: str, place: str, *, timeout_ms: int = 0) -> tuple[object, ...]:
        """Run one query in a transaction of its own; its rows are of one snapshot.

        Errors: DatabaseFailedError and its kin.
        """
        if self._connection.closed:
            self._connection = connect(self._resolved, "verify")
        settings = session_settings(self._connection, _LOCK_WAIT_MS, _IDLE_MS)
        settings |= {**pinned_settings(self._chunked.timezone), "statement_timeout": str(timeout_ms)}
        statements = (
            Statement("begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", {}),
            settings_statement(settings),
            Statement("slice", query.replace("%", "%%"), {}),
            Statement("rollback", "ROLLBACK", {}),
        )
        try:
            row = run_batch(self._connection, statements)[2].fetchone()
        except psycopg.Error as error:
            self._connection.close()
            raise translate(error, f"verifying {self._chunked.table}", place) from error
        return tuple(row or ())

    def close(self) -> None:
        self._connection.close()
