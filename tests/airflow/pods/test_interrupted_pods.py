"""Whatever ends a pod in the middle of a chunk, its task fails and says why, and the retry loads each row exactly once."""

import pytest

from tests.airflow.pods.held_chunks import HeldChunks
from tests.airflow.pods.pod_runs import TASK, build
from tests.kubernetes_api.orders import Action
from tests.waiting import wait_until

GONE = "the run left no outcome: the pod is gone, and what it left with it"
# One an item, in the order of the items, and what is said of it.
ENDS = {
    Action.KILL: "(exit code 137)",
    Action.OOM_KILL: "OOMKilled, it used more memory than container_resources.limits allow (exit code 137)",
    Action.EVICT: "Evicted, its node had to make room",
    Action.LOSE: GONE,
    Action.PART: GONE,
    Action.DRAIN: "the run left no outcome",
}
ACTIONS = list(ENDS)


PARTED = ACTIONS.index(Action.PART)


def interrupt_all(pods, held):
    """Do to the pod of each item what its turn is, once it is in the middle of its chunk; they come in any order."""
    left = set(range(len(ACTIONS)))
    while left:
        wait_until(lambda: any(held.reached(index + 1) for index in left), 60, "a chunk under way")
        index = next(index for index in left if held.reached(index + 1))
        assert 1 == len(pods.api.act(ACTIONS[index], pod_of(index, 1)))
        left.remove(index)
        if index != PARTED:
            pods.api.wait_for(lambda pod: not pod.runs_process, pod_of(index, 1), what="the container's end")
            # As if ninety seconds had passed without a renewal.
            held.lapse_lease(index + 1)
            held.release(index + 1)
    # What the API has forgotten writes on, while the next attempt waits for its lease.
    pods.api.wait_for(lambda pod: "running" in pod.base_state, pod_of(PARTED, 2))
    held.release(PARTED + 1)


def pod_of(map_index, try_number):
    return f"map_index={map_index},try_number={try_number}"


@pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])
def test_pod_that_was_ended_in_the_middle_is_retried_and_loads_once(pods, deferrable):
    held = HeldChunks(pods.history, len(ACTIONS))
    pods.start(build(chunks=len(ACTIONS), items=len(ACTIONS)), retries=1, pod={"deferrable": deferrable})
    interrupt_all(pods, held)
    finished = pods.airflow.finish_run()
    assert "success" == finished.state, finished.log
    for index, message in enumerate(ENDS.values()):
        told = [line for line in finished.log.splitlines() if f"try 1, mapping item {index} " in line]
        assert any(message in line for line in told), (ACTIONS[index], told, finished.log)
        assert any("committed chunks will be skipped on retry" in line for line in told)
    assert dict.fromkeys(range(len(ACTIONS)), 2) == {
        index: task.try_number for index, task in finished.tasks(TASK).items()
    }
    pods.history.require_loaded(len(ACTIONS))
    assert {index + 1: ("committed", 1 if index == PARTED else 2) for index in range(len(ACTIONS))} == (
        pods.history.chunks()
    )
