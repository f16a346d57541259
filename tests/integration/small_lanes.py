"""Openers of lanes that need no database: what each chunk does stands in the bootstrap, by its index."""

from __future__ import annotations

import faulthandler
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dpone_contract.errors import (
    ChunkBusyError,
    ChunkFailedError,
    ChunkLeaseLostError,
    ConnectionFailedError,
)
from dpone_runtime.adapters.lanes import child
from dpone_runtime.ports.connectors import CommitUnknownError, LoadReceipt, LoadRequest

ERRORS = {
    "busy": ChunkBusyError("the chunk is held"),
    "lease lost": ChunkLeaseLostError("not ours"),
    "unknown": CommitUnknownError(),
    "fail": ChunkFailedError("the rows are bad", where="here", next_step="mend them"),
}
A_DAY_SECONDS = 86_400


class SmallLoader:
    """Does to each chunk what `acts` says."""

    def __init__(self, acts: dict[str, object], folder: Path) -> None:
        self._acts = acts
        self._folder = folder

    def load(self, request: LoadRequest, progress: Callable[[int], None]) -> LoadReceipt:
        index = request.chunk.index
        act = self._acts.get(str(index), "commit")
        if isinstance(act, dict) and "announce" in act:
            self._announce(int(act["announce"]))
        elif isinstance(act, dict):
            self._send(str(act["send"]).encode(), int(act.get("times", 1)))
        elif act in ERRORS:
            raise ERRORS[str(act)]
        elif act != "commit":
            self._act(str(act), progress)
        return LoadReceipt(10 * index, 10 * index, 1000)

    def _act(self, act: str, progress: Callable[[int], None]) -> None:
        match act:
            case "progress":
                for _ in range(4):
                    progress(5 * 1024 * 1024)
            case "tell and die":
                progress(10 * 1024 * 1024)
                os.kill(os.getpid(), signal.SIGKILL)
            case "talk":
                while True:
                    progress(10 * 1024 * 1024)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "bear children":
                bear(self._folder)
                os.kill(os.getpid(), signal.SIGKILL)
            case "sleep" | "ignore SIGTERM" | "bear a child":
                self._work_for_ever(act)
            case _:
                raise ZeroDivisionError

    def _work_for_ever(self, act: str) -> None:
        if act == "ignore SIGTERM":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if act == "bear a child":
            bear(self._folder)
        self._tell("at work")
        time.sleep(A_DAY_SECONDS)

    def _send(self, data: bytes, times: int) -> None:
        """Say something that a lane would not, over the lane's own pipe."""
        lane = found_lane()
        with lane._sending:
            lane._connection.send_bytes(data * times)

    def _announce(self, size: int) -> None:
        """Begin a frame, and never end it."""
        os.write(found_lane()._connection.fileno(), struct.pack("!i", size) + b"{")
        time.sleep(A_DAY_SECONDS)

    def _tell(self, text: str) -> None:
        (self._folder / f"{os.getpid()}.{text}").touch()

    def close(self) -> None:
        self._tell("closed")


def bear(folder: Path) -> None:
    """Start a child that ignores SIGTERM and holds this lane's pipe open."""
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(86400)"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, close_fds=False)
    assert process.stdout is not None
    process.stdout.readline()
    (folder / f"{process.pid}.child").touch()


def found_lane() -> child.LaneChild:
    """Find this process's lane on the stack of its main thread."""
    frame = sys._getframe()
    while frame is not None:
        lane = frame.f_locals.get("self")
        if isinstance(lane, child.LaneChild) or type(lane).__name__ == "LaneChild":
            return lane
        frame = frame.f_back
    raise AssertionError("no lane on the stack")


def open_lane(bootstrap: dict[str, object]) -> SmallLoader:
    """Open a lane."""
    acts = bootstrap.get("acts", {})
    assert isinstance(acts, dict)
    return SmallLoader(acts, Path(str(bootstrap["folder"])))


def open_contained(bootstrap: dict[str, object]) -> SmallLoader:
    """Open, where the lane was contained before."""
    assert faulthandler.is_enabled()
    assert os.getpid() == os.getpgid(0) == os.getsid(0)
    return open_lane(bootstrap)


def open_broken(bootstrap: dict[str, object]) -> SmallLoader:
    """Fail as a lane does that cannot connect."""
    raise ConnectionFailedError("no route", where="connection x", next_step="look")


def open_later(bootstrap: dict[str, object]) -> SmallLoader:
    """Find no place once, and then one."""
    refused = Path(str(bootstrap["folder"])) / "refused"
    if not refused.exists():
        refused.touch()
        raise ConnectionFailedError("too many connections", next_step="look", transient=True)
    return open_lane(bootstrap)


def open_silent(bootstrap: dict[str, object]) -> SmallLoader:
    """Open, with a heartbeat that never comes."""
    for thread in threading.enumerate():
        if thread.name == "heartbeat":
            found_lane()._stopped.set()
    return open_lane(bootstrap)


def open_frozen(bootstrap: dict[str, object]) -> SmallLoader:
    """Stop as a frozen process does."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return open_lane(bootstrap)
