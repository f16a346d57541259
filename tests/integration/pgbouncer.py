"""The real PgBouncer before a test's database, in transaction mode, where it is on the path."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

import psycopg

from tests.waiting import wait_until

PGBOUNCER = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")

_SETTINGS = """\
[databases]
* = host={host} port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 100
server_reset_query_always = 0
ignore_startup_parameters = extra_float_digits
logfile =
pidfile =
"""


class PgBouncer:
    """One proxy process of `size` server sessions, on a port of its own; it ends with the block.

    It asks its clients for no password and logs in by itself.
    """

    def __init__(self, uri: str, folder: Path, *, size: int = 8) -> None:
        self._parts = urlsplit(uri)
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as found:
            self._port = found.getsockname()[1]
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(
                host=self._parts.hostname,
                port=self._parts.port,
                user=self._parts.username,
                password=unquote(self._parts.password or ""),
                listen=self._port,
                size=size,
            )
        )
        self._settings = settings

    @property
    def uri(self) -> str:
        """The URI of the same database through this proxy."""
        user = self._parts.netloc.rpartition("@")[0]
        return self._parts._replace(netloc=f"{user}@127.0.0.1:{self._port}", query="sslmode=disable").geturl()

    def __enter__(self) -> Self:
        command = [str(PGBOUNCER), str(self._settings)]
        if os.geteuid() == 0:
            # It refuses to be root, and has read its settings before it is somebody else.
            command[1:1] = ["-u", "nobody"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers, 20, "an answer of PgBouncer")
        return self

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with suppress(psycopg.OperationalError), psycopg.connect(self.uri, connect_timeout=5):
            return True
        return False

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait(5)
