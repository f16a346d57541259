"""What Kubernetes would refuse of a pod, and what YAML reads as no text, is told at its key."""

import json

import pytest

from dpone_contract.errors import ErrorCode
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.pod_files import (
    check,
    line_of_block,
    only,
    pod_workload,
)
from tests.unit.packbuilder.project_files import line_of, write_project


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "pod, key, told",
    [
        ({"image": None}, "pod", "needs pod.image"),
        ({"image": "a b"}, "image", "'a b' is not an image"),
        ({"image": ""}, "image", "at least 1 character"),
        (
            {"image_pull_secrets": ["Registry"]},
            "image_pull_secrets",
            "'Registry' is not the name of a secret",
        ),
        ({"image_pull_policy": "always"}, "image_pull_policy", "'always' is not known"),
        ({"namespace": "Loads"}, "namespace", "'Loads' is not a namespace"),
        ({"namespace": "a." + "b" * 63}, "namespace", "is not a namespace"),
        ({"service_account": "-a"}, "service_account", "'-a' is not a service account"),
        ({"priority_class": "a_b"}, "priority_class", "'a_b' is not a priority class"),
        ({"kubernetes_conn_id": "a b"}, "kubernetes_conn_id", "'a b' is not allowed"),
        ({"pod_template_file": "load.yaml"}, "pod_template_file", "'load.yaml' is not an absolute path"),
        ({"run_as_user": 0}, "run_as_user", "is root"),
        ({"run_as_user": "root"}, "run_as_user", "must be a whole number"),
        ({"fs_group": 0}, "fs_group", "greater than or equal to 1"),
        ({"on_finish_action": "delete"}, "on_finish_action", "'delete' is not known"),
        ({"deferrable": "yes"}, "deferrable", "must be true or false"),
        ({"active_deadline_seconds": 0}, "active_deadline_seconds", "greater than or equal to 1"),
        ({"labels": {"a b": "c"}}, "a b", "'a b' is not a key of labels"),
        ({"labels": {"/a": "c"}}, "/a", "'/a' is not a key of labels"),
        ({"labels": {"a" * 64: "c"}}, "a" * 64, "is not a key of labels"),
        ({"labels": {"a": "b" * 64}}, "a", "is not the value of a label"),
        ({"labels": {"a": "two words"}}, "a", "'two words' is not the value of a label"),
        ({"labels": {"dag_id": "x"}}, "dag_id", "the label dag_id is Airflow's own"),
        ({"node_selector": {"a": "-"}}, "a", "'-' is not the value of a label"),
        ({"annotations": {"A/b": "c"}}, "A/b", "'A/b' is not a key of annotations"),
        ({"annotations": {"a": "b" * 2**18}}, "annotations", "annotations have 262145 bytes"),
        ({"resources": {"requests": {"cpu": "one"}}}, "cpu", "'one' is not a quantity"),
        ({"resources": {"requests": {"cpu": "0"}}}, "cpu", "'0' is not a quantity"),
        ({"resources": {"limits": {"memory": "512MiB"}}}, "memory", "'512MiB' is not a quantity"),
        ({"resources": {"limits": {"memory": "512m"}}}, "memory", "is less than a mebibyte"),
        ({"resources": {"limits": {"a b": "1"}}}, "a b", "'a b' is not a resource"),
        (
            {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1000Mi"}}},
            "memory",
            "requests memory 1Gi is above its limit, 1000Mi",
        ),
        ({"tolerations": [{"kee": "a", "operator": "Exists"}]}, "tolerations", "unknown key 'kee'"),
        ({"tolerations": [{"effect": "NoExecute"}]}, "tolerations", "tolerates every taint"),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "tolerations",
            "takes no value",
        ),
        ({"tolerations": [{"key": "a", "value": True}]}, "tolerations", "value must be text"),
        ({"affinity": {"nodeAfinity": {}}}, "nodeAfinity", "unknown key 'nodeAfinity'"),
        ({"affinity": {"podAffinity": {"required": []}}}, "required", "unknown key 'required'"),
        ({"affinity": {"podAffinity": []}}, "podAffinity", "must be a block of keys"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else None,
)
def test_what_kubernetes_would_refuse_is_found_at_its_key(tmp_path, pod, key, told):
    finding = only(check(tmp_path, pod_workload(pod=pod)))
    expected = line_of_block(tmp_path / "workloads.yaml", key)
    assert (ErrorCode.MANIFEST_INVALID, "workloads.yaml", expected) == (
        finding.code,
        finding.path,
        finding.line,
    )
    assert told in finding.message


@pytest.mark.parametrize("block", ["labels", "annotations", "node_selector", "env_vars"])
@pytest.mark.parametrize("written", ["1", "1.0", "true", "null", "", "[a]"])
def test_what_yaml_reads_as_no_text_is_refused_with_quotes_as_the_way_out(tmp_path, block, written):
    write_project(tmp_path, workloads={"orders": pod_workload(pod={block: {"a": "WRITTEN"}})})
    path = tmp_path / "workloads.yaml"
    path.write_text(path.read_text().replace('"WRITTEN"', written))
    finding = only(check_project(load_project(tmp_path)))
    assert (finding.message, finding.line) == ("a must be text", line_of(path, "a"))
    assert finding.next_step == "write text; put quotes around it"


@pytest.mark.parametrize("written", ["1", "0.5", "1e3"])
def test_a_quantity_without_quotes_is_refused(tmp_path, written):
    entry = pod_workload(pod={"resources": {"limits": {"cpu": "WRITTEN"}}})
    write_project(tmp_path, workloads={"orders": entry})
    path = tmp_path / "workloads.yaml"
    path.write_text(path.read_text().replace('"WRITTEN"', written))
    finding = only(check_project(load_project(tmp_path)))
    assert (finding.message, finding.next_step) == ("cpu must be text", "write text; put quotes around it")


def test_a_hint_tells_what_a_small_memory_was_meant_to_be(tmp_path):
    finding = only(check(tmp_path, pod_workload(pod={"resources": {"limits": {"memory": "512m"}}})))
    assert finding.next_step == 'did you mean "512Mi"?'
