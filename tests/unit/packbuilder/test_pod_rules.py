"""What a pod needs and may not have is told at its key, with the way out; a whole pod has no finding."""

import pytest

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Severity
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.pod_files import CONNECTIONS, HOOKS, WHOLE_POD, check, only, pod_workload
from tests.unit.packbuilder.project_files import line_of, manifest, workload, write_project


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_whole_pod_has_no_finding(tmp_path):
    entry = pod_workload(pod=WHOLE_POD, hooks=HOOKS, delivery="file", execution_timeout_seconds=3600)
    assert check(tmp_path, entry) == ()


def test_a_pod_of_an_image_and_two_secrets_has_no_finding(tmp_path):
    assert check(tmp_path, pod_workload()) == ()


def test_the_pod_of_the_defaults_has_no_finding(tmp_path):
    defaults = {"pod": {"image": "dpone:1"}, "connections": CONNECTIONS}
    assert check(tmp_path, {"manifest": "orders.yaml"}, defaults=defaults) == ()


@pytest.mark.parametrize(
    "times, key",
    [
        ({"startup_timeout_seconds": 600, "active_deadline_seconds": 600}, "active_deadline_seconds"),
        ({"startup_timeout_seconds": 600, "active_deadline_seconds": 60}, "active_deadline_seconds"),
    ],
)
def test_a_pod_is_not_ended_before_it_may_have_started(tmp_path, times, key):
    finding = only(check(tmp_path, pod_workload(pod=times)))
    assert line_of(tmp_path / "workloads.yaml", key) == finding.line


def test_a_task_is_not_ended_before_its_pod_may_have_started(tmp_path):
    entry = pod_workload(pod={"startup_timeout_seconds": 600}, execution_timeout_seconds=500)
    finding = only(check(tmp_path, entry))
    assert line_of(tmp_path / "workloads.yaml", "execution_timeout_seconds") == finding.line


def test_a_pause_that_nobody_waits_is_a_warning(tmp_path):
    finding = only(check(tmp_path, pod_workload(pod={"poll_interval_seconds": 5})))
    assert (Severity.WARNING, line_of(tmp_path / "workloads.yaml", "poll_interval_seconds")) == (
        finding.severity,
        finding.line,
    )
    assert "deferrable: true" in finding.next_step


# Connections


def test_a_connection_without_a_secret_is_found(tmp_path):
    finding = only(check(tmp_path, pod_workload(connections={"warehouse": CONNECTIONS["warehouse"]})))
    assert (finding.code, finding.severity, finding.line) == (
        ErrorCode.CONNECTION_MISSING,
        Severity.ERROR,
        line_of(tmp_path / "workloads.yaml", "connections"),
    )
    assert finding.message == "the pod of this workload has no secret for its connection operations"
    assert finding.next_step == "add under connections: `operations: { secret: SECRET, key: KEY }`"


@pytest.mark.parametrize(
    "pod", [{"pod_template_file": "/a.yaml"}, {"env_vars": {"DPONE_CONNECTIONS_DIR": "/connections"}}]
)
def test_what_brings_connections_from_elsewhere_makes_it_a_warning(tmp_path, pod):
    findings = check(tmp_path, pod_workload(pod=pod, connections={}))
    assert [(found.code, found.severity) for found in findings] == [
        (ErrorCode.CONNECTION_MISSING, Severity.WARNING)
    ] * len(findings)
    assert findings


def test_a_secret_that_no_connection_uses_is_a_warning_unless_hooks_may_use_it(tmp_path):
    connections = {**CONNECTIONS, "reports": {"secret": "databases", "key": "reports"}}
    finding = only(check(tmp_path / "plain", pod_workload(connections=connections)))
    assert (Severity.WARNING, line_of(tmp_path / "plain" / "workloads.yaml", "reports")) == (
        finding.severity,
        finding.line,
    )
    assert finding.message == "no pod gets the secret of reports: orders uses operations and warehouse"
    assert check(tmp_path / "hooks", pod_workload(connections=connections, hooks=HOOKS)) == ()


@pytest.mark.parametrize(
    "secret, key",
    [({"secret": "Data_Bases", "key": "k"}, "secret"), ({"secret": "s", "key": "a/b"}, "key")],
)
def test_a_secret_and_its_key_are_names(tmp_path, secret, key):
    connections = {"operations": CONNECTIONS["operations"], "warehouse": secret}
    finding = only(check(tmp_path, pod_workload(connections=connections)))
    lines = (tmp_path / "workloads.yaml").read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if "warehouse" in line)
    assert finding.line == at + (2 if key == "secret" else 3)


def test_two_connections_cannot_be_one_variable(tmp_path):
    connections = {name: {"secret": "s", "key": "k"} for name in ("data-base", "data_base")}
    changes = {"source__connection_ref": "data-base", "sink__connection_ref": "data_base"}
    finding = only(check(tmp_path, pod_workload(connections=connections), **changes))
    assert finding.message == (
        "connections data-base and data_base would both be the variable DPONE_CONN_DATA_BASE"
    )


# Backends, delivery, ledger


@pytest.mark.parametrize("key", [key for key in WHOLE_POD if key != "env_vars"])
def test_a_child_process_has_no_pod(tmp_path, key):
    finding = only(check(tmp_path, {**workload(), "pod": {key: WHOLE_POD[key]}}))
    assert (ErrorCode.MANIFEST_INVALID, line_of(tmp_path / "workloads.yaml", key)) == (
        finding.code,
        finding.line,
    )
    assert finding.message.startswith(f"pod.{key} belongs to the kubernetes backend")
    assert "backend: kubernetes" in finding.next_step


def test_a_child_process_has_no_secrets(tmp_path):
    finding = only(check(tmp_path, {**workload(), "connections": CONNECTIONS}))
    assert line_of(tmp_path / "workloads.yaml", "connections") == finding.line
    assert "AIRFLOW_CONN_<NAME>" in finding.next_step


def test_defaults_of_pods_hold_for_those_that_run_in_pods(tmp_path):
    defaults = {"pod": {"image": "dpone:1"}, "connections": CONNECTIONS}
    write_project(
        tmp_path,
        workloads={"one": workload(), "two": {"manifest": "two.yaml"}},
        manifests={"orders.yaml": manifest(), "two.yaml": manifest(sink__table__name="other")},
        defaults=defaults,
    )
    assert check_project(load_project(tmp_path)) == ()


@pytest.mark.parametrize("key", [key for key in WHOLE_POD if key != "env_vars"])
def test_defaults_of_pods_need_a_pod(tmp_path, key):
    finding = only(check(tmp_path, workload(), defaults={"pod": {key: WHOLE_POD[key]}}))
    assert line_of(tmp_path / "workloads.yaml", key) == finding.line
    assert finding.message.endswith("every workload runs as a child process")


def test_a_secret_of_the_defaults_that_no_pod_gets_is_a_warning(tmp_path):
    defaults = {"connections": {**CONNECTIONS, "wherehouse": {"secret": "s", "key": "k"}}}
    finding = only(check(tmp_path, pod_workload(), defaults=defaults))
    assert (Severity.WARNING, line_of(tmp_path / "workloads.yaml", "wherehouse")) == (
        finding.severity,
        finding.line,
    )


@pytest.mark.parametrize(
    "entry, key, told",
    [
        (workload(delivery="file"), "delivery", "runs as a child process"),
        (pod_workload(delivery="file"), "delivery", "needs pod.pack_path"),
        (pod_workload(pod={"pack_path": "/packs"}), "pack_path", "is read with delivery: file alone"),
        (pod_workload(pod={"pack_path": "packs"}, delivery="file"), "pack_path", "is not an absolute path"),
        (
            pod_workload(pod={"pack_path": "/" + "a" * 249}, delivery="file"),
            "pack_path",
            "has 275 characters",
        ),
    ],
)
def test_delivery_by_file_and_its_path_need_each_other(tmp_path, entry, key, told):
    finding = only(check(tmp_path, entry))
    assert line_of(tmp_path / "workloads.yaml", key) == finding.line
    assert told in finding.message


def test_a_default_path_of_packs_that_nobody_reads_is_refused(tmp_path):
    finding = only(check(tmp_path, pod_workload(), defaults={"pod": {"pack_path": "/packs"}}))
    assert line_of(tmp_path / "workloads.yaml", "pack_path") == finding.line


def test_a_ledger_in_a_folder_is_refused_in_pods(tmp_path):
    changes = {"backfill__state": {"backend": "local_file"}}
    entry = pod_workload(mapping={"mode": "internal"})
    finding = only(check(tmp_path, entry, **changes))
    assert (finding.code, finding.path, finding.line) == (
        ErrorCode.BACKFILL_STATE_UNSUPPORTED,
        "orders.yaml",
        line_of(tmp_path / "orders.yaml", "backend"),
    )
    assert "audit_schema" in finding.next_step


def test_retries_above_the_retry_authority_are_refused_in_pods_too(tmp_path):
    finding = only(check(tmp_path, pod_workload(retries=4)))
    assert (ErrorCode.RETRY_AUTHORITY_EXCEEDED, line_of(tmp_path / "workloads.yaml", "retries")) == (
        finding.code,
        finding.line,
    )
