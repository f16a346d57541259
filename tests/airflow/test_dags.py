"""A pack becomes a DAG: how many tasks, under which limits, and what the scheduler reads back."""

import copy
import json
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_dpone import DponeDag, DponeTaskGroup, load_dpone_dags
from airflow_provider_dpone.process_operator import DponeProcessOperator
from airflow_provider_dpone.version_compat import DAG, TaskGroup
from dpone_contract.errors import (
    MappingUnsupportedError,
    PackInvalidError,
    RetryAuthorityExceededError,
)
from dpone_contract.mapping_item import parse_item
from dpone_contract.pack import ExecutionBackend, Hook, Hooks
from dpone_contract.pod import PodArguments
from dpone_contract.process import decode_process
from tests.airflow.airflow_stand_ins import dag_bag, round_trip
from tests.factories import make_pack, make_process, make_process_plan, write_pack_file

INTERNAL = make_process(mode="internal")


def test_mapped_process_is_one_task_with_one_environment_an_item():
    task = DponeDag(make_pack(items=7)).get_task("flights_history")
    items = [parse_item(env["DPONE_AIRFLOW_MAPPING_ITEM"]) for env in task.expand_input.value["env_vars"]]
    assert [item.item_index for item in items] == list(range(7))


def test_every_item_has_the_whole_environment_in_a_copy_of_its_own():
    envs = DponeDag(make_pack(items=3)).get_task("flights_history").expand_input.value["env_vars"]
    assert len({id(env) for env in envs}) == 3
    assert {frozenset(env) for env in envs} == {
        frozenset(
            {
                "DPONE_DAG_ID",
                "DPONE_DAG_RUN_ID",
                "DPONE_TRY_NUMBER",
                "DPONE_LOGICAL_DATE",
                "DPONE_INTERVAL_START",
                "DPONE_INTERVAL_END",
                "DPONE_AIRFLOW_RUN_IDENTITY",
                "DPONE_AIRFLOW_MAPPING_ITEM",
            }
        )
    }
    assert all(type(value) is str for env in envs for value in env.values())


@pytest.mark.parametrize("backend", sorted(ExecutionBackend))
def test_mapped_process_has_the_defaults_that_a_worker_reads_of_it(backend):
    pod = PodArguments(image="load:1") if backend is ExecutionBackend.KUBERNETES else None
    plan = make_process_plan(make_process(mode="summary"), backend=backend, pod=pod)
    task = DponeDag(make_pack(processes=(plan,))).get_task(plan.task_id)
    assert ([], [], {}) == (task.inlets, task.outlets, task.executor_config)


def test_pool_and_concurrency_are_static():
    plan = make_process_plan(make_process(items=9, max_active=5, pool="history"))
    task = DponeDag(make_pack(processes=(plan,))).get_task("flights_history")
    assert (task.pool, task.max_active_tis_per_dag, task.retries) == ("history", 5, 2)
    assert task.operator_class is DponeProcessOperator


@pytest.mark.parametrize("items", [1, 4, 200])
def test_scheduler_reads_back_the_number_of_items(items):
    dag, _ = round_trip(DponeDag(make_pack(items=items)))
    task = dag.get_task("flights_history")
    assert task.get_parse_time_mapped_ti_count() == items
    assert task.pool == "dpone_backfill"


def test_serialized_dag_holds_the_process_once():
    plan = make_process_plan(make_process(items=40))
    dag = DponeDag(make_pack(processes=(plan,)))
    try:
        from airflow.serialization.serialized_objects import DagSerialization as Serialization
    except ImportError:
        from airflow.serialization.serialized_objects import SerializedDAG as Serialization
    text = json.dumps(Serialization.to_dict(dag))
    process = dag.get_task("flights_history").partial_kwargs["process"]
    assert decode_process(process) == plan.process
    assert text.count(process) == 1


def test_internal_process_is_one_plain_task():
    dag = DponeDag(make_pack(processes=(make_process_plan(INTERNAL),)))
    (task,) = dag.tasks
    assert type(task) is DponeProcessOperator
    assert "DPONE_AIRFLOW_MAPPING_ITEM" not in task.env_vars
    assert task.dpone_label == ""


def test_every_process_of_a_pack_has_its_task():
    plans = tuple(make_process_plan(make_process(name)) for name in ("one", "two", "three"))
    assert [task.task_id for task in DponeDag(make_pack(processes=plans)).tasks] == ["one", "two", "three"]


def test_dag_shows_what_the_pack_says():
    dag = DponeDag(
        make_pack(
            dag={"schedule": "@daily", "start_date": "2013-01-01", "catchup": True, "max_active_runs": 3}
        )
    )
    assert (dag.dag_id, dag.catchup, dag.max_active_runs) == ("flights_history", True, 3)
    assert dag.start_date == datetime(2013, 1, 1, tzinfo=UTC)
    assert set(dag.tags) == {"backfill"}
    assert dag.get_task("flights_history").owner == "flights"


def test_schedule_without_a_start_begins_now():
    dag = DponeDag(make_pack(dag={"schedule": "@daily"}))
    assert dag.start_date is not None
    assert dag.catchup is False


def test_arguments_of_airflows_dag_replace_the_packs():
    assert DponeDag(make_pack(), dag_id="other", description="mine").dag_id == "other"


def test_plans_that_allow_more_tasks_at_once_than_airflow_does_get_them():
    plans = tuple(make_process_plan(make_process(name, items=60, max_active=12)) for name in ("one", "two"))
    assert DponeDag(make_pack(processes=plans)).max_active_tasks == 24


def test_a_dag_can_be_copied_as_airflow_does():
    dag = DponeDag(make_pack(items=3))
    copied = copy.deepcopy(dag)
    assert type(copied) is DponeDag
    assert round_trip(copied)[1] == round_trip(dag)[1]


def test_dag_is_documented_by_its_pack():
    pack = make_pack(
        processes=(
            make_process_plan(make_process(items=4, chunks=10)),
            make_process_plan(make_process("other", mode="internal")),
        )
    )
    doc = DponeDag(pack).doc_md
    assert pack.fingerprint in doc
    assert "| flights_history | summary | 10 | 4 | 2 | dpone_backfill |" in doc
    assert "| other | internal | | 1 | 1 |  |" in doc


def test_dag_takes_a_path(tmp_path):
    path = write_pack_file(tmp_path, make_pack())
    assert DponeDag(pack=path).dag_id == DponeDag(pack=str(path)).dag_id == "flights_history"


def test_task_group_holds_the_tasks_of_a_pack():
    with DAG(dag_id="mine", schedule=None) as dag:
        DponeTaskGroup(pack=make_pack("history.of.flights", items=3))
    assert dag.task_ids == ["history_of_flights.flights_history"]
    back, _ = round_trip(dag)
    assert back.get_task("history_of_flights.flights_history").get_parse_time_mapped_ti_count() == 3


def test_two_packs_can_stand_in_one_dag(tmp_path):
    path = write_pack_file(tmp_path, make_pack("one"))
    with DAG(dag_id="mine", schedule=None) as dag:
        DponeTaskGroup(pack=path) >> DponeTaskGroup(pack=make_pack("two"))
    assert dag.get_task("two.flights_history").upstream_task_ids == {"one.flights_history"}


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_within_the_authority_are_taken(retries):
    dag = DponeDag(make_pack(), default_args={"retries": retries})
    assert dag.get_task("flights_history").retries == retries


@pytest.mark.parametrize("maximum", [0, 1])
def test_retries_above_the_authority_are_refused(maximum):
    pack = make_pack(processes=(make_process_plan(max_retries=maximum),))
    with pytest.raises(RetryAuthorityExceededError, match=f"2 times, but {maximum} are safe") as caught:
        DponeDag(pack)
    assert ("task flights_history", f"lower retries to {maximum}") == (
        caught.value.where,
        caught.value.next_step,
    )


def test_default_args_cannot_go_beyond_the_authority():
    with pytest.raises(RetryAuthorityExceededError):
        DponeDag(make_pack(), default_args={"retries": 4})


def test_task_group_minds_the_retries_of_its_dag():
    with (
        DAG(dag_id="mine", schedule=None, default_args={"retries": 9}),
        pytest.raises(RetryAuthorityExceededError),
    ):
        DponeTaskGroup(pack=make_pack())


@pytest.mark.parametrize("where", ["dag", "outer group", "group"])
@pytest.mark.parametrize("retries", [4, "4"])
def test_no_default_args_go_beyond_the_authority(where, retries):
    args = {name: {"retries": retries} if name == where else {} for name in ("dag", "outer group", "group")}
    with (
        DAG(dag_id="mine", schedule=None, default_args=args["dag"]),
        TaskGroup(group_id="outer", default_args=args["outer group"]),
        pytest.raises(RetryAuthorityExceededError),
    ):
        DponeTaskGroup(pack=make_pack(), default_args=args["group"])


@pytest.mark.parametrize("where", ["dag", "outer group", "group"])
@pytest.mark.parametrize("backend", ExecutionBackend)
def test_retries_of_default_args_are_those_of_the_task(where, backend):
    plan = make_process_plan(backend=backend, pod=PodArguments(image="dpone:1"))
    args = {name: {"retries": 1} if name == where else {} for name in ("dag", "outer group", "group")}
    with (
        DAG(dag_id="mine", schedule=None, default_args=args["dag"]) as dag,
        TaskGroup(group_id="outer", default_args=args["outer group"]),
    ):
        DponeTaskGroup(pack=make_pack(processes=(plan,)), group_id="g", default_args=args["group"])
    assert dag.get_task("outer.g.flights_history").retries == 1


def test_retries_that_are_none_are_none():
    assert DponeDag(make_pack(), default_args={"retries": None}).get_task("flights_history").retries == 0


@pytest.mark.parametrize("mode", ["internal", "summary"])
@pytest.mark.parametrize("backend", ExecutionBackend)
def test_runtime_task_and_hooks_have_the_packs_deadline(mode, backend):
    hooks = Hooks(
        pre=(Hook(name="before", command=("true",)),), post=(Hook(name="after", command=("true",)),)
    )
    pod = PodArguments(image="dpone:1")
    plan = make_process_plan(make_process(mode=mode), backend=backend, pod=pod, hooks=hooks)
    dag = DponeDag(make_pack(processes=(plan,), dag={"execution_timeout_seconds": 600}))
    limits = {task.task_id: task.execution_timeout for task in dag.tasks}
    assert limits.pop("flights_history_gate") is None
    assert set(limits.values()) == {timedelta(seconds=600)}


@pytest.mark.parametrize("error", [TypeError("no such argument"), AttributeError("partial")])
def test_an_airflow_that_cannot_map_is_refused(monkeypatch, error):
    def cannot(**_):
        raise error

    monkeypatch.setattr(DponeProcessOperator, "partial", cannot)
    with pytest.raises(MappingUnsupportedError, match="cannot map DponeProcessOperator") as caught:
        DponeDag(make_pack())
    assert "task flights_history" == caught.value.where
    assert "install Airflow 2.10 or newer" in (caught.value.next_step or "")


def test_start_date_that_is_no_date_is_refused():
    with pytest.raises(PackInvalidError, match="start_date"):
        DponeDag(make_pack(dag={"start_date": "soon"}))


def test_dag_file_of_two_lines_registers_every_pack(tmp_path):
    write_pack_file(tmp_path / "packs", make_pack("one"))
    write_pack_file(tmp_path / "packs/nested", make_pack("two"))
    (tmp_path / "flights.py").write_text(
        "from pathlib import Path\n"
        "from airflow_provider_dpone import load_dpone_dags\n"
        "load_dpone_dags(Path(__file__).parent / 'packs')  # airflow dag\n"
    )
    bag = dag_bag(tmp_path)
    assert (set(bag.dags), bag.import_errors) == ({"one", "two"}, {})


def test_dags_are_given_and_registered(tmp_path):
    write_pack_file(tmp_path, make_pack("one"))
    module: dict[str, object] = {}
    dags = load_dpone_dags(tmp_path, module)
    assert list(dags) == ["one"]
    assert list(module.values()) == list(dags.values())


def test_while_one_dag_runs_only_its_pack_is_proved(tmp_path, monkeypatch):
    write_pack_file(tmp_path, make_pack("one"))
    other = write_pack_file(tmp_path, make_pack("two"))
    other.write_bytes(b"not read through")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "one")
    assert list(load_dpone_dags(tmp_path, {}, strict=True)) == ["one"]
