"""A pod holds no template, and its variables no credential and no name that is somebody else's."""

import json

import pytest

from dpone_contract.environment import EnvVar
from dpone_contract.errors import ErrorCode
from tests.unit.packbuilder.pod_files import (
    check,
    line_of_block,
    only,
    pod_workload,
)
from tests.unit.packbuilder.project_files import workload


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("mark", ["{{ ds }}", "{% if a %}", "{# note #}"])
@pytest.mark.parametrize(
    "pod",
    [
        {"image": "a:MARK"},
        {"namespace": "MARK"},
        {"labels": {"a": "MARK"}},
        {"annotations": {"a": "x MARK y"}},
        {"annotations": {"MARK": "a"}},
        {"node_selector": {"a": "MARK"}},
        {"env_vars": {"A": "MARK"}},
        {"image_pull_secrets": ["MARK"]},
        {"tolerations": [{"key": "MARK", "operator": "Exists"}]},
        {"affinity": {"nodeAffinity": {"MARK": 1}}},
        {"resources": {"limits": {"cpu": "MARK"}}},
        {"pod_template_file": "/a/MARK"},
        {"service_account": "MARK"},
    ],
    ids=lambda pod: next(iter(pod)),
)
def test_a_template_anywhere_in_a_pod_is_refused(tmp_path, pod, mark):
    text = json.dumps(pod).replace("MARK", mark)
    finding = only(check(tmp_path, pod_workload(pod=json.loads(text))))
    assert (finding.code, finding.message) == (
        ErrorCode.MANIFEST_INVALID,
        f"pod.{next(iter(pod))} holds {mark[:2]}, and nothing in pod is a template",
    )
    assert "DPONE_INTERVAL_START" in finding.next_step


@pytest.mark.parametrize("in_pods", [True, False], ids=["pod", "child process"])
@pytest.mark.parametrize(
    "name, text, told, way_out",
    [
        *((owned.value, "x", "is written by the provider", "remove it") for owned in EnvVar),
        ("DPONE_CONN_WAREHOUSE", "x", "would hold a connection", "connections"),
        ("AIRFLOW_CONN_WAREHOUSE", "x", "would hold a connection", "connections"),
        ("AIRFLOW__CORE__FERNET_KEY", "x", "would configure Airflow itself", "remove it"),
        ("DPONE_WORKERS", "4", "are dpone's own", "DPONE_CONNECTIONS_DIR"),
        ("A B", "x", "is not the name of a variable", "letters"),
        ("1A", "x", "is not the name of a variable", "letters"),
        ("PGPASSWORD", "x", "named like a credential", "connections"),
        ("api_token", "x", "named like a credential", "connections"),
        ("CLIENT_SECRET", "x", "named like a credential", "connections"),
        ("TARGET", "postgresql://u:pw@host/db", "seems to hold a credential", "connections"),
        ("OPTIONS", "--password=pw", "seems to hold a credential", "connections"),
        ("DSN", "host=h password=pw", "seems to hold a credential", "connections"),
        ("KEY", "-----BEGIN RSA PRIVATE KEY-----", "seems to hold a credential", "connections"),
        ("JSON", '{"token": "abc"}', "seems to hold a credential", "connections"),
        ("LONG", "x" * (127 * 1024 + 1), "has 130049 bytes, more than 130048", "file"),
        ("DAY", "{{ ds }}", "nothing in pod is a template", "DPONE_INTERVAL_START"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_variable_that_is_not_the_workloads_to_set_is_refused(tmp_path, in_pods, name, text, told, way_out):
    variables = {"env_vars": {name: text}}
    entry = pod_workload(pod=variables) if in_pods else {**workload(), "pod": variables}
    finding = only(check(tmp_path, entry))
    assert (ErrorCode.MANIFEST_INVALID, line_of_block(tmp_path / "workloads.yaml", name)) == (
        finding.code,
        finding.line,
    )
    assert told in finding.message
    assert way_out in finding.next_step
    assert "pw" not in finding.message


@pytest.mark.parametrize(
    "variables",
    [
        {"A": "a" * (127 * 1024)},
        {"URL": "https://example.com/a?b=c"},
        {"URL": "postgresql://user:$PW@host/db"},
        {"AS_WRITTEN": "$(DPONE_CONN_WAREHOUSE) $$"},
        {"TEXT": "passwords are not written here"},
        {"DPONE_BACKFILL_STATE_DIR": "/tmp/dpone"},
    ],
    ids=lambda variables: next(iter(variables.items()))[1][:30],
)
def test_a_plain_variable_is_accepted(tmp_path, variables):
    assert check(tmp_path, pod_workload(pod={"env_vars": variables})) == ()
