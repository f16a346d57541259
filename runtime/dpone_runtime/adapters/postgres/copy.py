"""COPY at the level of libpq: blocks of bytes from one server to another, no row ever a Python object.

Both connections are non-blocking and waited for with `select`, so that a lane's heartbeat runs while a server is slow.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import pq

from dpone_runtime.adapters.postgres.connect import PgConnection, translated

BLOCK_BYTES = 256 * 1024


class CopyStream:
    """One `COPY (...) TO STDOUT` in flight: blocks of about 256 KiB; `rows` is the server's own count at the end.

    A single row larger than a block is a block of its own: memory holds one block and one row.
    """

    def __init__(self, connection: PgConnection, doing: str) -> None:
        self._pgconn = connection.pgconn
        self._doing = doing
        self._first: bytes | None = None
        self.ended = False
        self.rows = 0

    def begin(self, statement: str) -> None:
        """Send the statement and wait until the first row, or the end, has arrived.

        Errors: psycopg.Error as the server gives it.
        """
        start_copy(self._pgconn, statement, pq.ExecStatus.COPY_OUT)
        self._first = self._take(1)

    def blocks(self) -> Iterator[bytes]:
        """Give the rows. The source's own errors are translated here, since a sink is what iterates."""
        first, self._first = self._first, None
        if first:
            yield first
        while not self.ended:
            with translated(self._doing):
                block = self._take(BLOCK_BYTES)
            if block:
                yield block

    def _take(self, at_least: int) -> bytes:
        """Collect rows until `at_least` bytes are there or the server has no more."""
        pgconn, parts, size = self._pgconn, [], 0
        get_copy_data = pgconn.get_copy_data
        while size < at_least:
            length, data = get_copy_data(1)
            if length > 0:
                parts.append(data)
                size += length
            elif length == 0:
                select.select((pgconn.socket,), (), ())
                pgconn.consume_input()
            else:
                self.ended = True
                self.rows = finish_copy(pgconn)
                break
        return b"".join(parts)


@contextmanager
def copy_out(connection: PgConnection, statement: str, doing: str) -> Iterator[CopyStream]:
    """Run a COPY TO STDOUT; leaving the block early ends the session, since its answer is still under way."""
    stream = CopyStream(connection, doing)
    try:
        stream.begin(statement)
        yield stream
    finally:
        if not stream.ended:
            connection.close()


def copy_in(connection: PgConnection, statement: str, blocks: Iterator[bytes]) -> int:
    """Run a COPY FROM STDIN over blocks; give the rows that the server counted.

    Errors: psycopg.Error as the server gives it; whatever the blocks raise, the COPY being refused first.
    """
    pgconn = connection.pgconn
    start_copy(pgconn, statement, pq.ExecStatus.COPY_IN)
    try:
        for block in blocks:
            pgconn.put_copy_data(block)
            _flush(pgconn)
    except BaseException:
        if pgconn.status == pq.ConnStatus.OK:
            pgconn.put_copy_end(b"the source failed")
            _flush(pgconn)
            _drain(pgconn)
        raise
    pgconn.put_copy_end()
    _flush(pgconn)
    return finish_copy(pgconn)


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
