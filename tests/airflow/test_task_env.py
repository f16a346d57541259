"""The environment of a run, as Airflow renders it for each task instance."""

import json

import pytest

from airflow_provider_dpone import DponeDag
from dpone_contract.environment import EnvVar
from dpone_contract.errors import PackInvalidError
from dpone_contract.mapping_item import parse_item, require_item_of_plan
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy
from dpone_contract.pack import ExecutionBackend
from dpone_contract.pod import PodArguments
from dpone_contract.process import build_process
from dpone_contract.run_identity import parse_run_identity
from tests.airflow.airflow_stand_ins import DATED, render
from tests.factories import make_manifest, make_pack, make_process, make_process_plan

INTERNAL = make_process(mode="internal")
PER_ITEM_AND_RUN = frozenset(EnvVar) - {EnvVar.OUTCOME_PATH, EnvVar.PARENT_PID}


def internal_task(**plan):
    (task,) = DponeDag(make_pack(processes=(make_process_plan(INTERNAL, **plan),))).tasks
    return task


def mapped_task(**plan):
    plan.setdefault("process", make_process(items=4))
    return DponeDag(make_pack(processes=(make_process_plan(**plan),))).get_task("flights_history")


def test_interval_of_a_dated_run():
    env = render(internal_task(), DATED, run_id="scheduled__1", try_number=3)["task"].env_vars
    assert {name: env[name] for name in env if name != "DPONE_AIRFLOW_RUN_IDENTITY"} == {
        "DPONE_DAG_ID": "flights_history",
        "DPONE_DAG_RUN_ID": "scheduled__1",
        "DPONE_TRY_NUMBER": "3",
        "DPONE_LOGICAL_DATE": "2024-03-01T00:00:00+00:00",
        "DPONE_INTERVAL_START": "2024-03-01T00:00:00+00:00",
        "DPONE_INTERVAL_END": "2024-03-02T00:00:00+00:00",
    }


@pytest.mark.parametrize("dates", [None, dict.fromkeys(DATED)], ids=["absent", "none"])
def test_interval_is_empty_where_a_run_has_no_logical_date(dates):
    for task, index in ((internal_task(), -1), (mapped_task(), 0)):
        env = render(task, dates, map_index=index)["task"].env_vars
        assert (env["DPONE_LOGICAL_DATE"], env["DPONE_INTERVAL_START"], env["DPONE_INTERVAL_END"]) == (
            "",
            "",
            "",
        )
        assert (env["DPONE_DAG_ID"], env["DPONE_DAG_RUN_ID"]) == ("flights_history", "manual__1")


@pytest.mark.parametrize("index", range(4))
def test_each_item_gets_its_own_range_and_the_common_identity(index):
    plan = make_process_plan(make_process(items=4, chunks=10))
    pack = make_pack(processes=(plan,))
    env = render(DponeDag(pack).get_task("flights_history"), DATED, map_index=index)["task"].env_vars
    item = parse_item(env["DPONE_AIRFLOW_MAPPING_ITEM"])
    require_item_of_plan(item, plan.mapping)
    assert item.item_index == index
    identity = parse_run_identity(env["DPONE_AIRFLOW_RUN_IDENTITY"])
    assert identity.to_document() == {
        "schema": "dpone.airflow-run-identity.v1",
        "release": "2013.1",
        "deployment": "test",
        "workload": "flights_history",
        "process": "flights_history",
        "pack_fingerprint": pack.fingerprint,
        "process_digest": plan.process_digest,
    }


def test_rendering_one_item_leaves_the_dag_as_it_was():
    task = mapped_task()
    before = json.dumps(task.expand_input.value["env_vars"])
    for index in range(4):
        render(task, DATED, run_id=f"run__{index}", map_index=index)
    assert json.dumps(task.expand_input.value["env_vars"]) == before


@pytest.mark.parametrize("index", range(4))
def test_label_is_known_before_and_after_an_item_runs(index):
    plan = make_process_plan(make_process(items=4, chunks=10))
    task = DponeDag(make_pack(processes=(plan,))).get_task("flights_history")
    assert task.map_index_template == "{{ task.dpone_label }}"
    unrendered = task.unmap({"env_vars": task.expand_input.value["env_vars"][index]})
    assert unrendered.dpone_label == plan.labels[index]
    assert render(task, DATED, map_index=index)["task"].dpone_label == plan.labels[index]


@pytest.mark.parametrize("native, label", [(False, "2"), (True, "2 .. 2")])
def test_label_is_a_text_also_where_airflow_makes_numbers_of_texts(native, label):
    from jinja2 import Environment
    from jinja2.nativetypes import NativeEnvironment

    limits = MappingLimits(max_items=3, max_active=2, pool="dpone_backfill")
    window = {"column": "id", "from": 1, "to": 3, "step": 1}
    process = build_process(
        make_manifest(window=window), MappingPolicy(mode=MappingMode.VISIBLE, limits=limits)
    )
    dag = DponeDag(make_pack(processes=(make_process_plan(process),)), render_template_as_native_obj=native)
    task = dag.get_task("flights_history")
    environment = NativeEnvironment() if native else Environment()
    rendered = environment.from_string(task.map_index_template).render(render(task, map_index=1))
    assert rendered == label


def test_label_reaches_airflows_template():
    from jinja2 import Environment, StrictUndefined

    context = render(mapped_task(process=make_process(items=2, chunks=4)), map_index=1)
    template = Environment(undefined=StrictUndefined).from_string(mapped_task().map_index_template)
    assert template.render(context) == "2013-01-03 .. 2013-01-04"


LITERAL = {
    "NUMBER": "1",
    "ZEROS": "007",
    "TRUE": "true",
    "NONE": "None",
    "LIST": "[1, 2]",
    "JSON": '{"a": 1}',
    "LINE": "a\n",
}


def built(env_vars, mode, backend, **dag):
    plan = make_process_plan(
        make_process(mode=mode), backend=backend, pod=PodArguments(env_vars=env_vars, image="dpone:1")
    )
    return DponeDag(make_pack(processes=(plan,)), **dag).get_task("flights_history")


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("backend", ExecutionBackend)
@pytest.mark.parametrize("mode", ["internal", "summary"])
def test_values_reach_the_run_as_the_text_that_was_compiled(mode, backend, native):
    task = built(LITERAL, mode, backend, render_template_as_native_obj=native)
    for index in range(2) if mode == "summary" else (-1,):
        env = render(task, DATED, map_index=index, try_number=3)["task"].env_vars
        assert {name: env[name] for name in LITERAL} == LITERAL
        assert {type(value) for value in env.values()} == {str}
        assert (env["DPONE_TRY_NUMBER"], env["DPONE_DAG_RUN_ID"]) == ("3", "manual__1")
        if mode == "summary":
            assert parse_item(env["DPONE_AIRFLOW_MAPPING_ITEM"]).item_index == index


@pytest.mark.parametrize("backend", ExecutionBackend)
@pytest.mark.parametrize("mode", ["internal", "summary"])
@pytest.mark.parametrize("text", ["{{ run_id }}", "a {% if x %}", "{# x"])
def test_templates_of_others_are_refused(mode, backend, text):
    with pytest.raises(PackInvalidError, match="pod settings are no templates"):
        built({"RUN": text}, mode, backend)
    with pytest.raises(PackInvalidError, match="pod settings are no templates"):
        built({text: "x"}, mode, backend)


@pytest.mark.parametrize("name", sorted(EnvVar))
@pytest.mark.parametrize("mode", ["internal", "summary"])
def test_names_of_the_provider_cannot_be_set(mode, name):
    plan = make_process_plan(make_process(mode=mode), env_vars={name: "mine"})
    with pytest.raises(PackInvalidError, match=f"{name} is written by the provider"):
        DponeDag(make_pack(processes=(plan,)))


def test_a_variable_beyond_what_linux_takes_is_refused():
    with pytest.raises(PackInvalidError, match="variable A is too long"):
        internal_task(env_vars={"A": "x" * (128 * 1024 + 1)})


@pytest.mark.parametrize("release", ["{{ conn.db.password }}", "{% raw %}", "{# x #}"])
def test_identity_arrives_as_it_was_compiled(release):
    (task,) = DponeDag(make_pack(mode="internal", release=release)).tasks
    env = render(task, DATED)["task"].env_vars
    assert parse_run_identity(env["DPONE_AIRFLOW_RUN_IDENTITY"]).release == release


def test_every_name_of_the_contract_is_written():
    (task,) = {mapped_task()}
    assert set(task.expand_input.value["env_vars"][0]) == {name.value for name in PER_ITEM_AND_RUN}
