"""An outcome that is not this attempt's own, whole and passed fails its task; the retry finds the rows and moves none again."""

import pytest

from dpone_contract.mapping_item import mapping_item
from dpone_contract.outcome import OUTCOME_SIZE_LIMIT_BYTES, AttemptIdentity
from dpone_contract.process import plan_campaign
from tests.airflow.pods.pod_runs import TASK, build
from tests.factories import make_outcome
from tests.kubernetes_api.orders import PodFault, PodOrder

# In the order of the items; what attempt 1 of each leaves, and what is said of it.
FAULTS = {
    PodOrder(PodFault.TRUNCATE_OUTCOME, number=400): "the outcome is malformed: it is not JSON (exit code 0)",
    PodOrder(PodFault.REPLACE_OUTCOME, text="x" * (OUTCOME_SIZE_LIMIT_BYTES + 5)): (
        f"the outcome has {OUTCOME_SIZE_LIMIT_BYTES + 1} bytes, more than {OUTCOME_SIZE_LIMIT_BYTES}"
    ),
    PodOrder(PodFault.REMOVE_OUTCOME): "the run left no outcome (exit code 0)",
    PodOrder(PodFault.EXIT_CODE, number=1): "the outcome says passed, but the run ended with 1",
    PodOrder(PodFault.SIDECAR_FAILS): "the run left no outcome",
    PodOrder(
        PodFault.REPLACE_OUTCOME, reason="foreign"
    ): "the outcome is of another DAG run: 'another' instead of",
}


def foreign_outcome(process):
    """What the first item of another run has left."""
    plan = plan_campaign(process).mapping_plan(process.mapping)
    attempt = AttemptIdentity(dag_id="outcomes", dag_run_id="another", try_number=1)
    return make_outcome(process, mapping_item(plan, plan.items[0]), attempt=attempt).model_dump_json(
        by_alias=True
    )


# The judgement is the same in both modes; what differs is how a document, and a sidecar without one, is come to.
MODES = {"sync": list(FAULTS), "deferrable": list(FAULTS)[:5:2]}


@pytest.mark.parametrize("mode", MODES)
def test_evidence_that_is_not_whole_and_own_fails_its_item(pods, mode):
    faults = MODES[mode]
    process = build(chunks=len(faults), items=len(faults), max_active=2)
    for index, order in enumerate(faults):
        text = foreign_outcome(process) if order.reason else order.text
        pods.api.order(
            PodOrder(order.fault, f"try_number=1,map_index={index}", text=text, number=order.number)
        )
    finished = pods.run(process, dag_id="outcomes", retries=1, pod={"deferrable": mode == "deferrable"})
    assert "success" == finished.state, finished.log
    for order in faults:
        assert FAULTS[order] in finished.log
    assert dict.fromkeys(range(len(faults)), 2) == {
        index: task.try_number for index, task in finished.tasks(TASK).items()
    }
    pods.history.require_loaded(len(faults))
    assert {"committed"} == {status for status, _ in pods.history.chunks().values()}
    assert {1} == {attempt for _, attempt in pods.history.chunks().values()}, "attempt 2 moved rows again"
