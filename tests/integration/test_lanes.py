"""Lanes as processes: each is alone in its group, whatever it does ends it alone, and nothing of it outlives the pool."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest

from dpone_runtime.adapters.lanes.frames import FRAME_LIMIT_BYTES
from dpone_runtime.adapters.lanes.pool import ProcessLanePool
from dpone_runtime.domain.lease import OwnerToken
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId
from tests.campaign_factories import RUN_KEY, make_plan
from tests.waiting import wait_until

OPENERS = "tests.integration.small_lanes"
MOMENT = timedelta(milliseconds=100)
GRACE = timedelta(seconds=1)
PATIENCE_SECONDS = 30
KIND = LaneEventKind

MakePool = Callable[..., ProcessLanePool]


@pytest.fixture(autouse=True)
def _lanes_find_the_tests(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


@pytest.fixture
def make_pool(tmp_path: Path) -> Iterator[MakePool]:
    """Give a function that makes a pool; whatever is left of it is ended with the test."""
    pools = []

    def make(
        acts: dict[int, object] | None = None, opener: str = "open_lane", silence: float = 60
    ) -> ProcessLanePool:
        bootstrap = {
            "folder": str(tmp_path),
            "acts": {str(index): act for index, act in (acts or {}).items()},
        }
        pool = ProcessLanePool(f"{OPENERS}:{opener}", bootstrap, timedelta(seconds=silence))
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.close(GRACE)
    assert [] == _lanes_below(psutil.Process())


def _lanes_below(process: psutil.Process) -> list[psutil.Process]:
    below = process.children(recursive=True)
    return [found for found in below if "dpone_runtime.adapters.lanes.child" in found.cmdline()]


def request(index: int) -> LoadRequest:
    return LoadRequest(RUN_KEY, make_plan(20).chunk(index), 1, 1, 1, OwnerToken("owner-1"))


def events_until(pool: ProcessLanePool, kind: LaneEventKind, count: int = 1) -> list[LaneEvent]:
    """Poll until so many events of a kind have come; give all that came."""
    events: list[LaneEvent] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(event.kind is kind for event in events) < count:
        assert time.monotonic() < deadline, events
        events.extend(pool.poll(MOMENT))
    return events


def opened(pool: ProcessLanePool, count: int = 1) -> list[LaneId]:
    lanes = [pool.start() for _ in range(count)]
    assert sorted(lanes) == sorted(event.lane for event in events_until(pool, KIND.OPENED, count))
    return lanes


def run_one(pool: ProcessLanePool, index: int, kind: LaneEventKind) -> LaneEvent:
    (lane,) = opened(pool)
    pool.send(lane, request(index))
    return events_until(pool, kind)[-1]


def lane_processes(pool: ProcessLanePool) -> list[psutil.Process]:
    return [psutil.Process(lane.process.pid) for lane in pool._lanes.values()]


def told(folder: Path, text: str) -> list[int]:
    """Process ids that told something."""
    return [int(path.name.partition(".")[0]) for path in folder.glob(f"*.{text}")]


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def exited(pid: int) -> bool:
    """Whether a child of this process can be reaped; it is not."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


# Chunks.


def test_a_lane_is_the_leader_of_a_group_and_session_of_its_own(make_pool):
    pool = make_pool()
    opened(pool, 2)
    pids = [process.pid for process in lane_processes(pool)]
    assert pids == [os.getpgid(pid) for pid in pids] == [os.getsid(pid) for pid in pids]


def test_a_lane_loads_one_chunk_after_another(make_pool):
    pool = make_pool()
    (lane,) = opened(pool)
    for index in (1, 2, 3):
        pool.send(lane, request(index))
        event = events_until(pool, KIND.COMMITTED)[-1]
        assert LaneEvent(lane, KIND.COMMITTED, index, 10 * index, 10 * index, 1000) == event


@pytest.mark.parametrize(
    "act, kind, code",
    [
        ("busy", KIND.BUSY, "DPONE_BACKFILL_CHUNK_BUSY"),
        ("lease lost", KIND.LEASE_LOST, "DPONE_BACKFILL_CHUNK_LEASE_LOST"),
        ("unknown", KIND.COMMIT_UNKNOWN, None),
        ("fail", KIND.FAILED, "DPONE_BACKFILL_CHUNK_FAILED"),
    ],
)
def test_a_lane_says_how_a_chunk_ended_and_goes_on(make_pool, act, kind, code):
    pool = make_pool({1: act})
    event = run_one(pool, 1, kind)
    assert (1, code) == (event.chunk_index, event.code)
    if act == "fail":
        assert ("the rows are bad", "here", "mend them") == (event.message, event.where, event.next_step)
    pool.send(event.lane, request(2))
    assert 2 == events_until(pool, KIND.COMMITTED)[-1].chunk_index


def test_progress_is_told_in_large_steps(make_pool):
    pool = make_pool({1: "progress"})
    (lane,) = opened(pool)
    pool.send(lane, request(1))
    moved = [event.bytes_moved for event in events_until(pool, KIND.COMMITTED) if event.kind is KIND.PROGRESS]
    assert [10 * 1024 * 1024] * 2 == moved


def test_a_lane_that_is_closed_in_peace_ends_its_sessions(make_pool, tmp_path):
    pool = make_pool()
    opened(pool, 2)
    pids = [process.pid for process in lane_processes(pool)]
    pool.close(timedelta(seconds=PATIENCE_SECONDS))
    assert sorted(pids) == sorted(told(tmp_path, "closed"))
    assert all(gone(pid) for pid in pids)


# Opening.


def test_a_lane_is_contained_and_tells_of_crashes_before_it_opens_anything(make_pool):
    opened(make_pool(opener="open_contained"))


def test_a_lane_that_cannot_open_says_why(make_pool):
    pool = make_pool(opener="open_broken")
    pool.start()
    event = events_until(pool, KIND.BROKEN)[0]
    assert ("DPONE_CONNECTION_FAILED", "no route", "connection x", "look") == (
        event.code,
        event.message,
        event.where,
        event.next_step,
    )


def test_a_lane_that_finds_no_place_tries_again(make_pool, tmp_path):
    pool = make_pool(opener="open_later")
    opened(pool)
    assert (tmp_path / "refused").exists()
    assert 1 == len(lane_processes(pool))


@pytest.mark.parametrize("opener", ["no_such_function", "found_lane"])
def test_a_lane_that_breaks_while_opening_is_gone(make_pool, opener):
    pool = make_pool(opener=opener)
    pool.start()
    assert "exit code 1" in events_until(pool, KIND.GONE)[-1].message


def test_a_lane_that_freezes_while_opening_is_ended(make_pool):
    pool = make_pool(opener="open_frozen", silence=1)
    pool.start()
    process = lane_processes(pool)[0]
    assert "silent for 1 s" in events_until(pool, KIND.GONE)[-1].message
    assert gone(process.pid)


def test_a_pool_that_is_closed_while_lanes_start_leaves_none(make_pool):
    pool = make_pool()
    for _ in range(3):
        pool.start()
    pids = [process.pid for process in lane_processes(pool)]
    pool.close(timedelta(0))
    wait_until(lambda: all(gone(pid) for pid in pids), PATIENCE_SECONDS, "the end of the lanes")


# Ends.


def test_a_lane_that_is_killed_is_gone_and_its_peer_goes_on(make_pool):
    pool = make_pool({1: "die"})
    first, second = opened(pool, 2)
    pool.send(first, request(1))
    event = events_until(pool, KIND.GONE)[-1]
    assert (first, "killed by signal 9") == (event.lane, event.message)
    pool.send(second, request(2))
    assert second == events_until(pool, KIND.COMMITTED)[-1].lane


def test_what_a_lane_said_comes_before_its_end(make_pool):
    pool = make_pool({1: "tell and die"})
    (lane,) = opened(pool)
    pool.send(lane, request(1))
    process = lane_processes(pool)[0]
    wait_until(lambda: exited(process.pid), PATIENCE_SECONDS)
    assert [KIND.PROGRESS, KIND.GONE] == [event.kind for event in pool.poll(MOMENT)]


def test_lanes_that_end_together_are_one_observation_and_are_buried_within_one_deadline(make_pool, tmp_path):
    pool = make_pool({1: "bear children", 2: "bear children", 3: "bear children"})
    lanes = opened(pool, 4)
    processes = [psutil.Process(pool._lanes[lane].process.pid) for lane in lanes]
    for index, lane in enumerate(lanes, start=1):
        pool.send(lane, request(index))
    wait_until(lambda: all(exited(process.pid) for process in processes[:3]), PATIENCE_SECONDS)
    wait_until(lambda: bool(select.select([pool._lanes[lanes[3]].pipe], [], [], 0)[0]), PATIENCE_SECONDS)
    began = time.monotonic()
    events = pool.poll(MOMENT)
    # Their children ignore SIGTERM: three seconds of grace for all of them, and not nine.
    assert time.monotonic() - began < 8
    # What a peer said comes first, and nothing of it can be answered before the ends are known.
    assert [(lanes[3], KIND.COMMITTED), *((lane, KIND.GONE) for lane in lanes[:3])] == [
        (event.lane, event.kind) for event in events
    ]
    assert 3 == len(told(tmp_path, "child"))
    assert all(gone(child) for child in told(tmp_path, "child"))


def test_a_chunk_for_a_lane_that_is_gone_is_answered_by_its_end(make_pool):
    pool = make_pool()
    (lane,) = opened(pool)
    process = lane_processes(pool)[0]
    process.kill()
    wait_until(lambda: gone(process.pid), PATIENCE_SECONDS)
    pool.send(lane, request(1))
    assert lane == events_until(pool, KIND.GONE)[-1].lane


def test_an_error_that_nobody_expected_ends_the_lane(make_pool):
    pool = make_pool({1: "crash"})
    assert "exit code 1" in run_one(pool, 1, KIND.GONE).message


@pytest.mark.parametrize(
    "act, why",
    [
        ({"send": "{"}, "a frame is not JSON"),
        ({"send": "[]"}, "a frame has no kind"),
        ({"send": '{"kind": "surprise"}'}, "unknown kind 'surprise'"),
        ({"send": '{"kind": "gone"}'}, "unknown kind 'gone'"),
        ({"send": '{"kind": "committed", "chunk_index": 1, "rows_loaded": -1}'}, "rows_loaded is no count"),
        ({"send": '{"kind": "committed", "rows_loaded": "many"}'}, "rows_loaded is no count"),
        ({"send": '{"kind": "progress", "bytes_moved": NaN}'}, "bytes_moved is no count"),
        ({"send": '{"kind": "ready", "pid": 1, "process_group": 1}'}, "it is ready twice"),
        ({"send": '{"kind": "opened"}'}, "it opens twice"),
        (
            {"send": '{"kind": "committed", "chunk_index": 7, "rows_loaded": 1}'},
            "a chunk that it was not given",
        ),
        ({"send": '{"kind": "committed"}'}, "a chunk that it was not given"),
        (
            {"send": '{"kind": "progress", "chunk_index": 2, "bytes_moved": 1}'},
            "a chunk that it was not given",
        ),
        ({"send": "x", "times": FRAME_LIMIT_BYTES + 1}, "bytes was announced"),
    ],
    ids=lambda given: given["send"][:40] if isinstance(given, dict) else "",
)
def test_a_lane_that_says_nonsense_is_ended_and_its_peer_goes_on(make_pool, act, why):
    pool = make_pool({1: act})
    first, second = opened(pool, 2)
    process = psutil.Process(pool._lanes[first].process.pid)
    pool.send(first, request(1))
    events = events_until(pool, KIND.GONE)
    assert [(first, KIND.GONE)] == [(event.lane, event.kind) for event in events]
    # Ended by the pool, before it could answer for its chunk.
    assert why in events[0].message
    assert "killed by signal" in events[0].message
    assert gone(process.pid)
    pool.send(second, request(2))
    assert second == events_until(pool, KIND.COMMITTED)[-1].lane


@pytest.mark.parametrize(
    "announced, why",
    [
        (100, "silent for 1 s"),
        (FRAME_LIMIT_BYTES + 1, "bytes was announced"),
        (-1, "bytes was announced"),
    ],
)
def test_half_a_frame_keeps_nobody_waiting(make_pool, announced, why):
    pool = make_pool({1: {"announce": announced}}, "open_silent", silence=1)
    first, second = opened(pool, 2)
    pool.send(first, request(1))
    pool.send(second, request(2))
    began = time.monotonic()
    events = events_until(pool, KIND.GONE)
    if announced == 100:
        # It is heard while the other one is at half a frame.
        assert (second, KIND.COMMITTED) == (events[0].lane, events[0].kind)
    (end,) = [event for event in events if event.lane == first]
    assert KIND.GONE is end.kind
    assert why in end.message
    assert time.monotonic() - began < 20


def test_a_lane_that_talks_without_end_does_not_keep_its_peers_waiting(make_pool):
    pool = make_pool({1: "talk"})
    first, second = opened(pool, 2)
    pool.send(first, request(1))
    events_until(pool, KIND.PROGRESS)
    pool.send(second, request(2))
    assert second == events_until(pool, KIND.COMMITTED)[-1].lane
    began = time.monotonic()
    pool.poll(timedelta(0))
    assert time.monotonic() - began < 10


def test_a_lane_that_does_not_read_keeps_nobody_waiting(make_pool):
    """Its bootstrap is larger than what the kernel holds for it."""
    pool = ProcessLanePool(
        f"{OPENERS}:open_lane", {"text": "x" * 250_000, "folder": "."}, timedelta(seconds=1)
    )
    try:
        pool.start()
        process = lane_processes(pool)[0]
        # Frozen as it has said that it is ready, before it reads how to open.
        pipe = next(iter(pool._lanes.values())).pipe
        wait_until(lambda: bool(select.select([pipe], [], [], 0)[0]), PATIENCE_SECONDS)
        process.suspend()
        assert "silent for 1 s" in events_until(pool, KIND.GONE)[-1].message
        assert gone(process.pid)
    finally:
        pool.close(GRACE)


def test_a_large_bootstrap_crosses(make_pool, tmp_path):
    pool = ProcessLanePool(f"{OPENERS}:open_lane", {"text": "ж" * 120_000, "folder": str(tmp_path)})
    try:
        opened(pool)
    finally:
        pool.close(GRACE)


def test_a_lane_without_a_heartbeat_is_ended(make_pool, monkeypatch):
    pool = make_pool({1: "sleep"}, "open_silent", silence=1)
    (lane,) = opened(pool)
    process = lane_processes(pool)[0]
    pool.send(lane, request(1))
    event = events_until(pool, KIND.GONE)[-1]
    assert "silent for 1 s" in event.message
    assert gone(process.pid)


def test_a_frozen_lane_is_ended(make_pool):
    pool = make_pool({1: "sleep"}, silence=1)
    (lane,) = opened(pool)
    process = lane_processes(pool)[0]
    process.suspend()
    assert lane == events_until(pool, KIND.GONE)[-1].lane
    assert gone(process.pid)


def test_a_lane_at_work_keeps_itself_alive(make_pool, tmp_path):
    pool = make_pool({1: "sleep"}, silence=7)
    (lane,) = opened(pool)
    pool.send(lane, request(1))
    until = time.monotonic() + 8.5
    while time.monotonic() < until:
        assert () == pool.poll(MOMENT)


def test_children_of_a_lane_end_with_it(make_pool, tmp_path):
    pool = make_pool({1: "bear children"})
    assert "killed by signal 9" in run_one(pool, 1, KIND.GONE).message
    (child,) = told(tmp_path, "child")
    assert gone(child)


def test_end_ends_lanes_that_ignore_sigterm_within_one_shared_deadline(make_pool, tmp_path):
    pool = make_pool({1: "ignore SIGTERM", 2: "ignore SIGTERM", 3: "ignore SIGTERM"})
    lanes = opened(pool, 3)
    for index, lane in enumerate(lanes, start=1):
        pool.send(lane, request(index))
    wait_until(lambda: len(told(tmp_path, "at work")) == 3, PATIENCE_SECONDS)
    began = time.monotonic()
    pool.end(tuple(lanes), GRACE)
    assert time.monotonic() - began < 2.5
    assert all(gone(pid) for pid in told(tmp_path, "at work"))
    assert () == pool.poll(timedelta(0))
    pool.end(tuple(lanes), GRACE)


def test_close_is_bounded_with_a_lane_that_ignores_everything(make_pool, tmp_path):
    pool = make_pool({1: "ignore SIGTERM"})
    first, _ = opened(pool, 2)
    pool.send(first, request(1))
    wait_until(lambda: len(told(tmp_path, "at work")) == 1, PATIENCE_SECONDS)
    began = time.monotonic()
    pool.close(GRACE)
    assert time.monotonic() - began < 4
    assert gone(told(tmp_path, "at work")[0])
    assert 1 == len(told(tmp_path, "closed"))


PARENT = """
import json, sys, time
from datetime import timedelta
from dpone_runtime.adapters.lanes.pool import ProcessLanePool
from tests.integration.test_lanes import KIND, opened, request

pool = ProcessLanePool(sys.argv[1], json.loads(sys.argv[2]))
lanes = opened(pool, 2)
pool.send(lanes[0], request(1))
print(json.dumps([lane.process.pid for lane in pool._lanes.values()]), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("act", ["ignore SIGTERM", "bear a child"])
def test_lanes_and_all_that_they_started_die_with_their_parent(tmp_path, frozen, act):
    bootstrap = json.dumps({"folder": str(tmp_path), "acts": {"1": act}})
    command = [sys.executable, "-c", PARENT, f"{OPENERS}:open_lane", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = json.loads(parent.stdout.readline())
        wait_until(lambda: len(told(tmp_path, "at work")) == 1, PATIENCE_SECONDS)
        if frozen:
            os.kill(pids[1], signal.SIGSTOP)
        parent.kill()
    wait_until(lambda: all(gone(pid) for pid in pids), PATIENCE_SECONDS, "the end of the lanes")
    wait_until(
        lambda: all(gone(pid) for pid in told(tmp_path, "child")), PATIENCE_SECONDS, "of their children"
    )
    assert (act == "bear a child") == bool(told(tmp_path, "child"))


def test_a_pool_that_is_closed_leaves_no_warden(make_pool):
    pool = make_pool()
    opened(pool)
    warden = pool._warden._process
    pool.close(GRACE)
    assert 0 == warden.returncode


def test_a_pool_whose_warden_is_killed_goes_on(make_pool):
    pool = make_pool({2: "die"})
    (lane,) = opened(pool)
    pool._warden._process.kill()
    pool._warden._process.wait()
    pool.send(lane, request(2))
    events_until(pool, KIND.GONE)
    (lane,) = opened(pool)
    pool.send(lane, request(1))
    assert 1 == events_until(pool, KIND.COMMITTED)[-1].chunk_index
