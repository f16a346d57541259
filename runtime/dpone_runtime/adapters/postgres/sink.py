"""The writing side of a lane on PostgreSQL: slice, rows and the chunk's completion in one transaction.

What becomes of the slice is `slice_changes`, what the ledger is owed `completion`; everything around them is the same for every
inner mode and every ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
from psycopg import errors

from dpone_contract.errors import ChunkBusyError, ChunkLeaseLostError, ContentDiffersError, RowsDifferError
from dpone_runtime.adapters.postgres.batches import protocol_queries, run_batch, settings_statement
from dpone_runtime.adapters.postgres.completion import Completion
from dpone_runtime.adapters.postgres.connect import DATA_LOCK_WAIT_MS, connect, session_settings, translate
from dpone_runtime.adapters.postgres.copy import copy_in
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.adapters.postgres.seen_table import SeenTable
from dpone_runtime.adapters.postgres.session import PROTOCOL_IDLE_MS
from dpone_runtime.adapters.postgres.slice_changes import SliceChange
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.ports.connectors import (
    CommitUnknownError,
    LoadReceipt,
    LoadRequest,
    RowStream,
    SliceContent,
)

_LOCK_WAIT_MS = 5_000
_AGAIN = "run it again; committed chunks are skipped"


class PostgresSink:
    """Loads chunks over one session. The chunk's lock and the guard come first, COMMIT and completion last, together."""

    def __init__(
        self,
        connection: ResolvedConnection,
        chunked: ChunkedTable,
        change: SliceChange,
        completion: Completion,
        seen: SeenTable,
        *,
        strict: bool = False,
        after: Callable[[str], None],
    ) -> None:
        self._resolved = connection
        self._chunked = chunked
        self._change = change
        self._completion = completion
        self._seen = seen
        self._look = seen.look()
        self._queries = protocol_queries()
        self._connection = connect(connection, "sink", again=True)
        self._strict = strict
        self._after = after
        """Told the name of each step that is done; tests stop the process there."""

    def load(self, request: LoadRequest, stream: RowStream, progress: Callable[[int], None]) -> LoadReceipt:
        if self._connection.closed:
            self._connection = connect(self._resolved, "sink", again=True)
        try:
            self._begin(request)
            receipt = self._change_slice(request, stream, progress)
        except psycopg.Error as error:
            self._roll_back()
            raise translate(error, f"loading {self._chunked.table}", _place(request)) from error
        except BaseException:
            self._roll_back()
            raise
        self._commit(request, receipt)
        return receipt

    def _begin(self, request: LoadRequest) -> None:
        """Take the chunk's lock and require the chunk to be this attempt's.

        Errors: ChunkBusyError while another data transaction holds the lock; ChunkLeaseLostError.
        """
        query = self._queries.statement
        settings = session_settings(self._connection, _LOCK_WAIT_MS, PROTOCOL_IDLE_MS)
        settings |= self._chunked.format.settings
        statements = (
            query("begin"),
            settings_statement(settings),
            self._completion.lock(request),
            settings_statement({"lock_timeout": str(DATA_LOCK_WAIT_MS)}),
            *self._completion.guard(request),
        )
        try:
            guard = run_batch(self._connection, statements)[-1]
        except errors.LockNotAvailable as error:
            raise ChunkBusyError(
                "another data transaction holds this chunk", where=_place(request), next_step=_AGAIN
            ) from error
        if guard.fetchone() is None:
            raise ChunkLeaseLostError(
                "another attempt owns the chunk now; nothing was changed",
                where=_place(request),
                next_step=_AGAIN,
            )
        self._after("guarded")

    def _change_slice(
        self, request: LoadRequest, stream: RowStream, progress: Callable[[int], None]
    ) -> LoadReceipt:
        held = run_batch(self._connection, (*self._seen.lock("ROW EXCLUSIVE"), self._look))
        self._seen.require("target", held[-1].fetchall())
        into = self._change.begin(self._connection, request)
        columns, options = self._chunked.column_list, self._chunked.format.options
        moved = 0

        def counted() -> Iterator[bytes]:
            nonlocal moved
            for block in stream.blocks():
                moved += len(block)
                yield block
                progress(len(block))
                self._after("copying")

        copied = copy_in(self._connection, f"COPY {into} ({columns}) FROM STDIN {options}", counted())
        self._after("copied")
        loaded = self._change.finish(self._connection, copied)
        if loaded != stream.rows and self._strict:
            raise RowsDifferError(
                f"the source counted {stream.rows} rows and the target {loaded}; the chunk was rolled back",
                where=f"target table {self._chunked.table}",
                next_step="look for triggers or rules on the target that drop rows",
            )
        digest = self._compared(request, stream.content) if stream.content else None
        return LoadReceipt(stream.rows, loaded, moved, digest)

    def _compared(self, request: LoadRequest, expected: SliceContent) -> str | None:
        """Require the target to hold what the source's snapshot held; give the digest of both.

        Errors: ContentDiffersError.
        """
        found = self._change.content(self._connection, request)
        if found != expected:
            what = (
                f"{expected.rows} rows in the source and {found.rows} in the target"
                if found.rows != expected.rows
                else f"{found.rows} rows on both sides, and they are not the same"
            )
            raise ContentDiffersError(
                f"the contents of the chunk differ: {what}; the chunk was rolled back",
                where=f"target table {self._chunked.table}",
                next_step="look for triggers, rules or defaults on the target that change rows",
            )
        self._after("compared")
        return found.digest

    def _commit(self, request: LoadRequest, receipt: LoadReceipt) -> None:
        """Complete the chunk and commit, in one batch; the completion's guard undoes everything where it fails.

        Errors: ChunkLeaseLostError (undone), CommitUnknownError (no clear answer).
        """
        query = self._queries.statement
        statements = (
            settings_statement({"lock_timeout": str(_LOCK_WAIT_MS)}),
            *self._completion.complete(request, receipt),
            query("commit"),
        )
        self._after("before commit")
        try:
            answer = run_batch(self._connection, statements)[-1].statusmessage
        except psycopg.Error as error:
            if error.sqlstate is None or error.sqlstate[:2] in ("08", "57"):
                self._connection.close()
                raise CommitUnknownError from error
            self._roll_back()
            if not self._completion.refused(error):
                raise translate(error, "completing the chunk", _place(request)) from error
            raise ChunkLeaseLostError(
                "another attempt owns the chunk now, or its campaign was closed; its rows were rolled back",
                where=_place(request),
                next_step=_AGAIN,
            ) from error
        if answer != "COMMIT":
            self._connection.close()
            raise CommitUnknownError
        self._after("committed")

    def _roll_back(self) -> None:
        try:
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()

    def close(self) -> None:
        self._connection.close()


def _place(request: LoadRequest) -> str:
    return f"campaign {request.run_key}, chunk {request.chunk.index}"
