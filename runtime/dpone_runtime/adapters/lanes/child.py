"""A lane's own process: contain itself, say so, open what it is told to, load chunks until it is told to stop."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from dpone_contract.errors import ChunkBusyError, ChunkLeaseLostError, DponeError, InternalError
from dpone_runtime.adapters.lanes.containment import die_with_parent
from dpone_runtime.adapters.lanes.frames import Frame, FrameError, encode_frame, read_frame, request_of_frame
from dpone_runtime.domain.retry_rule import THREE_TRIES
from dpone_runtime.ports.connectors import CommitUnknownError
from dpone_runtime.ports.lanes import ChunkLoader

HEARTBEAT_SECONDS = 5.0
_PROGRESS_BYTES = 8 * 1024 * 1024

Opener = Callable[[dict[str, object]], ChunkLoader]


class LaneChild:
    """One lane. The heartbeat's thread only sends; everything else happens in the main thread."""

    def __init__(self, connection: Connection[object, object]) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._stopped = threading.Event()

    def send(self, frame: Frame) -> None:
        """Send a frame; a parent that is gone ends this process at once."""
        data = encode_frame(frame)
        with self._sending:
            try:
                self._connection.send_bytes(data)
            except OSError:
                os._exit(1)

    def run(self) -> None:
        """Open what the first frame says, then load chunks until a stop frame or the end of the pipe."""
        self.send({"kind": "ready", "pid": os.getpid(), "process_group": os.getpgid(0)})
        opening = read_frame(self._connection)
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        try:
            loader = _open_in_some_tries(opening)
        except DponeError as error:
            self.send({"kind": "broken", **_told(error)})
            return
        self.send({"kind": "opened"})
        try:
            while (frame := read_frame(self._connection))["kind"] != "stop":
                self.send(self._load(frame, loader))
        finally:
            self._stopped.set()
            loader.close()

    def _load(self, frame: Frame, loader: ChunkLoader) -> Frame:
        request = request_of_frame(frame)
        named: Frame = {"chunk_index": request.chunk.index}
        untold = 0

        def progress(bytes_moved: int) -> None:
            nonlocal untold
            untold += bytes_moved
            if untold >= _PROGRESS_BYTES:
                self.send({"kind": "progress", "bytes_moved": untold, **named})
                untold = 0

        try:
            receipt = loader.load(request, progress)
        except ChunkBusyError as error:
            return {"kind": "busy", **named, **_told(error)}
        except ChunkLeaseLostError as error:
            return {"kind": "lease_lost", **named, **_told(error)}
        except CommitUnknownError:
            return {"kind": "commit_unknown", **named}
        except DponeError as error:
            return {"kind": "failed", **named, **_told(error)}
        return {
            "kind": "committed",
            **named,
            "rows_extracted": receipt.rows_extracted,
            "rows_loaded": receipt.rows_loaded,
            "bytes_moved": receipt.bytes_moved,
            "content_digest": receipt.content_digest,
        }

    def _beat(self) -> None:
        while not self._stopped.wait(HEARTBEAT_SECONDS):
            self.send({"kind": "heartbeat"})


def _open_in_some_tries(frame: Frame) -> ChunkLoader:
    """Open, again a little later where a refusal may pass by itself: a server that has no place left, or that starts."""
    tries = 1
    while True:
        try:
            return _open(frame)
        except DponeError as error:
            wait = THREE_TRIES.wait_after(tries) if error.transient else None
            if wait is None:
                raise
        time.sleep(wait.total_seconds())
        tries += 1


def _open(frame: Frame) -> ChunkLoader:
    module, _, name = str(frame.get("opener")).partition(":")
    bootstrap = frame.get("bootstrap")
    if not isinstance(bootstrap, dict):
        raise InternalError("the lane was given no bootstrap", next_step="report it with the log")
    opener: Opener = getattr(importlib.import_module(module), name)
    return opener(bootstrap)


def _told(error: DponeError) -> Frame:
    return {
        "code": error.code.value,
        "message": error.message[:2000],
        "where": error.where,
        "next_step": error.next_step,
        "transient": error.transient,
    }


def main() -> None:
    """Run a lane over the socket whose number is the first argument; the second is the parent's process id."""
    os.setsid()
    faulthandler.enable()
    # The coordinator decides when a lane ends; a terminal's Ctrl-C does not reach another session anyway.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(int(sys.argv[2]))
    connection: Connection[object, object] = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError, FrameError):
        LaneChild(connection).run()


if __name__ == "__main__":
    main()
