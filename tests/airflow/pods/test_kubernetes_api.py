"""The stand-in for a Kubernetes API does with pods what a cluster does, as Kubernetes' own client sees it."""

import json
import re

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream

from tests.airflow.pods.pod_bodies import SIDECAR, make_pod
from tests.kubernetes_api.label_selectors import matches
from tests.kubernetes_api.orders import Action, Call, CallOrder, PodFault, PodOrder
from tests.waiting import wait_until

DEFAULT = "default"


def ended(pod):
    return pod.exit_code is not None


def running(pod):
    return "running" in pod.base_state


def read(core, name="pod"):
    return core.read_namespaced_pod(name, DEFAULT)


def create(core, *arguments, **changes):
    return core.create_namespaced_pod(DEFAULT, make_pod(*arguments, **changes))


def run_to_end(core, api, *arguments, **changes):
    create(core, *arguments, **changes)
    return api.wait_for(ended, what="the container's end")


def execute(core, command, name="pod"):
    """What a command in the sidecar prints, and how its exec ended."""
    answer = stream(
        core.connect_get_namespaced_pod_exec,
        name,
        DEFAULT,
        container=SIDECAR,
        command=command,
        stdin=False,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    answer.run_forever()
    # In this order: reading all forgets how it ended.
    exit_code = answer.returncode
    return answer.read_all(), exit_code


def refused_exec(core):
    """What the API has against an exec. Release 36 of the client stumbles over the answer, which is in the chain then."""
    with pytest.raises((ApiException, AttributeError)) as failed:
        execute(core, ["/bin/sh", "-c", "true"])
    chain, error = [], failed.value
    while error is not None:
        chain.append(str(error))
        error = error.__context__
    return "".join(chain)


def status_of(failure):
    return json.loads(failure.value.body)


def gone(core, name="pod"):
    return not [each for each in core.list_namespaced_pod(DEFAULT).items if each.metadata.name == name]


# Environment and surroundings.


def test_container_has_exactly_its_own_environment_over_the_images(core, either_api, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SECRET", "inherited")
    either_api.add_secret("target", {"uri": "postgresql://u:$(X)@h/db"})
    env = [
        {"name": "PLAIN", "value": "7"},
        {"name": "EMPTY"},
        {"name": "POINTS", "value": "$(PLAIN)-$(NOBODY)-$$(PLAIN)"},
        {"name": "DPONE_CONN_TARGET", "valueFrom": {"secretKeyRef": {"name": "target", "key": "uri"}}},
        {"name": "OPTIONAL", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k", "optional": True}}},
        {"name": "OWN_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    pod = run_to_end(core, either_api, command=["env"], env=env)
    found = dict(line.split("=", 1) for line in pod.log)
    image = {"PATH", "PYTHONPATH", "LANG", "HOME"}
    # Without namespaces nothing can be mounted, so the folders are named instead.
    named = {"DPONE_OUTCOME_PATH", "TMPDIR"} if either_api.isolation == "processes" else set()
    assert {
        "PLAIN": "7",
        "EMPTY": "",
        "POINTS": "7-$(NOBODY)-$(PLAIN)",
        "DPONE_CONN_TARGET": "postgresql://u:$(X)@h/db",
        "OWN_NAME": "pod",
    } == {name: value for name, value in found.items() if name not in image | named}
    assert image | named <= set(found)


@pytest.mark.parametrize("missing", ["secret", "key"])
def test_missing_secret_keeps_the_container_from_starting(core, either_api, missing):
    if missing == "key":
        either_api.add_secret("target", {"other": "v"})
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "target", "key": "uri"}}}]
    create(core, env=env)
    pod = either_api.wait_for(lambda pod: pod.base_state["waiting"]["reason"] != "ContainerCreating")
    said = {"secret": 'secret "target" not found', "key": "couldn't find key uri in Secret default/target"}
    assert {"reason": "CreateContainerConfigError", "message": said[missing]} == pod.base_state["waiting"]
    assert read(core).status.phase == "Pending"
    events = core.list_namespaced_event(DEFAULT, field_selector="involvedObject.name=pod").items
    assert said[missing] in events[-1].message
    assert events[-1].type == "Warning"
    core.delete_namespaced_pod("pod", DEFAULT)
    wait_until(lambda: gone(core), what="the deletion")


SURROUNDINGS = r"""
import json, os
def writable(path):
    try:
        open(path, "w").close()
        return True
    except OSError:
        return False
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "pid": os.getpid(), "uid": os.getuid(), "processes": sum(name.isdecimal() for name in os.listdir("/proc")),
    "capabilities": int(status["CapEff"], 16), "root": writable("/x"), "usr": writable("/usr/x"),
    "tmp": writable("/tmp/x"), "xcom": writable("/airflow/xcom/x"),
}))
"""


@pytest.mark.parametrize("read_only", [True, False])
def test_container_is_a_pods_container(core, either_api, read_only):
    """In namespaces it is process 1 among its own, an ordinary user without a capability, on a root that is not the machine's."""
    if either_api.isolation == "processes":
        pod = run_to_end(
            core, either_api, command=["python", "-c", "import os; print(os.getcwd(), os.environ['TMPDIR'])"]
        )
        assert re.fullmatch(r"/ \S+/pods/\S+/tmp", pod.log[0])
        return
    user = {"runAsUser": 20002} if read_only else {}
    container = {"securityContext": {"readOnlyRootFilesystem": read_only, "runAsNonRoot": True, **user}}
    pod = run_to_end(core, either_api, command=["python", "-c", SURROUNDINGS], container=container)
    assert {
        "pid": 1,
        "uid": 20002 if read_only else 10001,
        "processes": 1,
        "capabilities": 0,
        "root": not read_only,
        "usr": False,
        "tmp": not read_only,
        "xcom": True,
    } == json.loads(pod.log[0])


def test_root_is_refused_where_a_pod_must_not_be_root(core, either_api):
    create(core, spec={"securityContext": {"runAsNonRoot": True, "runAsUser": 0}})
    pod = either_api.wait_for(lambda pod: pod.base_state["waiting"]["reason"] != "ContainerCreating")
    assert pod.base_state["waiting"]["reason"] == "CreateContainerConfigError"


def test_dpone_is_in_the_image(core, either_api):
    pod = run_to_end(core, either_api, command=["dpone", "--version"])
    assert (0, "dpone") == (pod.exit_code, pod.log[0].split()[0])


def test_command_that_is_not_in_the_image(core, either_api):
    pod = run_to_end(core, either_api, command=["nowhere"])
    assert ("StartError", 127) == (pod.base_state["terminated"]["reason"], pod.exit_code)
    assert "nowhere" in pod.base_state["terminated"]["message"]


def test_two_pods_have_folders_of_their_own(core, either_api):
    for name in ("one", "two"):
        create(core, f"echo {name} > /airflow/xcom/return.json; cat /airflow/xcom/return.json", name=name)
    either_api.wait_for(ended, timeout=20)
    wait_until(lambda: all(map(ended, either_api.pods())), what="both ends")
    assert [("one",), ("two",)] == [pod.log for pod in either_api.pods()]


def test_containers_end_takes_its_whole_tree(core, either_api):
    script = "setsid sh -c 'trap \"\" TERM HUP; while true; do sleep 1; done' & exit 0"
    pod = run_to_end(core, either_api, f"{script}")
    assert (0, False) == (pod.exit_code, pod.runs_process)


# Phases, logs, XCom.


def test_phases_of_a_pod_that_ends_well(core, either_api):
    held = either_api.order(PodOrder(PodFault.HOLD))
    create(
        core,
        "read line < /airflow/xcom/go || while [ ! -e /airflow/xcom/go ]; do sleep 0.02; done",
        sidecar=True,
    )
    assert "Pending" == read(core).status.phase
    either_api.lift(held)
    either_api.wait_for(running)
    assert "Running" == read(core).status.phase
    execute(core, ["/bin/sh", "-c", "touch /airflow/xcom/go"])
    either_api.wait_for(ended)
    assert "Running" == read(core).status.phase, "the sidecar still runs"
    execute(core, ["/bin/sh", "-c", "kill -2 1"])
    status = read(core).status
    assert "Succeeded" == status.phase
    assert [("Completed", 0)] * 2 == [
        (each.state.terminated.reason, each.state.terminated.exit_code) for each in status.container_statuses
    ]


def test_exit_code_fails_a_pod(core, either_api):
    pod = run_to_end(core, either_api, "exit 5")
    assert ("Failed", 5, "Error") == (pod.phase, pod.exit_code, pod.base_state["terminated"]["reason"])


@pytest.mark.parametrize("kibibytes", [1, 47])
def test_xcom_is_read_out_of_the_sidecar(core, either_api, kibibytes):
    script = f"head -c {kibibytes * 1024} /dev/zero | tr '\\0' x > /airflow/xcom/return.json"
    run_to_end(core, either_api, script, sidecar=True)
    content, exit_code = execute(core, ["/bin/sh", "-c", "cat /airflow/xcom/return.json"])
    assert ("x" * kibibytes * 1024, 0) == (content, exit_code)
    assert ("", 1) == execute(core, ["/bin/sh", "-c", "exit 1"])


def test_exec_needs_a_running_sidecar(core, either_api):
    run_to_end(core, either_api, sidecar=True)
    either_api.act(Action.FAIL_SIDECAR)
    assert "container not found" in refused_exec(core)


def test_log_is_followed_while_it_is_written(core, either_api):
    create(core, "echo first; while [ ! -e /airflow/xcom/go ]; do sleep 0.02; done; echo last", sidecar=True)
    either_api.wait_for(lambda pod: pod.log == ("first",))
    followed = core.read_namespaced_pod_log(
        "pod", DEFAULT, container="base", follow=True, timestamps=True, _preload_content=False
    )
    lines = followed.stream()
    assert re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z first\n", next(lines))
    execute(core, ["/bin/sh", "-c", "touch /airflow/xcom/go"])
    assert b"".join(lines).endswith(b" last\n")
    tail = core.read_namespaced_pod_log(
        "pod", DEFAULT, container="base", tail_lines=1, _preload_content=False
    )
    assert b"last\n" == tail.data


def test_log_of_a_container_that_waits_is_refused(core, either_api):
    either_api.order(PodOrder(PodFault.HOLD))
    create(core)
    with pytest.raises(ApiException) as failed:
        core.read_namespaced_pod_log("pod", DEFAULT, container="base")
    assert (400, 'container "base" in pod "pod" is waiting to start: ContainerCreating') == (
        failed.value.status,
        status_of(failed)["message"],
    )


# Calls.


def test_selectors_of_a_list(core, either_api):
    for name, labels in {"a": {"run": "1", "done": "True"}, "b": {"run": "1"}, "c": {"run": "2"}}.items():
        create(core, name=name, labels=labels)

    def listed(selector):
        return [pod.metadata.name for pod in core.list_namespaced_pod(DEFAULT, label_selector=selector).items]

    assert ["a", "b", "c"] == listed("")
    assert ["a", "b"] == listed("run=1")
    assert ["b"] == listed("run=1,done!=True")
    assert ["c"] == listed("!done,run!=1")
    assert ["b", "c"] == listed("run in (1, 2),!done")
    core.patch_namespaced_pod("b", DEFAULT, {"metadata": {"labels": {"done": "True"}}})
    assert ["c"] == listed("done!=True")


@pytest.mark.parametrize(
    "selector, expected",
    [
        ("a", True),
        ("b", False),
        ("a==1", True),
        ("a notin (1)", False),
        ("b notin (1)", True),
        ("a=1,,", True),
    ],
)
def test_selector(selector, expected):
    assert expected == matches({"a": "1"}, selector)


def test_pod_that_is_not_there(core, either_api):
    for call in (core.read_namespaced_pod, core.delete_namespaced_pod, core.read_namespaced_pod_log):
        with pytest.raises(ApiException) as failed:
            call("nobody", DEFAULT)
        assert (404, 'pods "nobody" not found') == (failed.value.status, status_of(failed)["message"])


def test_name_is_taken_once(core, either_api):
    create(core)
    with pytest.raises(ApiException) as failed:
        create(core)
    assert (409, "AlreadyExists") == (failed.value.status, status_of(failed)["reason"])


INVALID = {
    "label": (make_pod(labels={"run_id": "manual__2013-01-01T00:00:00+00:00"}), 422, "metadata.labels"),
    "name": (make_pod(name="Upper_Case"), 422, "metadata.name"),
    "number as value": (make_pod(env=[{"name": "A", "value": 7}]), 400, "EnvVar.value"),
    "restart": (make_pod(spec={"restartPolicy": "Always"}), 422, "spec.restartPolicy"),
    "no volume": (
        make_pod(container={"volumeMounts": [{"name": "x", "mountPath": "/x"}]}),
        422,
        "volumeMounts",
    ),
    "init container": (make_pod(spec={"initContainers": [{"name": "i"}]}), 422, "initContainers"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_pod_is_refused(core, either_api, name):
    body, status, where = INVALID[name]
    with pytest.raises(ApiException) as failed:
        core.create_namespaced_pod(DEFAULT, body)
    assert status == failed.value.status
    assert where in status_of(failed)["message"]
    assert [] == either_api.pods()


def test_what_it_cannot_do_is_said_and_not_answered_emptily(core, either_api):
    with pytest.raises(ApiException) as failed:
        core.list_namespaced_config_map(DEFAULT)
    assert "this stand-in has no GET" in status_of(failed)["message"]


# Deletion.

LISTENS = "trap 'echo asked to end; exit 4' TERM; echo ready; while true; do sleep 0.02; done"


def test_deletion_asks_first_and_keeps_the_pod_until_it_has_ended(core, either_api):
    create(core, LISTENS, spec={"terminationGracePeriodSeconds": 600})
    either_api.wait_for(lambda pod: pod.log == ("ready",))
    answer = core.delete_namespaced_pod("pod", DEFAULT)
    assert 600 == answer.metadata.deletion_grace_period_seconds
    wait_until(lambda: gone(core), what="the deletion")
    pod = either_api.pod()
    assert (4, ("ready", "asked to end"), True) == (pod.exit_code, pod.log, pod.deleted)


def test_deletion_kills_what_does_not_listen(core, either_api):
    create(core, "trap '' TERM; echo ready; while true; do sleep 0.02; done")
    either_api.wait_for(lambda pod: pod.log == ("ready",))
    core.delete_namespaced_pod("pod", DEFAULT)
    assert not gone(core)
    wait_until(lambda: gone(core), what="the deletion")
    assert 137 == either_api.pod().exit_code


def test_sidecar_keeps_a_deleted_pod_until_its_grace_is_over(core, either_api):
    create(core, LISTENS, sidecar=True, spec={"terminationGracePeriodSeconds": 600})
    either_api.wait_for(lambda pod: pod.log == ("ready",))
    core.delete_namespaced_pod("pod", DEFAULT)
    either_api.wait_for(ended)
    assert "Running" == read(core).status.phase
    core.delete_namespaced_pod("pod", DEFAULT, grace_period_seconds=0)
    wait_until(lambda: gone(core), what="the deletion")
    assert [4, 137] == [
        each["state"]["terminated"]["exitCode"]
        for each in either_api.pod().document["status"]["containerStatuses"]
    ]


def test_active_deadline_ends_a_pod(core, either_api):
    create(core, LISTENS, spec={"activeDeadlineSeconds": 1}, sidecar=True)
    pod = either_api.wait_for(ended)
    status = read(core).status
    assert ("Failed", "DeadlineExceeded", 4) == (status.phase, status.reason, pod.exit_code)


# What can be ordered.


def started(core, api, **changes):
    create(core, LISTENS, sidecar=True, **changes)
    return api.wait_for(lambda pod: pod.log == ("ready",))


def test_lost_pod_is_gone_without_trace_and_its_processes_too(core, either_api):
    started(core, either_api)
    assert ["pod"] == either_api.act(Action.LOSE)
    assert gone(core)
    assert (True, False) == (either_api.pod().gone, either_api.pod().runs_process)


def test_parted_pod_is_gone_and_runs_on(core, either_api):
    started(core, either_api)
    either_api.act(Action.PART)
    assert gone(core)
    assert (True, True) == (either_api.pod().gone, either_api.pod().runs_process)


def test_evicted_pod_has_failed_and_says_why(core, either_api):
    started(core, either_api)
    either_api.act(Action.EVICT)
    status = read(core).status
    assert ("Failed", "Evicted") == (status.phase, status.reason)
    assert "low on resource" in status.message
    assert not either_api.pod().runs_process


def test_drained_pod_is_deleted_with_its_grace(core, either_api):
    started(core, either_api)
    either_api.act(Action.DRAIN)
    assert read(core).metadata.deletion_timestamp is not None
    wait_until(lambda: gone(core), what="the deletion")
    assert ("asked to end", 4) == (either_api.pod().log[-1], either_api.pod().exit_code)


@pytest.mark.parametrize("action, reason", [(Action.KILL, "Error"), (Action.OOM_KILL, "OOMKilled")])
def test_killed_container(core, either_api, action, reason):
    started(core, either_api)
    either_api.act(action)
    pod = either_api.pod()
    assert (137, reason, "Running") == (pod.exit_code, pod.base_state["terminated"]["reason"], pod.phase)


def test_actions_and_orders_hold_for_the_pods_that_they_mean(core, either_api):
    either_api.order(PodOrder(PodFault.EXIT_CODE, "try_number=1", number=9))
    for number in ("1", "2"):
        create(core, LISTENS, name=f"try-{number}", labels={"try_number": number})
    either_api.wait_for(running, "try_number=2")
    either_api.wait_for(running, "try_number=1")
    assert ["try-1"] == either_api.act(Action.KILL, "try_number=1")
    assert [9, None] == [pod.exit_code for pod in either_api.pods()]


SPOILT = {
    PodFault.TRUNCATE_OUTCOME: "whole"[:3],
    PodFault.REPLACE_OUTCOME: "another",
    PodFault.REMOVE_OUTCOME: "",
}


@pytest.mark.parametrize("fault", SPOILT)
def test_spoilt_outcome(core, either_api, fault):
    either_api.order(PodOrder(fault, number=3, text="another"))
    run_to_end(core, either_api, "printf whole > /airflow/xcom/return.json", sidecar=True)
    assert SPOILT[fault] == execute(core, ["/bin/sh", "-c", "cat /airflow/xcom/return.json 2>&-"])[0]


def test_sidecar_that_fails_and_command_that_is_another(core, either_api):
    either_api.order(PodOrder(PodFault.SIDECAR_FAILS))
    either_api.order(PodOrder(PodFault.COMMAND, command=("sh", "-c", "echo instead; exit 6")))
    pod = run_to_end(core, either_api, "exit 0", sidecar=True)
    assert (("instead",), 6) == (pod.log, pod.exit_code)
    assert 1 == read(core).status.container_statuses[1].state.terminated.exit_code


def test_container_that_waits_as_ordered(core, either_api):
    either_api.order(PodOrder(PodFault.WAIT, reason="ErrImagePull", text="no such image"))
    create(core)
    either_api.wait_for(lambda pod: pod.base_state["waiting"]["reason"] == "ErrImagePull")


@pytest.mark.parametrize("status", [403, 410, 422, 429, 500])
def test_calls_fail_as_often_as_ordered(core, either_api, status):
    create(core, labels={"task_id": "load"})
    either_api.order(CallOrder(Call.READ, status, "task_id=load", times=2, after=1, message="not now"))
    answers = []
    for _ in range(4):
        try:
            answers.append(bool(read(core)))
        except ApiException as error:
            answers.append((error.status, json.loads(error.body)["message"]))
    # Told to come again, the client does so by itself.
    failed = [True, True, True, True] if status == 429 else [True, *[(status, "not now")] * 2, True]
    assert failed == answers
    assert [200, status, status, 200] == [call.status for call in either_api.calls("read")][:4]


def test_exec_can_be_denied(core, either_api):
    run_to_end(core, either_api, sidecar=True)
    either_api.order(CallOrder(Call.EXEC, 403, message="pods/exec is forbidden"))
    assert "403 Forbidden" in refused_exec(core)


def test_every_call_is_written_down(core, either_api):
    create(core)
    core.list_namespaced_pod(DEFAULT, label_selector="a=b")
    with pytest.raises(ApiException):
        read(core, "nobody")
    assert [("create", None, 201), ("list", None, 200), ("read", "nobody", 404)] == [
        (call.call, call.pod, call.status) for call in either_api.calls()
    ]
    assert "a=b" == either_api.calls("list")[0].query["labelSelector"]


def test_version(core, either_api):
    assert "1" == client.VersionApi(core.api_client).get_code().major
