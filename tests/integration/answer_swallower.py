"""A proxy that loses the answer to COMMIT: of the sessions of one kind it passes everything on until a batch holds COMMIT.

`committed`: that batch reaches the server and is carried out there, and its answer is thrown away; else the batch is thrown away
itself. Either way the client's connection ends without an answer, once for each run of this proxy; later sessions are left alone.
One that is not `armed` loses nothing before it is.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

_COMMIT = b"COMMIT\x00"
_BLOCK = 65536


class AnswerSwallower:
    """Listens on a port of its own before a server."""

    def __init__(self, uri: str, *, committed: bool, victim: str = "dpone sink", armed: bool = True) -> None:
        self.armed = armed
        self._victim = b"application_name\x00" + victim.encode() + b"\x00"
        self._uri = urlsplit(uri)
        self._committed = committed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self.swallowed = 0
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
            server = socket.create_connection((self._uri.hostname or "", self._uri.port or 5432))
            self._open += [client, server]
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server:
            startup = client.recv(_BLOCK)
            victim = self._victim in startup
            server.sendall(startup)
            while True:
                for found in select.select([client, server], [], [])[0]:
                    data = found.recv(_BLOCK)
                    if not data:
                        return
                    loses = victim and self.armed and not self.swallowed
                    if loses and found is client and _COMMIT in data:
                        self.swallowed += 1
                        if self._committed:
                            server.sendall(data)
                            _finish(client, server)
                        return
                    (server if found is client else client).sendall(data)


def _finish(client: socket.socket, server: socket.socket) -> None:
    """Pass on the rest of the batch, and read until the server is idle, outside any transaction: it has committed."""
    ready = b"Z" + struct.pack("!i", 5) + b"I"
    seen = b""
    while ready not in seen:
        for found in select.select([client, server], [], [])[0]:
            data = found.recv(_BLOCK)
            if not data:
                raise ConnectionError
            if found is client:
                server.sendall(data)
            else:
                seen = seen[-len(ready) :] + data
