"""Process groups: dying with a parent, ending a whole group within one deadline, proving that it is gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_SECONDS = 0.02
PROCESSES = Path("/proc")


def die_with_parent(parent_pid: int, signal_number: int = signal.SIGKILL) -> None:
    """Have the kernel end this process when its parent ends (Linux); elsewhere the end of the pipe has to do.

    The parent is compared afterwards, because it may have ended before the kernel was asked.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal_number)


def signal_group(process_group: int, signal_number: int) -> None:
    """Signal every process of a group; a group that is gone is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process_group, signal_number)


def group_alive(process_group: int) -> bool:
    """Whether a group still has a process that can run; zombies do not count, and what cannot be read does."""
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if sys.platform != "linux":
        return True
    try:
        found = [entry for entry in PROCESSES.iterdir() if entry.name.isdigit()]
    except OSError:
        return True
    return any(_runs(entry, process_group) for entry in found)


def end_groups(process_groups: Sequence[int], grace: timedelta) -> None:
    """End groups together: SIGTERM and SIGCONT, one shared deadline, then SIGKILL; returns when none can run."""
    for group in process_groups:
        signal_group(group, signal.SIGTERM)
        signal_group(group, signal.SIGCONT)
    deadline = time.monotonic() + grace.total_seconds()
    remaining = [group for group in process_groups if group_alive(group)]
    while remaining and time.monotonic() < deadline:
        select.select((), (), (), _LOOK_EVERY_SECONDS)
        remaining = [group for group in remaining if group_alive(group)]
    for group in remaining:
        signal_group(group, signal.SIGKILL)
    last = time.monotonic() + grace.total_seconds()
    while any(group_alive(group) for group in remaining) and time.monotonic() < last:
        select.select((), (), (), _LOOK_EVERY_SECONDS)


def _runs(entry: Path, process_group: int) -> bool:
    try:
        fields = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return int(fields[2]) == process_group and fields[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
    except (OSError, ValueError, IndexError):
        # Without evidence the group is not taken for gone.
        return True
