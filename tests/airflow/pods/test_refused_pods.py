"""What a cluster refuses is not tried again, what it is too busy for is, and what it cannot start says why."""

import pytest

from tests.airflow.pods.pod_runs import TASK, build
from tests.kubernetes_api.orders import Call, CallOrder, PodFault, PodOrder

# By item: the calls that fail in its attempts, what is said of it, and how many attempts it gets of three.
DENIED = "DPONE_POD_REFUSED: Kubernetes does not allow it: HTTP 403"
DAMAGED = "the run did not pass: DPONE_RUN_CONTEXT_INVALID: the process argument is damaged"
REFUSED = {
    0: (CallOrder(Call.CREATE, 403, message="pods is forbidden"), f"{DENIED}: pods is forbidden"),
    1: (
        CallOrder(Call.CREATE, 422, message="spec is wrong"),
        "DPONE_POD_REFUSED: Kubernetes finds the pod invalid: HTTP 422: spec is wrong",
    ),
    2: (CallOrder(Call.EXEC, 403, message="pods/exec is forbidden"), DENIED),
    3: (PodOrder(PodFault.COMMAND, command=("dpone", "run", "--process", "damaged")), DAMAGED),
}
BUSY = {
    0: CallOrder(Call.READ, 500, times=2),
    1: CallOrder(Call.READ, 429, times=2),
    2: CallOrder(Call.DELETE, 500, times=1),
    3: CallOrder(Call.LOG, 500, times=1),
    4: CallOrder(Call.EXEC, 500, times=1),
}


def order_for_items(pods, orders):
    for index, order in orders.items():
        pods.api.order(type(order)(**{**vars(order), "selector": f"map_index={index}"}))


@pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])
def test_what_is_refused_is_not_tried_again(pods, deferrable):
    order_for_items(pods, {index: order for index, (order, _) in REFUSED.items()})
    finished = pods.run(
        build(chunks=len(REFUSED) + 1, items=len(REFUSED) + 1), retries=2, pod={"deferrable": deferrable}
    )
    assert "failed" == finished.state
    assert {**dict.fromkeys(REFUSED, ("failed", 1)), len(REFUSED): ("success", 1)} == {
        index: (task.state, task.try_number) for index, task in finished.tasks(TASK).items()
    }, finished.log
    for index, (_, message) in REFUSED.items():
        told = [line for line in finished.log.splitlines() if message in line]
        assert told, (index, finished.log)
        assert any(" | next: " in line for line in told)
    creations = [call.status for call in pods.api.calls("create")]
    assert sorted([403, 422, 201, 201, 201]) == sorted(creations)
    # Whose sidecar cannot be asked to end is deleted.
    pods.api.wait_for(lambda pod: pod.deleted, "map_index=2", timeout=1)
    assert not any(pod.runs_process for pod in pods.api.pods())
    # What has run is committed, whether its outcome could be read or not.
    assert {3: ("committed", 1), 5: ("committed", 1)} == pods.history.chunks()


def test_what_is_busy_is_asked_again(pods):
    order_for_items(pods, BUSY)
    pods.api.order(CallOrder(Call.LIST, 410, times=1))
    finished = pods.run(build(chunks=len(BUSY), items=len(BUSY)), retries=0)
    assert "success" == finished.state, finished.log
    assert {1} == {task.try_number for task in finished.tasks(TASK).values()}
    pods.history.require_loaded(len(BUSY))


def test_pod_that_cannot_start_says_why_and_is_tried_again(pods):
    pods.api.order(
        PodOrder(PodFault.WAIT, "try_number=1", reason="ErrImagePull", text="manifest for dpone not found")
    )
    finished = pods.run(build("internal", chunks=2), retries=1, pod={"startup_timeout_seconds": 2})
    assert "success" == finished.state, finished.log
    assert (
        "DPONE_OUTCOME_INVALID: the run left no outcome: the pod was ended or held back: ErrImagePull"
        in finished.log
    )
    assert "manifest for dpone not found" in finished.log
    assert 2 == finished.task(TASK).try_number
    pods.history.require_loaded(2)


def test_missing_secret_is_named(pods):
    pods.api.reset()
    finished = pods.run(build("internal", chunks=1), pod={"startup_timeout_seconds": 2})
    assert "failed" == finished.state
    assert 'CreateContainerConfigError, secret "databases" not found' in finished.log, finished.log
