"""The messages between coordinator and lane: bounded JSON objects; whatever else comes ends the lane."""

from __future__ import annotations

import json
import struct
from multiprocessing import Pipe

import pytest

from dpone_contract.errors import InternalError
from dpone_runtime.adapters.lanes.frames import (
    FRAME_LIMIT_BYTES,
    FrameError,
    encode_frame,
    load_frame,
    read_frame,
    request_of_frame,
)
from dpone_runtime.adapters.lanes.pool import ProcessLanePool
from dpone_runtime.domain.lease import OwnerToken
from dpone_runtime.ports.connectors import LoadRequest
from tests.campaign_factories import RUN_KEY, make_plan

REQUEST = LoadRequest(RUN_KEY, make_plan().chunk(2), 3, 4, 5, OwnerToken("owner-1"))


@pytest.fixture
def pipe():
    ours, theirs = Pipe()
    yield ours, theirs
    ours.close()
    theirs.close()


def received(pipe, data: bytes):
    pipe[0].send_bytes(data)
    return read_frame(pipe[1])


def test_a_request_survives_the_crossing(pipe):
    assert REQUEST == request_of_frame(received(pipe, encode_frame(load_frame(REQUEST))))


@pytest.mark.parametrize("name", [name for name in load_frame(REQUEST) if name != "kind"])
def test_a_request_without_one_of_its_fields_is_refused(name):
    frame = {key: value for key, value in load_frame(REQUEST).items() if key != name}
    with pytest.raises(FrameError, match="incomplete"):
        request_of_frame(frame)


def test_a_request_whose_number_is_none_is_refused():
    with pytest.raises(FrameError):
        request_of_frame({**load_frame(REQUEST), "revision": "many"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes", {1, 2}])
def test_what_json_cannot_hold_is_not_sent(value):
    with pytest.raises(FrameError, match="cannot be serialised"):
        encode_frame({"kind": "progress", "value": value})


def test_a_frame_may_be_as_large_as_the_limit_and_no_larger(pipe):
    rest = len(encode_frame({"kind": "x", "value": ""}))
    encode_frame({"kind": "x", "value": "x" * (FRAME_LIMIT_BYTES - rest)})
    with pytest.raises(FrameError, match="bytes, more than"):
        encode_frame({"kind": "x", "value": "x" * (FRAME_LIMIT_BYTES - rest + 1)})


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[" * 100_000, b"[]", b"null", b'"x"', b"{}", b'{"kind": 1}', b"\xff"]
)
def test_what_is_no_frame_is_refused(pipe, data):
    with pytest.raises(FrameError):
        received(pipe, data)


def test_an_oversized_message_is_refused_without_being_read(pipe):
    # More than a pipe holds: nobody reads it, so the write is not waited for.
    pipe[0].send_bytes(json.dumps({"kind": "x", "value": "x" * 10}).encode())
    assert "x" == read_frame(pipe[1])["kind"]
    pipe[0]._send(struct.pack("!i", FRAME_LIMIT_BYTES + 1))
    with pytest.raises(FrameError, match="too large"):
        read_frame(pipe[1])


def test_the_other_end_that_is_gone_is_the_end(pipe):
    pipe[0].close()
    with pytest.raises(EOFError):
        read_frame(pipe[1])


@pytest.mark.parametrize(
    "bootstrap", [{"connection": object()}, {"size": float("nan")}, {"text": "x" * 1_100_000}]
)
def test_a_bootstrap_that_is_no_plain_data_fails_before_any_lane_is_started(bootstrap):
    with pytest.raises(InternalError, match="plain data"):
        ProcessLanePool("nowhere:nothing", bootstrap)
