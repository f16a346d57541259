"""The process that owns an embedded PostgreSQL and ends it with the process that asked for it; run as a file, never imported.

It is the parent of `initdb` and `postgres`, so nothing has to be found by name or by a stale pid. It ends them and removes their
folder when its standard input closes, when the process that started it dies (SIGKILL included), or on SIGTERM. It needs the
standard library only and is started with `-I -S`, so that no environment setting reaches it.

    start ----> initdb ----> postgres ----> watch ---- b"d" ----> detached ---- SIGTERM, or the server ends ---+
      |            |             |            |                                                                |
      +------------+-------------+------------+---- b"s", end of input, death of the starter, SIGTERM --------> clear

Standard output carries one JSON line: `{"port": 5432, "pid": 71}` once the server takes connections, or `{"error": "..."}`.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.02
IMMEDIATE_SHUTDOWN_SECONDS = 7.0  # the postmaster kills what ignores its SIGQUIT after 5 s
PORT_ATTEMPTS = 5
LOG_TAIL_CHARACTERS = 4000
STOP = b"s"
DETACH = b"d"


class Orders(TypedDict):
    """What the starter asks for, given as JSON in the first argument. `uid` and `gid` are null unless the starter is root."""

    folder: str
    initdb: Sequence[str]
    postgres: Sequence[str]
    password_file: str
    data: str
    log: str
    environment: Mapping[str, str]
    uid: int | None
    gid: int | None
    starter_pid: int
    start_seconds: float


class StartError(Exception):
    """The server did not start; the text is for the person who started it."""


class StopRequestError(Exception):
    """The starter is gone or asked for the end."""


@dataclass(frozen=True)
class Starter:
    """The two signs of life of the process that started the watchdog: a pipe only it writes to, and its pidfd."""

    orders_fd: int
    pidfd: int | None

    def next_order(self, timeout_seconds: float | None) -> bytes:
        """Return DETACH, or nothing when the time is over; None waits without bound.

        Errors: StopRequestError on STOP, at the end of input, or when the starter is dead.
        """
        poller = select.poll()
        poller.register(self.orders_fd, select.POLLIN | select.POLLHUP)
        # The pipe alone would not do: a child that the starter forked holds the write end too, and may outlive it.
        if self.pidfd is not None:
            poller.register(self.pidfd, select.POLLIN)
        ready = [fd for fd, _ in poller.poll(None if timeout_seconds is None else timeout_seconds * 1000)]
        if not ready:
            return b""
        order = os.read(self.orders_fd, 1) if self.orders_fd in ready else b""
        if order != DETACH:
            raise StopRequestError
        return order


def main() -> int:
    """Start the server, report it, keep it until it is no longer wanted, then leave nothing behind."""
    orders: Orders = json.loads(sys.argv[1])
    # Handlers and not SIG_IGN: an ignored signal would stay ignored in the server, which needs all of them.
    for harmless in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(harmless, lambda _signum, _frame: None)
    signal.signal(signal.SIGTERM, _raise_stop_request)
    # The server's orphans become our children, not init's, and can be found and ended.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    servers: list[subprocess.Popen[bytes]] = []
    try:
        starter = Starter(sys.stdin.fileno(), _open_pidfd(orders["starter_pid"]))
        _run_initdb(orders, starter, servers)
        port = _start_server(orders, starter, servers)
        _report({"port": port, "pid": servers[-1].pid})
        if starter.next_order(None) == DETACH:
            servers[-1].wait()
    except StopRequestError:
        return 0
    except (StartError, OSError) as exc:
        _report({"error": str(exc)})
        return 1
    finally:
        signal.signal(signal.SIGTERM, lambda _signum, _frame: None)
        _end(servers)
        shutil.rmtree(orders["folder"], ignore_errors=True)
    return 0


def _raise_stop_request(_signum: int, _frame: object) -> None:
    raise StopRequestError


def _open_pidfd(starter_pid: int) -> int | None:
    """Return None where the system has no pidfd; the pipe must do there."""
    if sys.platform != "linux":
        return None
    try:
        starter = os.pidfd_open(starter_pid)
    except ProcessLookupError as exc:
        raise StopRequestError from exc
    # Read after the open: were the starter dead, its pid could name somebody else by now.
    if os.getppid() != starter_pid:
        raise StopRequestError
    return starter


def _report(report: Mapping[str, object]) -> None:
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), json.dumps(report).encode() + b"\n")


def _spawn(orders: Orders, command: Sequence[str]) -> subprocess.Popen[bytes]:
    with Path(orders["log"]).open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=orders["folder"],
            env=dict(orders["environment"]),
            start_new_session=True,
            user=orders["uid"],
            group=orders["gid"],
            extra_groups=None if orders["uid"] is None else [],
        )


def _log_tail(orders: Orders) -> str:
    return Path(orders["log"]).read_text(errors="replace")[-LOG_TAIL_CHARACTERS:].strip()


def _run_initdb(orders: Orders, starter: Starter, servers: list[subprocess.Popen[bytes]]) -> None:
    servers.append(_spawn(orders, orders["initdb"]))
    while servers[-1].poll() is None:
        starter.next_order(POLL_SECONDS)
    Path(orders["password_file"]).unlink()
    if servers[-1].returncode != 0:
        raise StartError(f"initdb failed with exit code {servers[-1].returncode}:\n{_log_tail(orders)}")
    os.truncate(orders["log"], 0)


def _start_server(orders: Orders, starter: Starter, servers: list[subprocess.Popen[bytes]]) -> int:
    """Return the TCP port of a server that takes connections."""
    for attempt in range(1, PORT_ATTEMPTS + 1):
        port = _free_port()
        servers.append(_spawn(orders, [*orders["postgres"], "-p", str(port)]))
        deadline = time.monotonic() + orders["start_seconds"]
        while not _is_ready(orders, servers[-1].pid):
            starter.next_order(POLL_SECONDS)
            if servers[-1].poll() is not None:
                break
            if time.monotonic() > deadline:
                raise StartError(f"the server was not ready in time; its log ends with:\n{_log_tail(orders)}")
        else:
            return port
        # Another process can take the port between the look and the bind.
        if "could not bind" not in _log_tail(orders) or attempt == PORT_ATTEMPTS:
            break
        os.truncate(orders["log"], 0)
    raise StartError(
        f"the server ended with exit code {servers[-1].returncode}; its log ends with:\n{_log_tail(orders)}"
    )


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_ready(orders: Orders, pid: int) -> bool:
    """Read the eighth line of `postmaster.pid`, as `pg_ctl --wait` does."""
    try:
        lines = Path(orders["data"], "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _end(servers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Immediate shutdown, as the data is thrown away, then SIGKILL for whatever is left, stopped processes included."""
    for server in servers:
        if server.poll() is None:
            server.send_signal(signal.SIGQUIT)
            try:
                server.wait(IMMEDIATE_SHUTDOWN_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    while orphans := _children():
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _children() -> tuple[int, ...]:
    try:
        return tuple(int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    except OSError:
        return ()


if __name__ == "__main__":
    sys.exit(main())
