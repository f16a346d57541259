"""What a catalog says of a pod is what Kubernetes is asked for: through the builder, a pack, the DAG and Airflow's own operator."""

import pytest
from kubernetes.client import ApiClient

from airflow_provider_dpone import DponeDag
from dpone_contract.pack import dump_pack, parse_pack
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.project import load_project
from tests.airflow.airflow_stand_ins import round_trip
from tests.golden.pod_packs import PROJECTS, compile_pod_pack
from tests.unit.packbuilder.pod_files import HOOKS, POD, WHOLE_POD, pod_workload
from tests.unit.packbuilder.project_files import write_project

# A template has to lie there, and a connection has to be known to Airflow.
OF_A_CATALOG = {
    key: value
    for key, value in WHOLE_POD.items()
    if key not in ("pod_template_file", "kubernetes_conn_id", "pack_path")
}


@pytest.fixture(scope="module")
def dag(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    entry = pod_workload(mapping={"mode": "internal"}, pod=OF_A_CATALOG, hooks=HOOKS)
    write_project(folder, workloads={"orders": entry})
    review = review_project(load_project(folder))
    assert review.findings == ()
    (pack,) = review.compile_packs(release="r", deployment="d")
    return DponeDag(parse_pack(dump_pack(pack)))


class NoCluster:
    """What Airflow's hook says of a cluster when a pod is built, and nothing was set for its sidecars."""

    is_in_cluster = False

    def get_xcom_sidecar_container_image(self):
        return None

    get_xcom_sidecar_container_resources = get_xcom_sidecar_container_image
    get_xcom_sidecar_container_security_context = get_xcom_sidecar_container_image


def pod_of(dag, task_id):
    """Give the pod that a task would ask for, as Kubernetes reads it."""
    task = dag.get_task(task_id)
    task.hook = NoCluster()
    return ApiClient().sanitize_for_serialization(task.build_pod_request_obj(None))


@pytest.mark.parametrize("task_id", ["announce", "orders", "refresh"])
def test_every_key_of_a_catalog_reaches_the_pod_of_load_and_hooks(dag, task_id):
    pod = pod_of(dag, task_id)
    metadata, spec = pod["metadata"], pod["spec"]
    (base, *_) = spec["containers"]
    assert base["image"] == POD["image"]
    assert base["imagePullPolicy"] == WHOLE_POD["image_pull_policy"]
    assert base["resources"] == WHOLE_POD["resources"]
    assert metadata["namespace"] == WHOLE_POD["namespace"]
    assert WHOLE_POD["labels"].items() <= metadata["labels"].items()
    assert WHOLE_POD["annotations"].items() <= metadata["annotations"].items()
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["serviceAccountName"] == WHOLE_POD["service_account"]
    assert spec["nodeSelector"] == WHOLE_POD["node_selector"]
    assert spec["tolerations"] == WHOLE_POD["tolerations"]
    assert spec["affinity"] == WHOLE_POD["affinity"]
    assert spec["priorityClassName"] == WHOLE_POD["priority_class"]
    assert spec["activeDeadlineSeconds"] == WHOLE_POD["active_deadline_seconds"]
    assert spec["terminationGracePeriodSeconds"] == WHOLE_POD["termination_grace_seconds"]
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (1000, 1000)


@pytest.mark.parametrize("task_id", ["announce", "orders", "refresh"])
def test_variables_are_texts_and_connections_come_from_secrets(dag, task_id):
    (base, *_) = pod_of(dag, task_id)["spec"]["containers"]
    env = {entry["name"]: entry for entry in base["env"]}
    assert {name: env[name]["value"] for name in WHOLE_POD["env_vars"]} == WHOLE_POD["env_vars"]
    assert {
        name: entry["valueFrom"]["secretKeyRef"] for name, entry in env.items() if "valueFrom" in entry
    } == {
        "DPONE_CONN_OPERATIONS": {"name": "databases", "key": "operations"},
        "DPONE_CONN_WAREHOUSE": {"name": "databases", "key": "warehouse"},
    }


def test_what_the_operator_itself_does_is_as_the_catalog_says(dag):
    task = dag.get_task("orders")
    assert (task.deferrable, task.poll_interval, task.startup_timeout_seconds) == (True, 10, 300)
    assert task.on_finish_action.value == WHOLE_POD["on_finish_action"]


@pytest.mark.parametrize("name", PROJECTS)
def test_the_golden_packs_of_pods_are_dags_that_can_be_stored(tmp_path, name):
    dag = DponeDag(compile_pod_pack(tmp_path, name))
    found, _ = round_trip(dag)
    assert sorted(found.task_dict) == sorted(dag.task_dict)
