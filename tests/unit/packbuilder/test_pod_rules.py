"""What a pod needs and may not have is told at its key, with the way out; a whole pod has no finding."""

import json

import pytest

from dpone_contract.environment import EnvVar
from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Severity
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.pod_files import CONNECTIONS, HOOKS, WHOLE_POD, pod_workload
from tests.unit.packbuilder.project_files import line_of, manifest, workload, write_project


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def check(folder, entry, *, defaults=None, **changes):
    catalog = {"workloads": {"orders": entry}, **({"defaults": defaults} if defaults else {})}
    write_project(folder, manifests={"orders.yaml": manifest(**changes)}, **catalog)
    return check_project(load_project(folder))


def only(findings):
    assert len(findings) == 1, [f"{found.where} {found.code} {found.message}" for found in findings]
    assert findings[0].next_step
    return findings[0]


def test_a_whole_pod_has_no_finding(tmp_path):
    entry = pod_workload(pod=WHOLE_POD, hooks=HOOKS, delivery="file", execution_timeout_seconds=3600)
    assert check(tmp_path, entry) == ()


def test_a_pod_of_an_image_and_two_secrets_has_no_finding(tmp_path):
    assert check(tmp_path, pod_workload()) == ()


def test_the_pod_of_the_defaults_has_no_finding(tmp_path):
    defaults = {"pod": {"image": "dpone:1"}, "connections": CONNECTIONS}
    assert check(tmp_path, {"manifest": "orders.yaml"}, defaults=defaults) == ()


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


def line_of_block(path, key):
    """Give the line of a key of the pod, which may stand above it in another block too."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pod = next(number for number, line in enumerate(lines) if line.strip().startswith("pod:"))
    written = (f"{key}:", f"{json.dumps(key)}:")
    return next(n for n, line in enumerate(lines[pod:], pod + 1) if line.strip().startswith(written))


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


# Templates, credentials, names


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


# Hooks


def hooked(*commands, names=("a", "b", "c"), block="post"):
    return {
        block: [{"name": name, "command": command} for name, command in zip(names, commands, strict=False)]
    }


@pytest.mark.parametrize("in_pods", [True, False], ids=["pod", "child process"])
@pytest.mark.parametrize(
    "hooks, told",
    [
        (hooked(["a"], ["b"], names=("x", "x")), "hook x has the name of another hook"),
        ({**hooked(["a"], block="pre"), **hooked(["a"])}, "hook a has the name of another hook"),
        (hooked(["a"], names=("orders",)), "hook orders has the name of the task of the load"),
        (hooked(["a"], names=("orders_gate",)), "hook orders_gate has the name of the gate"),
        (hooked(["a"], names=("a b",)), "name 'a b' is not allowed"),
        (hooked([]), "command must have at least 1 item"),
        (hooked(["sleep", 5]), "command[1] must be text"),
        (hooked(["a", None]), "command[1] must be text"),
        (hooked(["a", True]), "command[1] must be text"),
        (hooked([" ", "x"]), "begins with nothing"),
        (hooked(["a", "{{ ds }}"]), "holds {{, and nothing in it is a template"),
        (hooked(["a", "{% raw %}"]), "holds {%, and nothing in it is a template"),
        (hooked(["psql", "postgresql://u:pw@h/d"]), "seems to hold a credential"),
        (hooked(["x", "--token=pw"]), "seems to hold a credential"),
        (hooked(["a" * 10_000, "b" * 10_000]), "has 20002 bytes, more than 16384"),
        ({"pre": [{"name": "a"}]}, "key 'command' is missing in"),
        ({"before": []}, "unknown key 'before'"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_hook_that_cannot_be_a_task_is_refused(tmp_path, in_pods, hooks, told):
    entry = pod_workload(hooks=hooks)
    if not in_pods:
        entry = workload()
        entry["airflow"]["hooks"] = hooks
    finding = only(check(tmp_path, entry))
    block = next(reversed(hooks))
    assert (ErrorCode.MANIFEST_INVALID, "workloads.yaml") == (finding.code, finding.path)
    assert finding.line == line_of(tmp_path / "workloads.yaml", block) or "missing" in told
    assert told in finding.message
    assert "pw" not in finding.message


def test_more_than_twenty_hooks_are_refused(tmp_path):
    hooks = {"pre": [{"name": f"h{number}", "command": ["a"]} for number in range(21)]}
    assert "pre must have at most 20 items" in only(check(tmp_path, pod_workload(hooks=hooks))).message
