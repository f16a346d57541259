"""COPY at the level of libpq: blocks of bytes from one server to another, no row ever a Python object.

Both connections are non-blocking and waited for with `select`, so that a lane's heartbeat runs while a server is slow.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO

import psycopg
from psycopg import pq

from dpone_runtime.adapters.postgres.connect import PgConnection, translated
from dpone_runtime.ports.connectors import SliceContent

BLOCK_BYTES = 256 * 1024


class CopyStream:
    """One `COPY (...) TO STDOUT` in flight: blocks of about 256 KiB; `rows` is the server's own count at the end.

    A longer row comes in pieces. libpq holds it whole, twice for a moment, and nothing else does.
    """

    def __init__(self, connection: PgConnection, doing: str) -> None:
        self._pgconn = connection.pgconn
        self._doing = doing
        self._block = b""
        self._long_row: memoryview | None = None
        self.content: SliceContent | None = None
        self.ended = False
        self.rows = 0

    def begin(self, statement: str) -> None:
        """Send the statement and wait until the first row, or the end, has arrived.

        Errors: psycopg.Error as the server gives it.
        """
        start_copy(self._pgconn, statement, pq.ExecStatus.COPY_OUT)
        self._block = self._take(1)

    def blocks(self) -> Iterator[bytes]:
        """Give the rows. The source's own errors are translated here, since a sink is what iterates."""
        while True:
            if self._block:
                yield self._block
            yield from self._pieces()
            if self.ended:
                return
            with translated(self._doing):
                self._block = self._take(BLOCK_BYTES)

    def _take(self, at_least: int) -> bytes:
        """Collect rows until `at_least` bytes, or a row for `_pieces`, are there or the server has no more.

        Each row is added at once and its memory given back: keeping a block's rows for one join takes three times as
        long, since every one of them is an object that the garbage collector visits.
        """
        pgconn, block, size = self._pgconn, BytesIO(), 0
        get_copy_data, write = pgconn.get_copy_data, block.write
        while size < at_least:
            length, row = get_copy_data(1)
            if length > BLOCK_BYTES:
                self._long_row = row
                break
            if length > 0:
                write(row)
                size += length
            elif length == 0:
                select.select((pgconn.socket,), (), ())
                pgconn.consume_input()
            else:
                self.ended = True
                self.rows = finish_copy(pgconn)
                break
        return block.getvalue()

    def _pieces(self) -> Iterator[bytes]:
        """Give the long row, if there is one, copied piece by piece, so that no piece keeps the whole alive."""
        row, self._long_row = self._long_row, None
        if row is not None:
            for start in range(0, len(row), BLOCK_BYTES):
                yield bytes(row[start : start + BLOCK_BYTES])


def copy_out(connection: PgConnection, statement: str, doing: str) -> CopyStream:
    """Begin a COPY TO STDOUT. A stream that is left before its end leaves a session that can only be closed.

    Errors: psycopg.Error as the server gives it.
    """
    stream = CopyStream(connection, doing)
    stream.begin(statement)
    return stream


def copy_in(connection: PgConnection, statement: str, blocks: Iterator[bytes]) -> int:
    """Run a COPY FROM STDIN over blocks; give the rows that the server counted.

    The server's refusal of a row is known at the end of the data only: libpq keeps it until then.

    Errors: psycopg.Error as the server gives it; whatever the blocks raise, the COPY being refused first.
    """
    pgconn = connection.pgconn
    start_copy(pgconn, statement, pq.ExecStatus.COPY_IN)
    try:
        for block in blocks:
            pgconn.put_copy_data(block)
            _flush(pgconn)
    except BaseException:
        # What the blocks raised is the reason, even where this side broke as well.
        with suppress(psycopg.Error):
            _refuse(pgconn)
        raise
    pgconn.put_copy_end()
    _flush(pgconn)
    return finish_copy(pgconn)


def _refuse(pgconn: pq.abc.PGconn) -> None:
    if pgconn.status == pq.ConnStatus.OK:
        pgconn.put_copy_end(b"the source failed")
        _flush(pgconn)
        _drain(pgconn)


def start_copy(pgconn: pq.abc.PGconn, statement: str, expected: pq.ExecStatus) -> None:
    """Send a COPY and wait for the server to switch."""
    pgconn.send_query(statement.encode())
    _flush(pgconn)
    result = _next_result(pgconn)
    if result is None or result.status != expected:
        error = _error_of(result, pgconn)
        _drain(pgconn)
        raise error


def finish_copy(pgconn: pq.abc.PGconn) -> int:
    """Read the answers that follow a COPY's data; give the number of rows in its command tag."""
    rows, failure = 0, None
    while (result := _next_result(pgconn)) is not None:
        if result.status == pq.ExecStatus.COMMAND_OK:
            rows = result.command_tuples or 0
        elif result.status in (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT):
            break
        else:
            failure = failure or _error_of(result, pgconn)
    if failure is not None:
        raise failure
    return rows


def _drain(pgconn: pq.abc.PGconn) -> None:
    while True:
        result = _next_result(pgconn)
        if result is None or result.status in (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT):
            return


def _flush(pgconn: pq.abc.PGconn) -> None:
    """Send what is queued. While the server does not read, it may be writing: take that in, or both wait for ever."""
    while pgconn.flush():
        readable, _, _ = select.select((pgconn.socket,), (pgconn.socket,), ())
        if readable:
            pgconn.consume_input()


def _next_result(pgconn: pq.abc.PGconn) -> pq.abc.PGresult | None:
    while pgconn.is_busy():
        select.select((pgconn.socket,), (), ())
        pgconn.consume_input()
    return pgconn.get_result()


def _error_of(result: pq.abc.PGresult | None, pgconn: pq.abc.PGconn) -> psycopg.Error:
    if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
        return psycopg.errors.error_from_result(result, encoding="utf-8")
    text = pgconn.get_error_message() if hasattr(pgconn, "get_error_message") else "the connection broke"
    return psycopg.OperationalError(text or "the server gave an unexpected answer")
