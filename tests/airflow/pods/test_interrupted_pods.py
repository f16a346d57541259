"""Whatever ends a pod in the middle of a chunk, its task fails and says why, and the retry loads each row exactly once."""

import pytest

from tests.airflow.pods.held_chunks import HeldChunks
from tests.airflow.pods.pod_runs import TASK, build
from tests.kubernetes_api.orders import Action
from tests.waiting import wait_until

GONE = "the run left no outcome: the pod is gone, and what it left with it"
# What is said of each.
ENDS = {
    Action.KILL: "(exit code 137)",
    Action.OOM_KILL: "OOMKilled, it used more memory than container_resources.limits allow (exit code 137)",
    Action.EVICT: "Evicted, its node had to make room",
    Action.LOSE: GONE,
    Action.PART: GONE,
    Action.DRAIN: "the run left no outcome",
}
# One an item, in the order of the items. A pod that is gone costs Airflow's own patience, so each mode meets a part of them.
MODES = {
    "sync": [Action.KILL, Action.EVICT, Action.LOSE, Action.DRAIN],
    "deferrable": [Action.KILL, Action.OOM_KILL, Action.LOSE, Action.PART],
}


def interrupt_all(pods, held, actions):
    """Do to the pod of each item what its turn is, once it is in the middle of its chunk; they come in any order."""
    left = dict(enumerate(actions))
    while left:
        wait_until(lambda: any(held.reached(index + 1) for index in left), 60, "a chunk under way")
        index = next(index for index in left if held.reached(index + 1))
        action = left.pop(index)
        assert 1 == len(pods.api.act(action, pod_of(index, 1)))
        if action is not Action.PART:
            pods.api.wait_for(lambda pod: not pod.runs_process, pod_of(index, 1), what="the container's end")
            # As if ninety seconds had passed without a renewal.
            held.lapse_lease(index + 1)
            held.release(index + 1)


def let_parted_commit(pods, held, index):
    """What the API has forgotten writes on, while the next attempt waits for its lease."""
    pods.api.wait_for(lambda pod: "running" in pod.base_state, pod_of(index, 2))
    held.release(index + 1)


def pod_of(map_index, try_number):
    return f"map_index={map_index},try_number={try_number}"


@pytest.mark.parametrize("mode", MODES)
def test_pod_that_was_ended_in_the_middle_is_retried_and_loads_once(pods, mode):
    actions = MODES[mode]
    held = HeldChunks(pods.history, len(actions))
    process = build(chunks=len(actions), items=len(actions))
    pods.start(process, retries=1, pod={"deferrable": mode == "deferrable"})
    interrupt_all(pods, held, actions)
    if Action.PART in actions:
        let_parted_commit(pods, held, actions.index(Action.PART))
    finished = pods.airflow.finish_run()
    assert "success" == finished.state, finished.log
    for index, action in enumerate(actions):
        told = [line for line in finished.log.splitlines() if f"try 1, mapping item {index} " in line]
        assert any(ENDS[action] in line for line in told), (action, told, finished.log)
        assert any("committed chunks will be skipped on retry" in line for line in told)
    assert dict.fromkeys(range(len(actions)), 2) == {
        index: task.try_number for index, task in finished.tasks(TASK).items()
    }
    pods.history.require_loaded(len(actions))
    assert {
        index + 1: ("committed", 1 if action is Action.PART else 2) for index, action in enumerate(actions)
    } == pods.history.chunks()
