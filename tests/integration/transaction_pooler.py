"""A stand-in for a transaction-pooling proxy: clients share a few server sessions, each for one transaction at a time.

It speaks as much of the protocol as it takes to see where a transaction ends. Who a client is, the server asks itself: every
client logs in on a server session of its own, which then goes to the pool, or ends where the pool is full. As PgBouncer does, it
gives a session to a client that sends a lone Flush, and takes it back after that client's next statement only.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self
from urllib.parse import urlsplit

_ASKS_FOR_ENCRYPTION = (80877103, 80877104)
_CANCEL = 80877102
_TERMINATE, _READY = b"X", b"Z"
_AWAITS_READY = (b"Q", b"S", b"F")
_WAIT_SECONDS = 30.0


class _Wire:
    """One connection, read message by message."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        # As libpq and the server do; else each answer in parts waits for the other side's delayed acknowledgement.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = bytearray()

    def startup(self) -> bytes:
        """Give the first message, which has no kind."""
        (length,) = struct.unpack("!i", self._exactly(4))
        return struct.pack("!i", length) + self._exactly(length - 4)

    def message(self) -> tuple[bytes, bytes]:
        """Give the kind of the next message, and all of it."""
        head = self._exactly(5)
        (length,) = struct.unpack("!i", head[1:])
        return head[:1], head + self._exactly(length - 4)

    def buffered(self) -> bool:
        """Whether part of a further message was read already."""
        return bool(self._read)

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError
            self._read += data
        found = bytes(self._read[:size])
        del self._read[:size]
        return found


class TransactionPooler:
    """Listens on a port of its own. `in_turn`: sessions are handed out in turn, else the last one that came back first."""

    def __init__(self, uri: str, *, in_turn: bool, size: int = 8) -> None:
        self._uri = urlsplit(uri)
        self._in_turn = in_turn
        self._size = size
        self._idle: deque[_Wire] = deque()
        self._pooled = 0
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def uri(self) -> str:
        """The URI of the same database through this proxy."""
        user = self._uri.netloc.rpartition("@")[0]
        port = self._listener.getsockname()[1]
        return self._uri._replace(netloc=f"{user}@127.0.0.1:{port}", query="sslmode=disable").geturl()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for found in self._open:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
            found.close()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._serve, args=(_Wire(client),), daemon=True).start()

    def _serve(self, client: _Wire) -> None:
        with suppress(OSError), client.socket:
            if self._log_in(client):
                while True:
                    kind, message = client.message()
                    if kind == _TERMINATE:
                        return
                    with self._session() as server:
                        _run_transaction(client, server, kind, message)

    def _log_in(self, client: _Wire) -> bool:
        startup = client.startup()
        while (code := struct.unpack("!i", startup[4:8])[0]) in _ASKS_FOR_ENCRYPTION:
            client.socket.sendall(b"N")
            startup = client.startup()
        if code == _CANCEL:
            return False
        connection = socket.create_connection((self._uri.hostname or "", self._uri.port or 5432))
        self._open.append(connection)
        server = _Wire(connection)
        server.socket.sendall(startup)
        while True:
            kind, message = server.message()
            client.socket.sendall(message)
            if kind == _READY:
                break
            if kind == b"R" and struct.unpack("!i", message[5:9])[0] not in (0, 12):
                server.socket.sendall(client.message()[1])
        self._keep(server)
        return True

    def _keep(self, server: _Wire) -> None:
        with self._changed:
            if self._pooled == self._size:
                server.socket.close()
                return
            self._pooled += 1
            self._idle.append(server)
            self._changed.notify()

    @contextmanager
    def _session(self) -> Iterator[_Wire]:
        with self._changed:
            if not self._changed.wait_for(lambda: self._idle, _WAIT_SECONDS):
                raise TimeoutError
            server = self._idle.popleft() if self._in_turn else self._idle.pop()
        try:
            yield server
        except BaseException:
            # A client that left in the middle of a transaction: what it began ends with the session.
            server.socket.close()
            with self._changed:
                self._pooled -= 1
            raise
        with self._changed:
            self._idle.append(server)
            self._changed.notify()


def _run_transaction(client: _Wire, server: _Wire, kind: bytes, message: bytes) -> None:
    """Carry messages both ways until the server is ready, idle, and has been asked nothing more."""
    server.socket.sendall(message)
    awaited = int(kind in _AWAITS_READY)
    while True:
        for wire in _readable(server, client):
            kind, message = wire.message()
            if wire is client:
                if kind == _TERMINATE:
                    raise ConnectionError
                server.socket.sendall(message)
                awaited += kind in _AWAITS_READY
                continue
            client.socket.sendall(message)
            awaited -= kind == _READY
            if kind == _READY and message[5:6] == b"I" and awaited == 0:
                return


def _readable(*wires: _Wire) -> list[_Wire]:
    found = [wire for wire in wires if wire.buffered()]
    if not found:
        sockets, _, _ = select.select([wire.socket for wire in wires], [], [])
        found = [wire for wire in wires if wire.socket in sockets]
    return found
