"""Lanes that meet a fault: killed, frozen or held at a named step of a named chunk, as a file of the test says.

The runtime has no switch for this: `run_with_faults` names `open_lane` as the function that opens a lane, and its sink tells
every step that is done. Each fault happens once; a file beside the plan says that it was reached.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

from dpone_runtime import lane_bootstrap
from dpone_runtime.adapters.postgres import sink, source
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest
from dpone_runtime.ports.lanes import ChunkLoader
from dpone_runtime.services.load_chunk import SourceToSink
from tests.integration.small_lanes import bear
from tests.waiting import wait_until

FAULTS_VARIABLE = "DPONE_TEST_FAULTS"
"""The folder of a run's faults: `faults.json`, and `<step>.<chunk>` for each that was reached."""

RELEASE = "release"
"""The file that lets held lanes go on."""

BEFORE_LOAD = "before load"
"""A step of this module's own: the lane has its chunk, and neither of its transactions has begun."""

KILL_LANE = "kill lane"
KILL_COORDINATOR = "kill coordinator"
KILL_BOTH = "kill both"
NOTE = "note"
FREEZE = "freeze"
IGNORE_SIGTERM = "ignore SIGTERM"
BEAR_A_CHILD = "bear a child"
HOLD = "hold"
END_SINK = "end sink session"
END_SOURCE = "end source session"
END_LEDGER = "end ledger session"
END_FENCE = "end fence session"

ADMIN_VARIABLE = "DPONE_TEST_ADMIN"
"""The URI of whoever may end sessions of the target, where that is not the user of the run."""

LOCK_WAIT_VARIABLE = "DPONE_TEST_DATA_LOCK_WAIT"
"""Milliseconds that a data transaction waits for each lock."""


def open_lane(bootstrap_document: dict[str, object]) -> ChunkLoader:
    """Open a lane as the runtime does, with faults on its way."""
    if wait := os.environ.get(LOCK_WAIT_VARIABLE):
        sink.DATA_LOCK_WAIT_MS = source.DATA_LOCK_WAIT_MS = int(wait)
    faults = Faults(Path(os.environ[FAULTS_VARIABLE]))
    return FaultyLoader(faults, lambda after: lane_bootstrap.open_lane(bootstrap_document, after))


class FaultyLoader:
    """A loader that knows which chunk it loads, and lets the faults happen after each step."""

    def __init__(self, faults: Faults, open_loader: Callable[[Callable[[str], None]], ChunkLoader]) -> None:
        self._faults = faults
        self._chunk_index = 0
        self._loader = open_loader(lambda step: faults.happen(step, self._chunk_index, self._sessions()))

    def load(self, request: LoadRequest, progress: Callable[[int], None]) -> LoadReceipt:
        self._chunk_index = request.chunk.index
        self._faults.happen(BEFORE_LOAD, self._chunk_index)
        return self._loader.load(request, progress)

    def _sessions(self) -> list[int]:
        """Give the server's process ids of the lane's two sessions."""
        assert isinstance(self._loader, SourceToSink)
        ends = (self._loader._source, self._loader._sink)
        return [end._connection.info.backend_pid for end in ends]  # type: ignore[attr-defined]  # PostgreSQL's ends

    def close(self) -> None:
        self._loader.close()


def end_sessions(uri: str, application_name: str) -> None:
    """End every session of one kind in a database, and wait until they are gone."""
    sessions = "FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) {sessions}".encode(), (application_name,))

        def gone() -> bool:
            found = connection.execute(f"SELECT count(*) {sessions}".encode(), (application_name,)).fetchone()
            return found == (0,)

        wait_until(gone, 10, f"the end of {application_name}")


_SIGNALS: dict[str, tuple[tuple[Callable[[], int], signal.Signals], ...]] = {
    KILL_COORDINATOR: ((os.getppid, signal.SIGKILL),),
    KILL_LANE: ((os.getpid, signal.SIGKILL),),
    KILL_BOTH: ((os.getppid, signal.SIGKILL), (os.getpid, signal.SIGKILL)),
    FREEZE: ((os.getpid, signal.SIGSTOP),),
}


class Faults:
    """What is to happen, by step and chunk, to the process that asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        planned = json.loads((folder / "faults.json").read_text(encoding="utf-8"))
        self._planned = {(step, chunk_index): what for step, chunk_index, what in planned}

    def happen(self, step: str, chunk_index: int, sessions: Sequence[int] = ()) -> None:
        """Do what is planned for this step of this chunk, unless it was done before."""
        what = self.take(step, chunk_index, sessions)
        if what == IGNORE_SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if what == BEAR_A_CHILD:
            bear(self._folder)
        for victim, signal_number in _SIGNALS.get(what, ()):
            os.kill(victim(), signal_number)
        if what == END_SINK:
            admin = os.environ.get(ADMIN_VARIABLE)
            end_sessions(admin or os.environ["DPONE_CONN_TARGET_DB"], "dpone sink")
        if what == END_SOURCE:
            end_sessions(os.environ["DPONE_CONN_SOURCE_DB"], "dpone source")
        if what in (HOLD, IGNORE_SIGTERM, BEAR_A_CHILD):
            self.wait_for_release()
        if what == KILL_COORDINATOR:
            # Whether a lane ends with its coordinator is for the kernel to prove: this one does nothing to that end.
            wait_until(lambda: False, 120, "the end of the lane")

    def wait_for_release(self) -> None:
        """Wait until the test lets this process go on."""
        wait_until((self._folder / RELEASE).exists, 120, "the release of the process")

    def take(self, step: str, chunk_index: int, sessions: Sequence[int] = ()) -> str | None:
        """Give what is planned for this step of this chunk, unless it was done before, and tell that it was reached."""
        what = self._planned.get((step, chunk_index))
        if what is None or self.reached(step, chunk_index).exists():
            return None
        self._tell(step, chunk_index, sessions)
        return what

    def _tell(self, step: str, chunk_index: int, sessions: Sequence[int]) -> None:
        unfinished = self._folder / f".{os.getpid()}"
        told = {"lane": os.getpid(), "coordinator": os.getppid(), "sessions": list(sessions)}
        unfinished.write_text(json.dumps(told), encoding="utf-8")
        unfinished.rename(self.reached(step, chunk_index))

    def reached(self, step: str, chunk_index: int) -> Path:
        """Give the file that is there once a planned step was reached."""
        return self._folder / f"{step}.{chunk_index}"
