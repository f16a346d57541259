"""Finding and ending every process that carries a home's marker; as a script, the watchdog that does so.

Needs Linux's /proc. Standard library only: the watchdog must not import what it watches.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Set
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

MARKER = "DPONE_AIRFLOW_HOME_MARKER"
KILL_GRACE = timedelta(seconds=10)
END_POLL_SECONDS = 0.1


class HomeProcess(NamedTuple):
    """One process; its start, in clock ticks since boot, tells it from a later one with the same id."""

    pid: int
    started: int


def marked_processes(marker: str, known: Set[HomeProcess] = frozenset()) -> set[HomeProcess]:
    """Find the living processes of the home with this marker, never the caller's own session.

    The evidence is the marker in a process's environment. Descendants and session fellows are added, and
    those of `known` that still live: a task's child may have a clean environment and a session of its own,
    and is found only through a parent that may be gone at the next look.
    """
    needle = f"{MARKER}={marker}".encode()
    own_session = os.getsid(0)
    sessions: dict[HomeProcess, int] = {}
    parents: dict[HomeProcess, int] = {}
    found: set[HomeProcess] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which may hold anything: state, parent, group, session; start time is field 22.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile, or is another user's
            continue
        process = HomeProcess(pid=int(folder.name), started=int(fields[19]))
        if fields[0] not in b"ZX" and int(fields[3]) != own_session:
            parents[process], sessions[process] = int(fields[1]), int(fields[3])
            if needle in environment or process in known:
                found.add(process)
    while True:
        pids = {process.pid for process in found}
        home_sessions = {sessions[process] for process in found}
        more = {
            process for process in parents if parents[process] in pids or sessions[process] in home_sessions
        }
        if more <= found:
            return found
        found |= more


def end_marked_processes(
    marker: str, grace: timedelta, known: Set[HomeProcess] = frozenset()
) -> set[HomeProcess]:
    """Kill the home's processes, new ones too, until none is found; return those left after the grace."""

    def kill(found: Set[HomeProcess]) -> None:
        for process in found:
            send_signal(process.pid, signal.SIGKILL)

    return wait_until_ended(marker, grace, known, kill)


def wait_until_ended(
    marker: str,
    grace: timedelta,
    known: Set[HomeProcess],
    meanwhile: Callable[[Set[HomeProcess]], object],
) -> set[HomeProcess]:
    """Look until no process is left, calling `meanwhile` with those found; give those left after the grace."""
    deadline = time.monotonic() + grace.total_seconds()
    while True:
        found = marked_processes(marker, known)
        meanwhile(found)
        if not found or time.monotonic() > deadline:
            return found
        known = found
        time.sleep(END_POLL_SECONDS)


def send_signal(pid: int, number: signal.Signals) -> None:
    """Signal a process, or with a negative id its group; one that is gone is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _watch(marker: str, pipe: int) -> None:
    # A byte means "dismissed", the end of the pipe that the parent is gone. A fork of the parent may hold the
    # pipe open after its death, so a change of the parent's id counts too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent_id = os.getppid()
    while os.getppid() == parent_id:
        if select.select([pipe], [], [], 1.0)[0]:
            if os.read(pipe, 1):
                return
            break
    end_marked_processes(marker, KILL_GRACE)


def _main(verb: str, marker: str) -> int:
    if verb == "watch":
        _watch(marker, sys.stdin.fileno())
        return 0
    return 1 if end_marked_processes(marker, KILL_GRACE) else 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
