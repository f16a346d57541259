"""Pods of two Airflows on one campaign, and pods whose worker is gone: each row once, and no more leases than allowed."""

import signal

import pytest

from tests.airflow.pods.held_chunks import HeldChunks
from tests.airflow.pods.pod_runs import TASK, build
from tests.waiting import wait_until

CHUNKS = 4


@pytest.mark.parametrize("deferrable, max_active", [(False, 2), (True, 1)], ids=["sync-2", "deferrable-1"])
def test_two_operators_at_once_on_one_campaign(pods, other, deferrable, max_active):
    held = HeldChunks(pods.history, CHUNKS)
    process = build(chunks=CHUNKS, items=2, max_active=max_active)
    for airflow in (pods.airflow, other):
        pods.deploy(process, pod={"deferrable": deferrable}, airflow=airflow)
        airflow.start_run("history")
    wait_until(
        lambda: len([pod for pod in pods.api.pods() if "running" in pod.base_state]) == 2,
        60,
        "two pods at once",
    )
    wait_until(
        lambda: pods.history.has_ledger_rows() and pods.history.live_leases() == max_active,
        60,
        "their leases",
    )
    leases, left = set(), set(range(1, CHUNKS + 1))
    while left:
        wait_until(lambda: any(map(held.reached, left)), 60, "a chunk under way")
        leases.add(pods.history.live_leases())
        index = next(filter(held.reached, left))
        left.remove(index)
        held.release(index)
    ended = [airflow.finish_run() for airflow in (pods.airflow, other)]
    assert ["success"] * 2 == [finished.state for finished in ended], [finished.log for finished in ended]
    assert max_active == max(leases)
    pods.history.require_loaded(CHUNKS)
    assert {("committed", 1)} == set(pods.history.chunks().values()), "no chunk was loaded twice"


def go_on(other, run_id):
    """Let a scheduler have missed the task's process, and somebody have cleared the task."""
    other.mark("history", run_id, TASK, -1, "failed")
    other.start_run("history", run_id, [(TASK, -1)])


def test_worker_that_is_asked_to_end_ends_its_pod_and_says_so(pods, other):
    held = HeldChunks(pods.history, 1)
    pods.deploy(build("internal", chunks=1), airflow=other)
    other.start_run("history")
    held.wait_for(1)
    other.signal(signal.SIGTERM)
    pods.api.wait_for(lambda pod: pod.deleted)
    # Airflow 2 ends as a whole, Airflow 3 goes on with what is next.
    other.wait_for_end()
    log = other.log()
    assert "DPONE_INTERRUPTED: Airflow ends this task, and its pod with it" in log
    assert "next: clear the task to run it again; committed chunks will be skipped" in log
    pods.api.wait_for(lambda pod: not pod.runs_process)
    held.lapse_lease(1)
    held.release(1)
    go_on(other, other.last_run("history"))
    finished = other.finish_run()
    assert "success" == finished.state, finished.log
    pods.history.require_loaded(1)
    assert {1: ("committed", 2)} == pods.history.chunks()


def test_leftover_pod_is_ended_before_the_next_attempt_starts_its_own(pods, other):
    held = HeldChunks(pods.history, 1)
    pods.deploy(build("internal", chunks=1), retries=1, airflow=other)
    other.start_run("history")
    held.wait_for(1)
    other.signal(signal.SIGKILL)
    other.wait()
    assert pods.api.pod("try_number=1").runs_process, "nobody has told the pod"
    go_on(other, other.last_run("history"))
    left = pods.api.wait_for(lambda pod: pod.deleted, "try_number=1")
    pods.api.wait_for(lambda pod: pod.gone, "try_number=1")
    # As if ninety seconds had passed: a chunk under way was ended with its pod.
    held.lapse_lease(1)
    held.release(1)
    finished = other.finish_run()
    assert "success" == finished.state, finished.log
    assert (
        f"the pod {left.name} of an earlier attempt is ended before this one starts its own" in finished.log
    )
    kinds = [call.call for call in pods.api.calls() if call.call in {"create", "delete"}]
    assert ["create", "delete", "create"] == kinds[:3]
    assert ["1", "2"] == [pod.labels["try_number"] for pod in pods.api.pods()]
    pods.history.require_loaded(1)
    assert {1: ("committed", 2)} == pods.history.chunks()
