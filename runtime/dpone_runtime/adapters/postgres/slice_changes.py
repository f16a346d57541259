"""What each inner mode does to a chunk's slice of the target: one object a mode, inside the sink's transaction.

The sink takes the lock, asks the ledger, copies, completes and commits, the same for all. A change says what comes before
the copy, into which table it goes, and what comes after it. None of them begins or ends a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, assert_never

import psycopg

from dpone_contract.errors import ChunkFailedError
from dpone_contract.manifest import InnerMode
from dpone_runtime.adapters.postgres.batches import run_batch
from dpone_runtime.adapters.postgres.connect import PgConnection
from dpone_runtime.adapters.postgres.content import content_query, read_content, row_text
from dpone_runtime.adapters.postgres.merge import Merge, MergeKey
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.adapters.sql.rows import Row
from dpone_runtime.ports.connectors import LoadRequest, SliceContent


class SliceChange(Protocol):
    """One mode. Errors of both methods: psycopg.Error as the server gives it; what a mode refuses by itself."""

    def begin(self, connection: PgConnection, request: LoadRequest, /) -> str:
        """Make room for a chunk's rows; give the quoted table that they are copied into."""

    def finish(self, connection: PgConnection, copied: int, /) -> int:
        """Do what remains once all rows are copied; give how many of them the target accounts for."""

    def content(self, connection: PgConnection, request: LoadRequest, /) -> SliceContent:
        """Give what the target now holds of the chunk, as far as the mode answers for it.

        Errors: ContentDiffersError where rows that were written are not there as they were sent.
        """


@dataclass(frozen=True)
class Replace:
    """Delete the slice by the chunk's predicate, whatever the new rows say, and load."""

    chunked: ChunkedTable
    delete_triggers: tuple[str, ...]
    after: Callable[[str], None]

    def begin(self, connection: PgConnection, request: LoadRequest) -> str:
        where = f" WHERE {self.chunked.predicate(request.chunk)}"
        return _delete(connection, self.chunked, where, self.delete_triggers, self.after)

    def finish(self, _connection: PgConnection, copied: int) -> int:
        return copied

    def content(self, connection: PgConnection, request: LoadRequest) -> SliceContent:
        return _content(connection, self.chunked, self.chunked.predicate(request.chunk))


@dataclass(frozen=True)
class FullRefresh:
    """Delete every row of the target, and load.

    It is DELETE, not TRUNCATE: whoever reads meanwhile keeps seeing the rows of before until the commit, and is not kept
    waiting by an exclusive lock.
    """

    chunked: ChunkedTable
    delete_triggers: tuple[str, ...]
    after: Callable[[str], None]

    def begin(self, connection: PgConnection, _request: LoadRequest) -> str:
        return _delete(connection, self.chunked, "", self.delete_triggers, self.after)

    def finish(self, _connection: PgConnection, copied: int) -> int:
        return copied

    def content(self, connection: PgConnection, _request: LoadRequest) -> SliceContent:
        return _content(connection, self.chunked, None)


@dataclass(frozen=True)
class Append:
    """Load, and delete nothing. That it happens once is the chunk's row alone, which commits with the rows."""

    chunked: ChunkedTable

    def begin(self, _connection: PgConnection, _request: LoadRequest) -> str:
        return self.chunked.name

    def finish(self, _connection: PgConnection, copied: int) -> int:
        return copied

    def content(self, connection: PgConnection, request: LoadRequest) -> SliceContent:
        """Give the rows of the slice that this very transaction has written; others were there before."""
        mine = "xmin = (txid_current() % 4294967296)::text::xid"
        return _content(connection, self.chunked, f"{self.chunked.predicate(request.chunk)} AND {mine}")


def slice_change(
    mode: InnerMode,
    chunked: ChunkedTable,
    key: MergeKey,
    delete_triggers: tuple[str, ...],
    after: Callable[[str], None],
) -> SliceChange:
    """Give the change of a mode. `after` is told what it has done: `deleted`, `staged`, `merged`.

    `delete_triggers` name those that may keep rows of a slice; where there is none, nobody looks what is left of it.
    """
    match mode:
        case InnerMode.PARTITION_REPLACE | InnerMode.REPLACE:
            return Replace(chunked, delete_triggers, after)
        case InnerMode.INCREMENTAL_APPEND:
            return Append(chunked)
        case InnerMode.INCREMENTAL_MERGE:
            return Merge(chunked, key, after)
        case InnerMode.FULL_REFRESH:
            return FullRefresh(chunked, delete_triggers, after)
        case _:
            assert_never(mode)


def _content(connection: PgConnection, chunked: ChunkedTable, where: str | None) -> SliceContent:
    query = content_query(chunked.name, row_text(chunked), where)
    return read_content(connection, query, chunked.timezone)


def _delete(
    connection: PgConnection,
    chunked: ChunkedTable,
    where: str,
    triggers: tuple[str, ...],
    after: Callable[[str], None],
) -> str:
    """Delete, and require that nothing is left where triggers have a say in that: what is would be there beside the new rows.

    Errors: ChunkFailedError.
    """
    _run(connection, f"DELETE FROM {chunked.name}{where}")
    if triggers:
        left = _run(connection, f"SELECT EXISTS (SELECT FROM {chunked.name}{where})").fetchone()
        if left != (False,):
            raise ChunkFailedError(
                f"rows are left in the slice after its deletion from {chunked.table}: kept or added by a trigger on DELETE "
                f"({', '.join(triggers)}), or by another session meanwhile; the chunk was rolled back",
                where=f"target table {chunked.table}",
                next_step="disable the trigger while the load runs, or load with inner_mode: incremental_merge",
            )
    after("deleted")
    return chunked.name


def _run(connection: PgConnection, text: str) -> psycopg.Cursor[Row]:
    return run_batch(connection, (Statement("slice", text.replace("%", "%%"), {}),))[0]
