"""The messages between coordinator and lane: one bounded JSON object a frame, never a pickled object."""

from __future__ import annotations

import json
from multiprocessing.connection import Connection

from dpone_contract.chunk_plan import Chunk, RunKey
from dpone_runtime.domain.lease import OwnerToken
from dpone_runtime.ports.connectors import LoadRequest

FRAME_LIMIT_BYTES = 1024 * 1024
Frame = dict[str, object]


class FrameError(Exception):
    """A frame is malformed or too large: its sender can no longer be trusted to be in step."""


def encode_frame(frame: Frame) -> bytes:
    """Serialise a frame.

    Errors: FrameError for what JSON cannot hold, or beyond 1 MiB.
    """
    try:
        # Names in their own letters: escaped, the columns of a wide table would not fit.
        text = json.dumps(frame, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        data = text.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        raise FrameError(f"a {frame.get('kind')} frame cannot be serialised: {error}") from error
    if len(data) > FRAME_LIMIT_BYTES:
        raise FrameError(f"a {frame.get('kind')} frame has {len(data)} bytes, more than {FRAME_LIMIT_BYTES}")
    return data


def read_frame(connection: Connection[object, object]) -> Frame:
    """Wait for one frame, as a lane does.

    Errors: FrameError; EOFError when the other end is gone.
    """
    try:
        data = connection.recv_bytes(FRAME_LIMIT_BYTES)
    except OSError as error:
        # Connection reports an oversized message so, and closes itself.
        raise FrameError("a frame is too large, or the pipe broke") from error
    return parse_frame(data)


def parse_frame(data: bytes) -> Frame:
    """Read one frame's bytes.

    Errors: FrameError.
    """
    try:
        frame = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame is not JSON") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise FrameError("a frame has no kind")
    return frame


def load_frame(request: LoadRequest) -> Frame:
    """Give the frame that hands a chunk to a lane."""
    return {
        "kind": "load",
        "run_key": request.run_key,
        "chunk_index": request.chunk.index,
        "lower": request.chunk.lower,
        "upper": request.chunk.upper,
        "upper_inclusive": request.chunk.upper_inclusive,
        "idempotency_key": request.chunk.idempotency_key,
        "round": request.round,
        "attempt": request.attempt,
        "revision": request.revision,
        "owner": request.owner,
    }


def request_of_frame(frame: Frame) -> LoadRequest:
    """Read what `load_frame` wrote.

    Errors: FrameError.
    """
    try:
        chunk = Chunk(
            index=int(str(frame["chunk_index"])),
            lower=str(frame["lower"]),
            upper=str(frame["upper"]),
            upper_inclusive=bool(frame["upper_inclusive"]),
            idempotency_key=str(frame["idempotency_key"]),
        )
        return LoadRequest(
            run_key=RunKey(str(frame["run_key"])),
            chunk=chunk,
            round=int(str(frame["round"])),
            attempt=int(str(frame["attempt"])),
            revision=int(str(frame["revision"])),
            owner=OwnerToken(str(frame["owner"])),
        )
    except (KeyError, ValueError) as error:
        raise FrameError("a load frame is incomplete") from error
