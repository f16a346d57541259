"""The coordinator's end of its lanes: start, hand out, listen to pipes and process ends as one observation, end groups."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from multiprocessing.connection import wait
from typing import cast

from dpone_contract.errors import InternalError
from dpone_runtime.adapters.lanes.containment import end_groups
from dpone_runtime.adapters.lanes.frames import Frame, FrameError, encode_frame, load_frame
from dpone_runtime.adapters.lanes.pipe import LanePipe
from dpone_runtime.adapters.lanes.warden import LaneWarden
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId

SILENCE = timedelta(seconds=90)
OPEN_WITHIN = timedelta(seconds=60)
_END_GRACE = timedelta(seconds=3)
_EXIT_WAIT = timedelta(seconds=1)
_EXIT_LOOK_SECONDS = 0.02


class _Stage(StrEnum):
    """How far a lane has come: started, alone in its process group, open."""

    STARTED = "started"
    CONTAINED = "contained"
    OPEN = "open"


@dataclass
class _Lane:
    """`chunk_index` is the chunk that it was given and has not answered for."""

    process: subprocess.Popen[bytes]
    pipe: LanePipe
    heard_at: float
    pidfd: int | None
    stage: _Stage = _Stage.STARTED
    chunk_index: int | None = None


class ProcessLanePool:
    """`LanePool` of child processes. `opener` is `module:function`, `bootstrap` plain data that it is called with.

    `silence` is how long a lane may say nothing before it is ended.
    """

    def __init__(self, opener: str, bootstrap: dict[str, object], silence: timedelta = SILENCE) -> None:
        self._opening = encode_frame_or_refuse({"kind": "open", "opener": opener, "bootstrap": bootstrap})
        self._silence = silence
        self._lanes: dict[LaneId, _Lane] = {}
        self._count = 0
        self._warden: LaneWarden | None = None

    def start(self) -> LaneId:
        self._warden = self._warden or LaneWarden()
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
        self._warden.watch(process.pid)
        self._count += 1
        lane = LaneId(self._count)
        self._lanes[lane] = _Lane(process, LanePipe(ours), time.monotonic(), _pidfd(process.pid))
        return lane

    def send(self, lane: LaneId, request: LoadRequest) -> None:
        found = self._lanes[lane]
        found.chunk_index = request.chunk.index
        found.pipe.send(encode_frame_or_refuse(load_frame(request)))

    def poll(self, timeout: timedelta) -> tuple[LaneEvent, ...]:
        waited: list[int] = []
        for lane in self._lanes.values():
            lane.pipe.flush()
            waited.append(lane.pipe.fileno())
            if lane.pidfd is not None:
                waited.append(lane.pidfd)
        wait(waited, timeout.total_seconds())
        events: list[LaneEvent] = []
        ends: dict[LaneId, str] = {}
        for lane_id, lane in self._lanes.items():
            if (reason := self._observe(lane_id, lane, events)) is not None:
                ends[lane_id] = reason
        return (*events, *self._bury(ends))

    def _observe(self, lane_id: LaneId, lane: _Lane, events: list[LaneEvent]) -> str | None:
        """Take what a lane has said; give why it has to be buried, empty where it ended by itself, None where it lives."""
        ended = lane.process.poll() is not None
        try:
            for frame in lane.pipe.frames():
                events.extend(self._hear(lane_id, lane, frame))
        except FrameError as error:
            return str(error)
        if ended or lane.pipe.ended:
            return ""
        limit = self._silence if lane.stage is not _Stage.STARTED else max(self._silence, OPEN_WITHIN)
        if time.monotonic() - lane.heard_at > limit.total_seconds():
            return f"it was silent for {limit.total_seconds():.0f} s"
        return None

    def _hear(self, lane_id: LaneId, lane: _Lane, frame: Frame) -> list[LaneEvent]:
        lane.heard_at = time.monotonic()
        if frame["kind"] == "heartbeat":
            return []
        if frame["kind"] == "ready":
            self._contain(lane, frame)
            return []
        event = _event(lane_id, frame)
        if event.kind in (LaneEventKind.OPENED, LaneEventKind.BROKEN):
            _require(lane.stage is _Stage.CONTAINED, "it opens twice, or before it is contained")
            lane.stage = _Stage.OPEN
            return [event]
        _require(
            event.chunk_index is not None and event.chunk_index == lane.chunk_index,
            "it speaks of a chunk that it was not given",
        )
        if event.kind is not LaneEventKind.PROGRESS:
            lane.chunk_index = None
        return [event]

    def _contain(self, lane: _Lane, frame: Frame) -> None:
        """Let a lane open, once it and the kernel say that it leads its own process group."""
        pid = lane.process.pid
        _require(lane.stage is _Stage.STARTED, "it is ready twice")
        told = (frame.get("pid"), frame.get("process_group"))
        _require(
            told == (pid, pid) and _group_of(pid) in (pid, None),
            "it is not the leader of its own process group",
        )
        lane.stage = _Stage.CONTAINED
        lane.pipe.send(self._opening)

    def _bury(self, ends: Mapping[LaneId, str]) -> list[LaneEvent]:
        """End whatever is left of lanes' groups, all at once, and give their last events with the exit codes found then."""
        lanes = {lane_id: self._lanes[lane_id] for lane_id in ends}
        # A lane that ends closes its pipe first; its own exit code says more than our signal would.
        self._wait_for_exits([lanes[lane_id] for lane_id, reason in ends.items() if not reason], _EXIT_WAIT)
        self.end(tuple(ends), _END_GRACE)
        events = []
        for lane_id, reason in ends.items():
            how = _how_ended(lanes[lane_id].process)
            message = f"{reason}; {how}" if reason else how
            events.append(LaneEvent(lane_id, LaneEventKind.GONE, message=message))
        return events

    def end(self, lanes: tuple[LaneId, ...], grace: timedelta) -> None:
        known = [(lane_id, self._lanes[lane_id]) for lane_id in lanes if lane_id in self._lanes]
        if not known:
            return
        for _, lane in known:
            if lane.stage is _Stage.STARTED:
                # It may not lead a group yet, and has started nothing.
                lane.process.kill()
        end_groups([lane.process.pid for _, lane in known], grace)
        if self._warden is not None:
            for _, lane in known:
                self._warden.forget(lane.process.pid)
        self._wait_for_exits([lane for _, lane in known], _END_GRACE)
        for lane_id, lane in known:
            lane.pipe.close()
            if lane.pidfd is not None:
                os.close(lane.pidfd)
            del self._lanes[lane_id]

    def close(self, grace: timedelta) -> None:
        stop = encode_frame({"kind": "stop"})
        for lane in self._lanes.values():
            lane.pipe.send(stop)
        self._wait_for_exits(list(self._lanes.values()), grace)
        self.end(tuple(self._lanes), grace)
        if self._warden is not None:
            self._warden.close()
            self._warden = None

    @staticmethod
    def _wait_for_exits(lanes: Sequence[_Lane], within: timedelta) -> None:
        """Wait for several processes, all within one deadline, and reap those that have ended."""
        deadline = time.monotonic() + within.total_seconds()
        while living := [lane for lane in lanes if lane.process.poll() is None]:
            if time.monotonic() > deadline:
                return
            wait([lane.pidfd for lane in living if lane.pidfd is not None], _EXIT_LOOK_SECONDS)


def encode_frame_or_refuse(frame: Frame) -> bytes:
    """Serialise what a lane is to be told.

    Errors: InternalError for what is not plain data, or too much of it.
    """
    try:
        return encode_frame(frame)
    except FrameError as error:
        raise InternalError(
            f"what a lane is to be told is not plain data: {error}", next_step="report it with the log"
        ) from error


def _event(lane_id: LaneId, frame: Frame) -> LaneEvent:
    def count(name: str) -> int:
        value = frame.get(name, 0)
        _require(isinstance(value, int) and value >= 0, f"a frame's {name} is no count")
        return cast("int", value)

    def text(name: str) -> str | None:
        value = frame.get(name)
        return value if isinstance(value, str) else None

    try:
        kind = LaneEventKind(str(frame["kind"]))
    except ValueError:
        kind = LaneEventKind.GONE
    # That a lane is gone is for its process to prove.
    _require(kind is not LaneEventKind.GONE, f"a frame is of the unknown kind {frame['kind']!r:.40}")
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
        transient=frame.get("transient") is True,
    )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise FrameError(otherwise)


def _how_ended(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code is None:
        return "its process cannot be ended"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
