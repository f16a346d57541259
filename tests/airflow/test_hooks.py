"""Hooks run once, before and after all items, in the backend of their process, and are judged by their exit code."""

import json
import sys

import pytest
from kubernetes.client.exceptions import ApiException

from airflow_provider_dpone import DponeDag
from airflow_provider_dpone.version_compat import AirflowException, AirflowFailException
from dpone_contract.pack import ExecutionBackend, Hook, Hooks
from dpone_contract.pod import PodArguments, SecretVariable
from tests.airflow.airflow_stand_ins import DATED, render
from tests.airflow.pod_api_stand_in import make_pod, terminated
from tests.factories import make_pack, make_process, make_process_plan

BOTH = list(ExecutionBackend)
MODES = ["internal", "summary"]


def build(mode="summary", backend=ExecutionBackend.PROCESS, *, dag=None, default_args=None, **plan):
    pod = PodArguments(
        image="dpone:1",
        namespace="loads",
        env_vars={"TZ": "UTC"},
        secrets=(SecretVariable(variable="DPONE_CONN_DB", secret="s", key="k"),),
    )
    made = make_process_plan(make_process(mode=mode), backend=backend, pod=pod, **plan)
    return DponeDag(make_pack(processes=(made,), dag=dag or {}), default_args=default_args or {})


def hook(name, *command):
    return Hook(name=name, command=command or ("true",))


HOOKS = Hooks(pre=(hook("one"), hook("two")), post=(hook("three"), hook("four")))


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("mode", MODES)
def test_hooks_stand_in_sequence_around_runtime_task_and_gate(mode, backend):
    dag = build(mode, backend, hooks=HOOKS)
    assert {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks} == {
        "one": ["two"],
        "two": ["flights_history"],
        "flights_history": ["flights_history_gate"],
        "flights_history_gate": ["three"],
        "three": ["four"],
        "four": [],
    }


@pytest.mark.parametrize("backend", BOTH)
def test_a_pre_hook_needs_no_gate(backend):
    dag = build(backend=backend, hooks=Hooks(pre=(hook("one"),)))
    assert dag.task_ids == ["one", "flights_history"]


@pytest.mark.parametrize("backend", BOTH)
def test_a_hook_is_never_retried_by_itself(backend):
    dag = build(backend=backend, hooks=HOOKS, default_args={"retries": 3})
    assert {dag.get_task(name).retries for name in ("one", "two", "three", "four")} == {0}


def run(name="one", *command, dates=DATED):
    dag = build(hooks=Hooks(pre=(Hook(name=name, command=command),)))
    context = render(dag.get_task(name), dates)
    context["task"].execute(context)


def python(code):
    return (sys.executable, "-c", code)


def test_a_hook_gets_interval_and_variables_but_no_process(tmp_path):
    record = tmp_path / "env.json"
    run("one", *python(f"import json, os; json.dump(dict(os.environ), open({str(record)!r}, 'w'))"))
    seen = json.loads(record.read_text())
    assert (seen["TZ"], seen["DPONE_INTERVAL_START"]) == ("UTC", "2024-03-01T00:00:00+00:00")
    assert not {"DPONE_AIRFLOW_RUN_IDENTITY", "DPONE_AIRFLOW_MAPPING_ITEM"} & set(seen)


@pytest.mark.parametrize(
    "command, message",
    [
        (python("raise SystemExit(2)"), "it ended with 2"),
        (("/nowhere/x",), "it could not be started: No such file"),
    ],
)
def test_a_failed_hook_fails_its_task(command, message):
    with pytest.raises(
        AirflowException, match=f"DPONE_HOOK_FAILED: the hook's command failed: {message}"
    ) as caught:
        run("one", *command)
    assert "at task one | next: read its log above" in str(caught.value)


def pod_hook(*command):
    dag = build(backend=ExecutionBackend.KUBERNETES, hooks=Hooks(post=(Hook(name="last", command=command),)))
    return render(dag.get_task("last"), DATED)["task"]


def judge(task, pod=None, failure=None):
    def work():
        task.seen_pod = pod
        if failure is not None:
            raise failure

    task._watch({}, work)


def test_a_pod_hook_passes_with_exit_code_zero_alone():
    judge(pod_hook("true"), make_pod(base=terminated(0)))


@pytest.mark.parametrize(
    "pod, failure, message",
    [
        (make_pod(base=terminated(3, "Error")), AirflowException("Pod failed"), "it ended with 3"),
        (make_pod(base=terminated(137, "OOMKilled")), None, "it ended with 137, .*OOMKilled"),
        (None, None, "its end was not seen"),
        (None, ApiException(status=404, reason="Not Found"), "HTTP 404: Not Found"),
    ],
)
def test_any_other_end_of_a_pod_hook_fails_its_task(pod, failure, message):
    with pytest.raises(AirflowException, match=message):
        judge(pod_hook("true"), pod, failure)


def test_a_pod_hook_that_is_refused_says_so():
    with pytest.raises(AirflowFailException, match="DPONE_POD_REFUSED"):
        judge(pod_hook("true"), failure=ApiException(status=403))
