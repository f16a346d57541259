"""The coordinator's end of its lanes: start, hand out, listen to pipes and process ends as one observation, end groups."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait

from dpone_contract.errors import InternalError
from dpone_runtime.adapters.lanes.containment import end_groups
from dpone_runtime.adapters.lanes.frames import Frame, FrameError, encode_frame, load_frame, read_frame
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId

SILENCE = timedelta(seconds=90)
OPEN_WITHIN = timedelta(seconds=60)
_END_GRACE = timedelta(seconds=3)
_EXIT_WAIT = timedelta(seconds=1)
_CLOSE_LOOK_SECONDS = 0.02


@dataclass
class _Lane:
    process: subprocess.Popen[bytes]
    connection: Connection[object, object]
    heard_at: float
    pidfd: int | None
    ready: bool = False


class ProcessLanePool:
    """`LanePool` of child processes. `opener` is `module:function`, `bootstrap` plain data that it is called with.

    `silence` is how long a lane may say nothing before it is ended.
    """

    def __init__(self, opener: str, bootstrap: dict[str, object], silence: timedelta = SILENCE) -> None:
        self._opening = encode_frame_or_refuse({"kind": "open", "opener": opener, "bootstrap": bootstrap})
        self._silence = silence
        self._lanes: dict[LaneId, _Lane] = {}
        self._count = 0

    def start(self) -> LaneId:
        ours, theirs = socket.socketpair()
        with theirs:
            # A fresh interpreter, as multiprocessing's spawn gives, without its tracker process and its second import
            # of the main module; -P keeps the working directory off the path.
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "dpone_runtime.adapters.lanes.child",
                    str(theirs.fileno()),
                    str(os.getpid()),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
            )
        self._count += 1
        lane = LaneId(self._count)
        connection: Connection[object, object] = Connection(ours.detach())
        self._lanes[lane] = _Lane(process, connection, time.monotonic(), _pidfd(process.pid))
        return lane

    def send(self, lane: LaneId, request: LoadRequest) -> None:
        # A broken pipe proves nothing about how much of the frame crossed; the lane's end will be seen by poll.
        with contextlib.suppress(OSError):
            self._lanes[lane].connection.send_bytes(encode_frame(load_frame(request)))

    def poll(self, timeout: timedelta) -> tuple[LaneEvent, ...]:
        waited: list[Connection[object, object] | int] = []
        for lane in self._lanes.values():
            waited.append(lane.connection)
            if lane.pidfd is not None:
                waited.append(lane.pidfd)
        wait(waited, timeout.total_seconds())
        events: list[LaneEvent] = []
        for lane_id, lane in list(self._lanes.items()):
            events.extend(self._observe(lane_id, lane))
        return tuple(events)

    def _observe(self, lane_id: LaneId, lane: _Lane) -> list[LaneEvent]:
        """Take everything that a lane has said, then whether it has ended."""
        ended = lane.process.poll() is not None
        events: list[LaneEvent] = []
        try:
            while lane.connection.poll():
                events.extend(self._hear(lane_id, lane, read_frame(lane.connection)))
        except EOFError:
            # A lane that ends closes its pipe first; its own exit code says more than our signal would.
            with contextlib.suppress(subprocess.TimeoutExpired):
                lane.process.wait(timeout=_EXIT_WAIT.total_seconds())
            return [*events, self._bury(lane_id, lane, None)]
        except FrameError as error:
            return [*events, self._bury(lane_id, lane, str(error))]
        if ended:
            return [*events, self._bury(lane_id, lane, None)]
        limit = self._silence if lane.ready else max(self._silence, OPEN_WITHIN)
        if time.monotonic() - lane.heard_at > limit.total_seconds():
            return [*events, self._bury(lane_id, lane, f"it was silent for {limit.total_seconds():.0f} s")]
        return events

    def _hear(self, lane_id: LaneId, lane: _Lane, frame: Frame) -> list[LaneEvent]:
        lane.heard_at = time.monotonic()
        kind = str(frame["kind"])
        if kind == "heartbeat":
            return []
        if kind == "ready":
            if frame.get("process_group") != lane.process.pid or frame.get("pid") != lane.process.pid:
                raise FrameError("it is not the leader of its own process group")
            lane.ready = True
            with contextlib.suppress(OSError):
                lane.connection.send_bytes(self._opening)
            return []
        try:
            return [_event(lane_id, LaneEventKind(kind), frame)]
        except ValueError as error:
            raise FrameError(f"a frame is of the unknown kind {kind!r}") from error

    def _bury(self, lane_id: LaneId, lane: _Lane, reason: str | None) -> LaneEvent:
        """End whatever is left of a lane's group and give its last event, with the exit code found after the end."""
        self._remove(lane_id, lane)
        code = lane.process.returncode
        how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return LaneEvent(lane_id, LaneEventKind.GONE, message=f"{reason}; {how}" if reason else how)

    def _remove(self, lane_id: LaneId, lane: _Lane) -> None:
        end_groups((lane.process.pid,), _END_GRACE)
        self._reap(lane_id, lane)

    def _reap(self, lane_id: LaneId, lane: _Lane) -> None:
        lane.connection.close()
        try:
            lane.process.wait(timeout=_END_GRACE.total_seconds())
        except subprocess.TimeoutExpired:
            # It has not come so far as to lead a group of its own.
            lane.process.kill()
            lane.process.wait()
        if lane.pidfd is not None:
            os.close(lane.pidfd)
        self._lanes.pop(lane_id, None)

    def end(self, lanes: tuple[LaneId, ...], grace: timedelta) -> None:
        known = [(lane_id, self._lanes[lane_id]) for lane_id in lanes if lane_id in self._lanes]
        end_groups([lane.process.pid for _, lane in known], grace)
        for lane_id, lane in known:
            self._reap(lane_id, lane)

    def close(self, grace: timedelta) -> None:
        stop = encode_frame({"kind": "stop"})
        for lane in self._lanes.values():
            with contextlib.suppress(OSError):
                lane.connection.send_bytes(stop)
        deadline = time.monotonic() + grace.total_seconds()
        while time.monotonic() < deadline and any(
            lane.process.poll() is None for lane in self._lanes.values()
        ):
            pidfds = [lane.pidfd for lane in self._lanes.values() if lane.pidfd is not None]
            wait(pidfds, _CLOSE_LOOK_SECONDS)
        self.end(tuple(self._lanes), grace)


def encode_frame_or_refuse(frame: Frame) -> bytes:
    """Serialise the bootstrap before anything is claimed.

    Errors: InternalError for what is not plain data.
    """
    try:
        return encode_frame(frame)
    except FrameError as error:
        raise InternalError(
            f"the lanes' bootstrap is not plain data: {error}", next_step="report it with the log"
        ) from error


def _event(lane_id: LaneId, kind: LaneEventKind, frame: Frame) -> LaneEvent:
    def count(name: str) -> int:
        value = frame.get(name, 0)
        if not isinstance(value, int) or value < 0:
            raise FrameError(f"a frame's {name} is no count")
        return value

    def text(name: str) -> str | None:
        value = frame.get(name)
        return value if isinstance(value, str) else None

    return LaneEvent(
        lane=lane_id,
        kind=kind,
        chunk_index=count("chunk_index") or None,
        rows_extracted=count("rows_extracted"),
        rows_loaded=count("rows_loaded"),
        bytes_moved=count("bytes_moved"),
        content_digest=text("content_digest"),
        code=text("code"),
        message=text("message") or "",
        where=text("where"),
        next_step=text("next_step"),
    )


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
