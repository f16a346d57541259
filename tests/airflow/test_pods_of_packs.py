"""What a pack says of a pod stands in the pod that Kubernetes is asked for, and nothing makes it less safe."""

import copy
import re
import textwrap
from datetime import timedelta

import pytest
from airflow.providers.cncf.kubernetes.operators import pod as airflows_operator
from kubernetes.client import ApiClient
from kubernetes.client import models as k8s

from airflow_provider_dpone import DponeDag
from airflow_provider_dpone.pod_security import literal
from airflow_provider_dpone.version_compat import DAG, AirflowException
from dpone_contract.environment import EnvVar
from dpone_contract.errors import PackInvalidError
from dpone_contract.mapping_item import parse_item
from dpone_contract.pack import ExecutionBackend, Hook, Hooks
from dpone_contract.pod import PodArguments, PodResources, SecretVariable
from dpone_contract.process import decode_process, encode_process
from tests.airflow.airflow_stand_ins import DATED, render, round_trip
from tests.factories import make_pack, make_process, make_process_plan

MODES = {"internal": -1, "summary": 1}
EVERYTHING = PodArguments(
    env_vars={"TZ": "UTC"},
    image="registry/dpone:1",
    image_pull_policy="IfNotPresent",
    image_pull_secrets=("registry", "mirror"),
    namespace="loads",
    kubernetes_conn_id="cluster_b",
    service_account_name="loader",
    labels={"team": "1"},
    annotations={"note": "true"},
    node_selector={"disk": "007"},
    tolerations=({"key": "batch", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5},),
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        }
    },
    priority_class_name="batch",
    container_resources=PodResources(requests={"cpu": "500m"}, limits={"memory": "1Gi"}),
    secrets=(SecretVariable(variable="DPONE_CONN_db", secret="connections", key="target"),),
    run_as_user=20002,
    fs_group=30003,
    on_finish_action="delete_succeeded_pod",
    startup_timeout_seconds=77,
    active_deadline_seconds=3600,
    termination_grace_period=40,
    deferrable=True,
    poll_interval=3,
)


def make_dag(pod, mode="internal", *, hooks=None, dag=None, **arguments):
    plan = make_process_plan(
        make_process(mode=mode), backend=ExecutionBackend.KUBERNETES, pod=pod, hooks=hooks
    )
    return DponeDag(make_pack(processes=(plan,), dag=dag or {}), **arguments)


def operator(pod, mode="internal", **dag):
    return render_task(make_dag(pod, mode, **dag).get_task("flights_history"), mode)


def render_task(task, mode="internal"):
    return render(task, DATED, map_index=MODES[mode])


class ClusterlessHook:
    """What the operator asks of its connection, as for a cluster that it runs in itself."""

    is_in_cluster = True

    def get_namespace(self):
        return None

    def __getattr__(self, name):
        return lambda: None


def requested(context):
    """The pod that Kubernetes would be asked for, as it would be sent."""
    task = context["task"]
    task.hook = ClusterlessHook()
    return ApiClient().sanitize_for_serialization(task.build_pod_request_obj(context))


def built(pod, mode="internal", **dag):
    return requested(operator(pod, mode, **dag))


def base_of(pod):
    return pod["spec"]["containers"][0]


def env_of(pod):
    return {entry["name"]: entry for entry in base_of(pod)["env"]}


@pytest.mark.parametrize("mode", MODES)
def test_every_argument_of_the_pack_arrives(mode):
    pod = built(EVERYTHING, mode)
    spec, base = pod["spec"], base_of(pod)
    assert (pod["metadata"]["namespace"], pod["metadata"]["annotations"]) == ("loads", {"note": "true"})
    assert pod["metadata"]["labels"]["team"] == "1"
    assert {
        "image": "registry/dpone:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
        "command": ["dpone"],
    } == {name: base[name] for name in ("image", "imagePullPolicy", "resources", "command")}
    assert {
        "imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}],
        "serviceAccountName": "loader",
        "nodeSelector": {"disk": "007"},
        "tolerations": [
            {"key": "batch", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}
        ],
        "affinity": EVERYTHING.affinity,
        "priorityClassName": "batch",
        "activeDeadlineSeconds": 3600,
        "terminationGracePeriodSeconds": 40,
        "restartPolicy": "Never",
    } == {
        name: spec[name]
        for name in (
            "imagePullSecrets",
            "serviceAccountName",
            "nodeSelector",
            "tolerations",
            "affinity",
            "priorityClassName",
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "restartPolicy",
        )
    }
    assert env_of(pod)["TZ"]["value"] == "UTC"
    assert env_of(pod)["DPONE_CONN_db"] == {
        "name": "DPONE_CONN_db",
        "valueFrom": {"secretKeyRef": {"name": "connections", "key": "target"}},
    }
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (20002, 30003)
    assert base["securityContext"]["runAsUser"] == 20002


@pytest.mark.parametrize("mode", MODES)
def test_every_setting_of_the_operator_arrives(mode):
    task = operator(EVERYTHING, mode)["task"]
    assert {
        "kubernetes_conn_id": "cluster_b",
        "on_finish_action": "delete_succeeded_pod",
        "startup_timeout_seconds": 77,
        "deferrable": True,
        "poll_interval": 3,
        "do_xcom_push": True,
        "get_logs": True,
        "reattach_on_restart": False,
    } == {
        name: getattr(getattr(task, name), "value", getattr(task, name))
        for name in (
            "kubernetes_conn_id",
            "on_finish_action",
            "startup_timeout_seconds",
            "deferrable",
            "poll_interval",
            "do_xcom_push",
            "get_logs",
            "reattach_on_restart",
        )
    }


def test_no_argument_of_a_pack_is_forgotten():
    said = {name for name, value in EVERYTHING if value is not None}
    elsewhere = {"pod_template_file", "pack_path"}
    assert said | elsewhere == set(PodArguments.model_fields)


MINIMAL = PodArguments(image="dpone:1")


@pytest.mark.parametrize("mode", MODES)
def test_a_pack_that_says_little_gets_what_a_load_needs(mode):
    context = operator(MINIMAL, mode)
    task, pod = context["task"], requested(context)
    assert (task.deferrable, task.on_finish_action.value) == (False, "delete_pod")
    assert task.startup_timeout_seconds == 600
    assert pod["metadata"]["namespace"] == "default"
    assert pod["metadata"]["name"].startswith("flights-history-")


RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def require_safe(pod):
    spec = pod["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert base_of(pod)["securityContext"] == RESTRICTED
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
    mounts = {mount["mountPath"]: mount["name"] for mount in base_of(pod)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes[mounts["/tmp"]]["emptyDir"] == {}


@pytest.mark.parametrize("mode", MODES)
def test_pods_are_restricted(mode):
    pod = built(MINIMAL, mode)
    require_safe(pod)
    sidecar = pod["spec"]["containers"][1]
    assert (sidecar["name"], sidecar["securityContext"]) == ("airflow-xcom-sidecar", RESTRICTED)


def test_a_named_service_account_has_its_token():
    assert "automountServiceAccountToken" not in built(EVERYTHING)["spec"]


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "template.yaml"
    path.write_text(
        textwrap.dedent("""
        metadata: {labels: {from: template}}
        spec:
          containers:
          - name: base
            image: unsafe:1
            securityContext: {runAsUser: 0, privileged: true}
            env:
            - {name: TZ, value: Asia/Tokyo}
            - {name: HTTP_PROXY, value: "http://proxy"}
            - {name: DPONE_AIRFLOW_MAPPING_ITEM, value: forged}
            - {name: DPONE_OUTCOME_PATH, value: /elsewhere}
            volumeMounts: [{name: work, mountPath: /work}]
          - name: proxy
            image: proxy:1
          securityContext: {runAsUser: 0}
          initContainers: [{name: prepare, image: "prepare:1"}]
          volumes: [{name: work, emptyDir: {}}]
          nodeSelector: {disk: ssd}
        """)
    )
    return str(path)


@pytest.mark.parametrize("mode", MODES)
def test_a_template_adds_to_the_pack_and_takes_no_safety_away(template, mode):
    pod = built(PodArguments(image="dpone:1", env_vars={"TZ": "UTC"}, pod_template_file=template), mode)
    require_safe(pod)
    env = env_of(pod)
    assert len(env) == len(base_of(pod)["env"]), "a variable stands there twice"
    assert (env["TZ"]["value"], env["HTTP_PROXY"]["value"]) == ("UTC", "http://proxy")
    assert env["DPONE_OUTCOME_PATH"]["value"] == "/airflow/xcom/return.json"
    item = env.get("DPONE_AIRFLOW_MAPPING_ITEM")
    assert item is None if mode == "internal" else parse_item(item["value"]).item_index == 1
    assert base_of(pod)["image"] == "dpone:1"
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert pod["metadata"]["labels"]["from"] == "template"
    assert [container["name"] for container in pod["spec"]["containers"]] == [
        "base",
        "proxy",
        "airflow-xcom-sidecar",
    ]
    assert pod["spec"]["containers"][1]["securityContext"] == RESTRICTED
    assert pod["spec"]["initContainers"][0]["securityContext"] == RESTRICTED


def test_a_template_may_bring_the_image(template):
    assert base_of(built(PodArguments(pod_template_file=template)))["image"] == "unsafe:1"


def test_a_template_is_read_when_the_task_runs(tmp_path):
    later = tmp_path / "later.yaml"
    context = operator(PodArguments(pod_template_file=str(later)))
    later.write_text("spec: {containers: [{name: base, image: 'late:1'}]}")
    assert base_of(requested(context))["image"] == "late:1"


def test_a_template_that_is_not_there_is_not_gone_on_without(tmp_path):
    context = operator(PodArguments(image="dpone:1", pod_template_file=str(tmp_path / "none.yaml")))
    with pytest.raises(AirflowException, match=r"pod template .*none\.yaml is not on this worker"):
        requested(context)


def test_a_pod_mutation_hook_may_put_another_container_first(monkeypatch):
    proxy = k8s.V1Container(name="proxy", image="proxy:1")
    monkeypatch.setattr(
        airflows_operator, "pod_mutation_hook", lambda made: made.spec.containers.insert(0, proxy)
    )
    first, base, *_ = built(MINIMAL, "summary")["spec"]["containers"]
    assert (first["name"], first.get("env")) == ("proxy", None)
    assert (
        parse_item({entry["name"]: entry for entry in base["env"]}[EnvVar.MAPPING_ITEM]["value"]).item_index
        == 1
    )
    assert [mount["mountPath"] for mount in base["volumeMounts"]] == ["/airflow/xcom", "/tmp"]


def test_a_dag_without_a_latin_letter_has_labels_that_kubernetes_takes():
    labels = built(MINIMAL, dag={}, dag_id="данные")["metadata"]["labels"]
    assert re.fullmatch("[0-9a-f]{9}", labels["dag_id"])
    assert labels["task_id"] == "flights_history"


@pytest.mark.parametrize("mode", MODES)
def test_the_process_is_an_argument_once(mode):
    process = make_process(mode=mode)
    assert decode_process(base_of(built(MINIMAL, mode))["args"][2]) == process
    assert base_of(built(MINIMAL, mode))["args"][:2] == ["run", "--process"]


def test_delivery_by_file_names_the_pack_of_the_dag():
    pod = PodArguments(image="dpone:1", pack_path="/packs/$(A)/airflow-pack.json")
    plan = make_process_plan(make_process(mode="internal"), backend=ExecutionBackend.KUBERNETES, pod=pod)
    pack = make_pack(processes=(plan,))
    task = render_task(DponeDag(pack).get_task("flights_history"))
    assert base_of(requested(task))["args"] == [
        "run",
        "--pack",
        "/packs/$$(A)/airflow-pack.json",
        "--process-name",
        "flights_history",
        "--pack-fingerprint",
        pack.fingerprint,
    ]


@pytest.mark.parametrize(
    "text, sent",
    [
        ("$(TZ)", "$$(TZ)"),
        ("a$$b", "a$$$$b"),
        ("$HOME", "$HOME"),
        ("5 $", "5 $"),
        ("x$$(y)$", "x$$$$(y)$$"),
    ],
)
def test_kubernetes_replaces_nothing_in_a_value(text, sent):
    assert literal(text) == sent
    assert env_of(built(PodArguments(image="dpone:1", env_vars={"A": text})))["A"]["value"] == sent


@pytest.mark.parametrize("mode", MODES)
def test_values_reach_the_pod_as_text_also_in_a_native_dag(mode):
    values = {"A": "1", "B": "true", "C": "None", "D": "007", "E": "[1]", "F": "x\n"}
    pod = built(
        PodArguments(image="dpone:1", env_vars=values, labels={"n": "1"}, annotations={"n": "None"}),
        mode,
        render_template_as_native_obj=True,
    )
    assert {name: env_of(pod)[name]["value"] for name in values} == values
    assert (pod["metadata"]["labels"]["n"], pod["metadata"]["annotations"]["n"]) == ("1", "None")


@pytest.mark.parametrize("index", range(4))
def test_each_item_has_a_pod_with_its_own_range(index):
    task = make_dag(MINIMAL, "summary").get_task("flights_history")
    pod = requested(render(task, DATED, map_index=index, try_number=3))
    env = env_of(pod)
    assert parse_item(env["DPONE_AIRFLOW_MAPPING_ITEM"]["value"]).item_index == index
    assert env["DPONE_TRY_NUMBER"]["value"] == "3"
    assert pod["metadata"]["labels"]["map_index"] == str(index)
    assert render(task, DATED, map_index=index)["task"].dpone_label == f"2013-01-0{index + 1}"


def test_building_a_pod_leaves_the_environment_as_it_was():
    context = operator(EVERYTHING)
    before = dict(context["task"].env_vars)
    first, second = requested(context), requested(context)
    assert context["task"].env_vars == before
    assert env_of(first) == env_of(second)


@pytest.mark.parametrize("mode", MODES)
def test_secrets_and_owned_names_cannot_meet(mode):
    for name in EnvVar:
        secret = SecretVariable(variable=name.value, secret="s", key="k")
        with pytest.raises(PackInvalidError, match=f"{name.value} is written by the provider"):
            make_dag(PodArguments(image="dpone:1", secrets=(secret,)), mode)


@pytest.mark.parametrize("mode", MODES)
def test_default_args_of_a_dag_cannot_weaken_a_pod(mode):
    weak = {
        "image": "other:1",
        "security_context": {},
        "container_security_context": {"privileged": True},
        "do_xcom_push": False,
        "skip_on_exit_code": 1,
        "random_name_suffix": False,
        "get_logs": False,
        "arguments": ["x"],
        "cmds": ["sh"],
    }
    context = operator(MINIMAL, mode, default_args=weak)
    pod = requested(context)
    require_safe(pod)
    assert base_of(pod)["image"] == "dpone:1"
    assert (base_of(pod)["command"], base_of(pod)["args"][0]) == (["dpone"], "run")
    assert list(context["task"].skip_on_exit_code) == []
    assert context["task"].do_xcom_push is True


@pytest.mark.parametrize("mode", MODES)
def test_a_deadline_of_the_task_ends_its_pod_too(mode):
    pod = built(MINIMAL, mode, dag={"execution_timeout_seconds": 600})
    assert pod["spec"]["activeDeadlineSeconds"] == 660
    default_args = {"execution_timeout": timedelta(seconds=0.5)}
    assert built(MINIMAL, mode, default_args=default_args)["spec"]["activeDeadlineSeconds"] == 61
    assert "activeDeadlineSeconds" not in built(MINIMAL, mode)["spec"]
    said = PodArguments(image="dpone:1", active_deadline_seconds=100)
    assert built(said, mode, dag={"execution_timeout_seconds": 600})["spec"]["activeDeadlineSeconds"] == 100


@pytest.mark.parametrize(
    "pod, message",
    [
        (PodArguments(), "the pod has no image"),
        (PodArguments(image="i", labels={"try_number": "9"}), "label try_number is written by Airflow"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_pod_that_cannot_be_made_is_refused_when_the_dag_is_built(pod, message, mode):
    with pytest.raises(PackInvalidError, match=message) as caught:
        make_dag(pod, mode)
    assert caught.value.where == "task flights_history"


def test_hooks_have_the_image_secrets_and_safety_of_their_process():
    hooks = Hooks(pre=(Hook(name="first", command=("sh", "-c", "echo $(date)")),))
    plain = EVERYTHING.replaced(run_as_user=None, fs_group=None, service_account_name=None, deferrable=None)
    context = render_task(make_dag(plain, hooks=hooks).get_task("first"))
    pod = requested(context)
    require_safe(pod)
    assert base_of(pod)["image"] == "registry/dpone:1"
    assert (base_of(pod)["command"], base_of(pod)["args"]) == (["sh", "-c", "echo $$(date)"], [])
    assert "DPONE_CONN_db" in env_of(pod)
    assert not {"DPONE_AIRFLOW_RUN_IDENTITY", "DPONE_AIRFLOW_MAPPING_ITEM"} & set(env_of(pod))
    assert [container["name"] for container in pod["spec"]["containers"]] == ["base"]
    assert context["task"].do_xcom_push is False


# --- serialised ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [1, 40])
def test_serialised_dag_holds_process_and_settings_once(items):
    import json

    plan = make_process_plan(make_process(items=items), backend=ExecutionBackend.KUBERNETES, pod=EVERYTHING)
    dag = DponeDag(make_pack(processes=(plan,)))
    try:
        from airflow.serialization.serialized_objects import DagSerialization as Serialization
    except ImportError:
        from airflow.serialization.serialized_objects import SerializedDAG as Serialization
    text = json.dumps(Serialization.to_dict(dag))
    assert text.count(encode_process(plan.process)) == 1
    assert text.count("registry/dpone:1") == 1
    assert "0x" not in text, "an object's address makes every parse another version of the DAG"
    back, _ = round_trip(dag)
    assert back.get_task("flights_history").get_parse_time_mapped_ti_count() == items


def test_serialised_dag_is_the_same_at_each_parse():
    import json

    try:
        from airflow.serialization.serialized_objects import DagSerialization as Serialization
    except ImportError:
        from airflow.serialization.serialized_objects import SerializedDAG as Serialization

    def text():
        hooks = Hooks(
            pre=(Hook(name="first", command=("true",)),), post=(Hook(name="last", command=("true",)),)
        )
        return json.dumps(Serialization.to_dict(make_dag(EVERYTHING, hooks=hooks)), sort_keys=True)

    assert text() == text()


def test_a_dag_of_pods_can_be_copied_as_airflow_does():
    dag = make_dag(EVERYTHING, hooks=Hooks(pre=(Hook(name="first", command=("true",)),)))
    copied = copy.deepcopy(dag)
    assert isinstance(copied, DAG)
    assert base_of(requested(render_task(copied.get_task("flights_history"))))["image"] == "registry/dpone:1"


def test_the_trigger_that_waits_is_ours():
    from airflow_provider_dpone.pod_trigger import DponePodTrigger
    from airflow_provider_dpone.version_compat import TaskDeferred

    context = operator(EVERYTHING, default_args={"on_kill_action": "keep_pod"})
    task = context["task"]
    task.pod = k8s.V1Pod(metadata=k8s.V1ObjectMeta(name="mine", namespace="loads"))
    task.kubernetes_conn_id = None
    with pytest.raises(TaskDeferred) as caught:
        task.invoke_defer_method()
    path, arguments = caught.value.trigger.serialize()
    assert path == f"{DponePodTrigger.__module__}.DponePodTrigger"
    again = DponePodTrigger(**arguments)
    assert (again.pod_name, again.poll_interval) == ("mine", 3)
    assert arguments.get("on_kill_action", "delete_pod") == "delete_pod", (
        "a marked task would leave its pod at work"
    )
    early = k8s.V1Pod(status=k8s.V1PodStatus(phase="Failed", reason="Evicted"))
    assert again.define_container_state(early).value == "failed"
