"""A workload's pod is what its catalog says of it, the workload over the defaults, and nothing that nobody has said."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_contract.pack import Hook, Hooks, dump_pack
from dpone_contract.pod import PodArguments, PodResources, SecretVariable
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.pod_files import CONNECTIONS, HOOKS, POD, WHOLE_POD, pod_workload
from tests.unit.packbuilder.project_files import manifest, workload, write_project

ROOT = Path(__file__).parents[3]
SECRETS = (
    SecretVariable(variable="DPONE_CONN_OPERATIONS", secret="databases", key="operations"),
    SecretVariable(variable="DPONE_CONN_WAREHOUSE", secret="databases", key="warehouse"),
)


def compile_one(folder, entry, *, defaults=None, name="orders", **changes):
    catalog = {"workloads": {name: entry}, **({"defaults": defaults} if defaults else {})}
    write_project(folder, manifests={"orders.yaml": manifest(**changes)}, **catalog)
    review = review_project(load_project(folder))
    assert review.errors == ()
    (pack,) = review.compile_packs(release="r", deployment="d")
    return pack


def pod_of(folder, entry, **arguments):
    return compile_one(folder, entry, **arguments).processes[0].pod


def test_a_pod_has_its_image_and_the_secrets_of_its_connections(tmp_path):
    assert pod_of(tmp_path, pod_workload()) == PodArguments(image=POD["image"], secrets=SECRETS)


def test_every_key_of_a_pod_reaches_the_pack(tmp_path):
    found = pod_of(tmp_path, pod_workload(pod=WHOLE_POD, delivery="file"))
    document = found.to_document()
    assert PodArguments.model_fields.keys() == document.keys()
    renamed = {
        "service_account": "service_account_name",
        "priority_class": "priority_class_name",
        "resources": "container_resources",
        "termination_grace_seconds": "termination_grace_period",
        "poll_interval_seconds": "poll_interval",
    }
    for key, value in WHOLE_POD.items():
        if key != "pack_path":
            assert document[renamed.get(key, key)] == value, key


def test_a_child_process_has_its_variables_alone(tmp_path):
    entry = {**workload(), "pod": {"env_vars": {"TZ": "UTC"}}}
    defaults = {"pod": {"env_vars": {"TZ": "CET", "A": "b"}}}
    assert pod_of(tmp_path, entry, defaults=defaults) == PodArguments(env_vars={"TZ": "UTC", "A": "b"})
    assert pod_of(tmp_path / "plain", workload()) == PodArguments()


@pytest.mark.parametrize("key", ["labels", "annotations", "node_selector", "env_vars"])
def test_blocks_of_names_are_merged_name_by_name(tmp_path, key):
    entry = pod_workload(pod={key: {"a": "own", "b": "own"}})
    found = pod_of(tmp_path, entry, defaults={"pod": {key: {"b": "default", "c": "default"}}})
    assert getattr(found, key) == {"a": "own", "b": "own", "c": "default"}


def test_resources_are_merged_quantity_by_quantity(tmp_path):
    entry = pod_workload(pod={"resources": {"requests": {"cpu": "1"}}})
    defaults = {"pod": {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "4"}}}}
    assert pod_of(tmp_path, entry, defaults=defaults).container_resources == PodResources(
        requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "4"}
    )


def test_lists_and_single_values_are_taken_whole(tmp_path):
    entry = pod_workload(pod={"tolerations": [], "image": "own:1", "deferrable": False})
    defaults = {
        "pod": {
            "tolerations": [{"operator": "Exists"}],
            "image": "default:1",
            "deferrable": True,
            "namespace": "loads",
        }
    }
    found = pod_of(tmp_path, entry, defaults=defaults)
    assert (found.tolerations, found.image, found.deferrable, found.namespace) == (
        None,
        "own:1",
        False,
        "loads",
    )


def test_connections_are_merged_and_only_those_of_the_manifest_are_handed_over(tmp_path):
    own = {"warehouse": {"secret": "own", "key": "uri"}, "unused": {"secret": "s", "key": "k"}}
    defaults = {"connections": {**CONNECTIONS, "other": {"secret": "s", "key": "k"}}}
    found = pod_of(tmp_path, pod_workload(connections=own), defaults=defaults)
    assert found.secrets == (
        SECRETS[0],
        SecretVariable(variable="DPONE_CONN_WAREHOUSE", secret="own", key="uri"),
    )


def test_hooks_get_what_their_workload_lists_and_not_what_others_share(tmp_path):
    own = {**CONNECTIONS, "re-ports": {"secret": "s", "key": "k"}}
    defaults = {"connections": {"other": {"secret": "s", "key": "k"}}}
    found = pod_of(tmp_path, pod_workload(connections=own, hooks=HOOKS), defaults=defaults)
    assert [secret.variable for secret in found.secrets or ()] == [
        "DPONE_CONN_OPERATIONS",
        "DPONE_CONN_RE_PORTS",
        "DPONE_CONN_WAREHOUSE",
    ]


@pytest.mark.parametrize(
    "path, delivered",
    [
        ("/packs", "/packs/orders/airflow-pack.json"),
        ("/packs/", "/packs/orders/airflow-pack.json"),
        ("/packs/orders.json", "/packs/orders.json"),
    ],
)
def test_a_pack_is_found_in_its_file_or_in_the_folder_of_its_release(tmp_path, path, delivered):
    assert pod_of(tmp_path, pod_workload(pod={"pack_path": path}, delivery="file")).pack_path == delivered


def test_with_delivery_by_file_a_process_may_be_larger_than_an_argument(tmp_path):
    words = [f"{random.Random(i).getrandbits(400):x}" for i in range(2000)]
    entry = pod_workload(pod={"pack_path": "/packs"}, delivery="file")
    assert len(dump_pack(compile_one(tmp_path, entry, sink__strategy__unique_key=words))) > 96 * 1024


def test_hooks_gate_and_timeout_are_in_the_pack(tmp_path):
    pack = compile_one(tmp_path, pod_workload(hooks=HOOKS, outcome_gate=True, execution_timeout_seconds=60))
    assert pack.processes[0].hooks == Hooks(
        pre=(Hook(name="announce", command=("sh", "-c", "echo $(date) ${DPONE_DAG_RUN_ID}")),),
        post=(Hook(name="refresh", command=("python", "-m", "reports")),),
    )
    assert pack.processes[0].outcome_gate is True
    assert pack.dag.execution_timeout_seconds == 60


def test_a_list_of_hooks_replaces_that_of_the_defaults(tmp_path):
    entry = pod_workload(hooks={"pre": []})
    found = compile_one(tmp_path, entry, defaults={"airflow": {"hooks": HOOKS}}).processes[0].hooks
    assert (found.pre, [hook.name for hook in found.post]) == ((), ["refresh"])


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_keys_moves_no_byte(tmp_path, seed):
    entry = pod_workload(pod=WHOLE_POD, hooks=HOOKS, delivery="file")
    expected = dump_pack(compile_one(tmp_path / "one", entry))
    assert expected == dump_pack(compile_one(tmp_path / "other", shuffled(entry, random.Random(seed))))


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_pod_is_the_same_bytes_whatever_the_hash_seed(tmp_path, seed):
    connections = {**CONNECTIONS, **{f"c{number}": {"secret": "s", "key": "k"} for number in range(9)}}
    entry = pod_workload(pod=WHOLE_POD, hooks=HOOKS, delivery="file", connections=connections)
    expected = dump_pack(compile_one(tmp_path / "project", entry))
    subprocess.run(
        [
            *(sys.executable, "-m", "dpone_packbuilder", "pack", "build", "project"),
            *("--out", "packs", "--release", "r", "--deployment", "d"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "packbuilder")},
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "packs" / "orders" / "airflow-pack.json").read_bytes() == expected


def shuffled(value, order):
    """Give the same document with the keys of every block in another order."""
    if isinstance(value, list):
        return [shuffled(inner, order) for inner in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    order.shuffle(keys)
    return {key: shuffled(value[key], order) for key in keys}
