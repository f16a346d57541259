"""A campaign whose items fail: hooks, gate and outlets wait for evidence, and nothing that is committed moves again."""

import pytest

from airflow_provider_dpone.version_compat import AIRFLOW_3
from dpone_contract.pack import Hook, Hooks
from tests.airflow.pods.pod_runs import GATE, TASK, build
from tests.integration.campaigns import day
from tests.kubernetes_api.orders import PodFault, PodOrder

CHUNKS, MIDDLE = 3, 1
ASSET = "postgres://warehouse/target/history"
HOOKS = Hooks(
    pre=(Hook(name="before", command=("sh", "-c", "echo pre hook ran")),),
    post=(Hook(name="after", command=("sh", "-c", "echo post hook ran")),),
)
REFUSES_MIDDLE = f"ALTER TABLE target.history ADD CONSTRAINT refuses CHECK (day <> '{day(MIDDLE + 1)}')"
MENDED = "ALTER TABLE target.history DROP CONSTRAINT refuses"


def versions(pods):
    return {index: pods.history.versions(index) for index in range(1, CHUNKS + 1)}


def states(finished):
    return {
        task_id: [task.state for _, task in sorted(finished.tasks(task_id).items())]
        for task_id in ("before", TASK, GATE, "after")
    }


@pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])
def test_middle_item_that_fails_is_mended_and_retried_alone(pods, deferrable):
    pods.history.sql(REFUSES_MIDDLE)
    second = pods.api.order(PodOrder(PodFault.HOLD, f"map_index={MIDDLE},try_number=2"))
    pods.start(build(chunks=CHUNKS), retries=1, hooks=HOOKS, outlets=[ASSET], pod={"deferrable": deferrable})
    pods.api.wait_for(lambda pod: True, "try_number=2")
    before = versions(pods)
    assert [True, False, True] == [bool(rows) for rows in before.values()], "the others commit"
    pods.history.sql(MENDED)
    pods.api.lift(second)
    finished = pods.airflow.finish_run()
    assert "success" == finished.state, finished.log
    assert "DPONE_OUTCOME_NOT_PASSED: the run did not pass: DPONE_BACKFILL_CHUNK_FAILED" in finished.log
    assert "refuses" in finished.log, "the run's own error is shown"
    assert [1, 2, 1] == [task.try_number for _, task in sorted(finished.tasks(TASK).items())]
    pods.history.require_loaded(CHUNKS)
    after = versions(pods)
    assert {index: before[index] for index in (1, 3)} == {index: after[index] for index in (1, 3)}
    assert {1: 1, 2: 2, 3: 1} == {index: attempt for index, (_, attempt) in pods.history.chunks().items()}
    assert {"before": ["success"], TASK: ["success"] * 3, GATE: ["success"], "after": ["success"]} == states(
        finished
    )
    for task_id, said in (("before", "pre hook ran"), ("after", "post hook ran")):
        assert [(said,)] == [pod.log for pod in pods.api.pods(f"task_id={task_id}")]
        assert said in finished.log
    assert [GATE] == finished.asset_events()


def test_gate_passes_by_evidence_and_not_by_a_mark(pods):
    pods.history.sql(REFUSES_MIDDLE)
    failed = pods.run(build(chunks=CHUNKS), hooks=HOOKS, outlets=[ASSET])
    assert "failed" == failed.state
    upstream = ["upstream_failed"]
    assert {
        "before": ["success"],
        TASK: ["success", "failed", "success"],
        GATE: upstream,
        "after": upstream,
    } == (states(failed))
    pods.history.sql(MENDED)

    pods.airflow.mark(failed.dag_id, failed.run_id, TASK, MIDDLE, "success")
    refused = pods.airflow.clear(failed, (GATE, -1), ("after", -1))
    assert (["failed"], upstream) == (states(refused)[GATE], states(refused)["after"]), refused.log
    assert "DPONE_OUTCOME_NOT_PASSED: nothing says that the campaign is complete" in refused.log
    assert f"without an outcome, as after being marked successful by hand: {day(MIDDLE + 1)}" in refused.log
    assert [] == refused.asset_events()

    before = versions(pods)
    passed = pods.airflow.clear(refused, (TASK, MIDDLE), (GATE, -1), ("after", -1))
    assert "success" == passed.state, passed.log
    assert [GATE] == passed.asset_events()
    pods.history.require_loaded(CHUNKS)
    assert [before[1], before[3]] == [versions(pods)[1], versions(pods)[3]]

    before = versions(pods)
    cleared = pods.airflow.clear(passed, *((TASK, index) for index in range(CHUNKS)))
    assert "success" == cleared.state, cleared.log
    assert before == versions(pods), "clearing a complete campaign moves no row"
    assert [0, 0, 0] == [outcome["backfill"]["chunks_committed"] for outcome in cleared.xcoms(TASK).values()]


@pytest.mark.parametrize("items", [2, None], ids=["fewer items", "internal"])
def test_a_pack_that_was_changed_between_two_attempts_comes_to_its_end(pods, items):
    pods.history.sql(REFUSES_MIDDLE)
    failed = pods.run(build(chunks=CHUNKS), hooks=HOOKS, outlets=[ASSET])
    assert "failed" == failed.state
    pods.history.sql(MENDED)
    changed = build("internal", chunks=CHUNKS) if items is None else build(chunks=CHUNKS, items=items)
    pods.deploy(changed, hooks=HOOKS, outlets=[ASSET])
    if items is None or AIRFLOW_3:
        loads = [(TASK, index) for index in range(CHUNKS)]
        finished = pods.airflow.clear(failed, *loads, (GATE, -1), ("after", -1))
    else:
        # Airflow 2 takes an item that is no more for one that failed, and never runs what stands behind it.
        finished = pods.airflow.run(failed.dag_id)
    assert "success" == finished.state, finished.log
    pods.history.require_loaded(CHUNKS)
    assert [GATE] == finished.asset_events()
