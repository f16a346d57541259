"""What `dpone airflow preview` tells of a pack is what Airflow gets: ids, order, instances, limits, and about as many bytes."""

import pytest

from airflow_provider_dpone import DponeDag
from airflow_provider_dpone.outcome_gate import DponeOutcomeGate
from dpone_contract.pack import ExecutionBackend, Hook, Hooks
from dpone_contract.pod import PodArguments, SecretVariable
from dpone_packbuilder.airflow_preview import airflow_preview
from tests.airflow.airflow_stand_ins import round_trip
from tests.factories import make_pack, make_process, make_process_plan

HOOKS = Hooks(pre=(Hook(name="begin", command=("true",)),), post=(Hook(name="end", command=("true",)),))
POD = PodArguments(
    image="dpone:1",
    namespace="loads",
    labels={"team": "data"},
    secrets=(SecretVariable(variable="DPONE_CONN_FLIGHTS_TARGET", secret="databases", key="target"),),
)
OUTLETS = ("postgres://warehouse/analytics/flights",)
PLANS = {
    "internal pod": {"mode": "internal", "pod": POD},
    "internal child process": {"mode": "internal"},
    "hooks and gate": {"mode": "internal", "pod": POD, "hooks": HOOKS, "outlets": OUTLETS},
    "four pods": {"mode": "summary", "items": 4, "pod": POD},
    "200 pods": {"mode": "visible", "items": 200, "pod": POD},
    "200 child processes": {"mode": "visible", "items": 200, "env_vars": {"A": "b" * 1000}},
    "hooked items": {"mode": "summary", "items": 10, "pod": POD, "hooks": HOOKS, "outcome_gate": True},
}


def pack_of(name):
    arguments = dict(PLANS[name])
    process = make_process(mode=arguments.pop("mode"), items=arguments.pop("items", 4))
    backend = ExecutionBackend.KUBERNETES if "pod" in arguments else ExecutionBackend.PROCESS
    return make_pack(processes=(make_process_plan(process, backend=backend, **arguments),))


@pytest.mark.parametrize("name", PLANS)
def test_tasks_and_their_order_are_those_of_the_dag(name):
    pack = pack_of(name)
    tasks = airflow_preview((pack,)).workloads[0].processes[0].tasks
    dag = DponeDag(pack)
    assert [task.task_id for task in tasks] == [task.task_id for task in dag.topological_sort()]
    for task in tasks:
        found = dag.get_task(task.task_id)
        expanded = getattr(found, "expand_input", None)
        assert task.instances == (1 if expanded is None else len(expanded.value["env_vars"]))
        assert (task.kind == "gate") is isinstance(found, DponeOutcomeGate)


@pytest.mark.parametrize("name", PLANS)
def test_pool_and_bound_are_those_of_the_dag(name):
    pack = pack_of(name)
    (process,) = airflow_preview((pack,)).workloads[0].processes
    task = DponeDag(pack).get_task("flights_history")
    if process.pool is not None:
        assert (process.pool.name, process.most_at_once) == (task.pool, task.max_active_tis_per_dag)


@pytest.mark.parametrize("name", PLANS)
def test_the_estimate_of_a_stored_dag_is_near_what_airflow_stores(name):
    pack = pack_of(name)
    estimated = airflow_preview((pack,)).workloads[0].sizes.serialised_bytes
    _, stored = round_trip(DponeDag(pack))
    assert estimated == pytest.approx(stored, rel=0.2)
