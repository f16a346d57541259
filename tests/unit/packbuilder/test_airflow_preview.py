"""`dpone airflow preview` tells what Airflow and a cluster will need, of a project and of a built pack, and holds no secret."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_contract.errors import ExitCode
from dpone_contract.pack import dump_pack
from dpone_packbuilder.airflow_preview import airflow_preview
from dpone_packbuilder.airflow_sections import airflow_reports
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.cli import run_command_line
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.pod_files import HOOKS, WHOLE_POD, pod_workload
from tests.unit.packbuilder.project_files import manifest, workload, write_project

ROOT = Path(__file__).parents[3]
OUTLET = "postgres://warehouse/analytics/orders"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def compile_one(folder, entry, **changes):
    write_project(folder, workloads={"orders": entry}, manifests={"orders.yaml": manifest(**changes)})
    review = review_project(load_project(folder))
    assert review.errors == ()
    (pack,) = review.compile_packs(release="r", deployment="d")
    return pack


def process_of(folder, entry, **changes):
    (workload_,) = airflow_preview((compile_one(folder, entry, **changes),)).workloads
    return workload_.processes[0]


def sections_of(folder, entry, **changes):
    ((_, sections),) = airflow_reports((compile_one(folder, entry, **changes),))
    return sections


def told(folder, entry, **changes):
    """Give what is told to people: the value of each name, the last of several."""
    return {row[0]: row[-1] for section in sections_of(folder, entry, **changes) for row in section.rows}


def commands(folder, entry):
    return [command for section in sections_of(folder, entry) for command in section.commands]


def kinds(process):
    return [(task.task_id, task.kind.value, task.runs_in, task.instances) for task in process.tasks]


def test_tasks_stand_in_the_order_in_which_they_run(tmp_path):
    assert kinds(process_of(tmp_path, pod_workload(hooks=HOOKS, outlets=[OUTLET]))) == [
        ("announce", "pre_hook", "pod", 1),
        ("orders", "load", "pod", 4),
        ("orders_gate", "gate", "worker", 1),
        ("refresh", "post_hook", "pod", 1),
    ]


@pytest.mark.parametrize(
    "execution, gated",
    [({}, False), ({"outcome_gate": True}, True), ({"outlets": [OUTLET]}, True)],
    ids=["nothing", "asked for", "outlets"],
)
def test_a_gate_is_there_where_the_provider_makes_one(tmp_path, execution, gated):
    process = process_of(tmp_path, workload(mapping={"mode": "internal"}, **execution))
    expected = [("orders", "load", "child process", 1), ("orders_gate", "gate", "worker", 1)]
    assert kinds(process) == expected[: 2 if gated else 1]


def test_a_gate_stands_before_post_hooks_and_not_behind_pre_hooks_alone(tmp_path):
    entry = pod_workload(mapping={"mode": "internal"}, hooks={"post": HOOKS["post"]})
    assert [task[0] for task in kinds(process_of(tmp_path, entry))] == ["orders", "orders_gate", "refresh"]
    entry = pod_workload(mapping={"mode": "internal"}, hooks={"pre": HOOKS["pre"]})
    assert [task[0] for task in kinds(process_of(tmp_path, entry))] == ["announce", "orders"]


def test_every_label_is_in_the_document_and_the_ends_are_told(tmp_path):
    entry = pod_workload(mapping={"mode": "visible"})
    assert process_of(tmp_path, entry).labels == tuple(f"2024-01-{day:02}" for day in range(1, 11))
    rows = told(tmp_path, entry)
    assert (rows["first item"], rows["last item"]) == ("2024-01-01", "2024-01-10")


def test_limits_pool_and_retries_are_told_with_their_reason(tmp_path):
    rows = told(tmp_path, pod_workload(retries=2, execution_timeout_seconds=3600))
    assert rows["concurrency"] == "at most 2 items at once"
    assert rows["task timeout"] == "3,600 seconds"
    assert rows["retries"].startswith("2 (at most 3: partition_replace replaces its slice")
    assert rows["retries"].endswith("60 seconds apart")
    assert rows["ledger"] == "audit_schema in schema dpone_audit, distributed lock required"
    assert rows["publication"] == "direct: chunks are visible as they are committed"


def test_dag_runs_at_once_bound_a_load_of_one_task(tmp_path):
    entry = workload(mapping={"mode": "internal"}, max_active_runs=3)
    assert process_of(tmp_path, entry).most_at_once == 3
    assert told(tmp_path, entry)["1."] == "one task a DAG run, 3 at once"


@pytest.mark.parametrize(
    "deferrable, command",
    [
        (False, 'airflow pools set dpone_backfill 2 "dpone backfill"'),
        (True, 'airflow pools set dpone_backfill 2 "dpone backfill" --include-deferred'),
    ],
)
def test_the_pool_of_deferred_tasks_counts_them(tmp_path, deferrable, command):
    assert commands(tmp_path, pod_workload(pod={"deferrable": deferrable}))[0] == command


def test_a_pool_that_workloads_share_is_made_by_one_command(tmp_path, capsys):
    mapping = {"mode": "summary", "max_items": 10, "max_active": 8}
    deferred = pod_workload(pod={"deferrable": True})
    write_project(tmp_path, workloads={"wide": workload(mapping=mapping), "deferred": deferred})
    _, text, _ = run(capsys)
    assert (
        re.findall("^ +airflow pools.*$", text, re.MULTILINE)
        == ['  airflow pools set dpone_backfill 8 "dpone backfill" --include-deferred'] * 2
    )


def test_secrets_are_created_by_one_command_each_with_placeholders_alone(tmp_path):
    connections = {
        "operations": {"secret": "source", "key": "uri"},
        "warehouse": {"secret": "target", "key": "u.r.i"},
        "reports": {"secret": "target", "key": "reports"},
    }
    entry = pod_workload(pod={"namespace": "loads"}, connections=connections, hooks=HOOKS)
    value = "'postgresql://USER:PASSWORD@HOST:5432/DATABASE'"
    source, target = (command.splitlines() for command in commands(tmp_path, entry)[1:])
    assert source == [
        "kubectl create secret generic source --namespace loads \\",
        f"  --from-literal=uri={value}",
    ]
    assert target == [
        "kubectl create secret generic target --namespace loads \\",
        f"  --from-literal=reports={value} \\",
        f"  --from-literal=u.r.i={value}",
    ]
    assert told(tmp_path, entry)["for hooks"] == "DPONE_CONN_REPORTS from key reports of secret target"


def test_a_secret_that_two_connections_share_is_created_once(tmp_path):
    connections = {name: {"secret": "s", "key": "uri"} for name in ("operations", "warehouse")}
    (_, command) = commands(tmp_path, pod_workload(connections=connections))
    assert command.count("--from-literal") == 1


def test_a_pod_is_told_with_its_defaults(tmp_path):
    pod = process_of(tmp_path, pod_workload(execution_timeout_seconds=3600)).pod
    assert pod is not None
    assert pod.security.to_document() == {
        "run_as_user": 10001,
        "read_only_root_filesystem": True,
        "capabilities": [],
        "seccomp": "RuntimeDefault",
        "token_mounted": False,
    }
    assert (
        pod.deferrable,
        pod.poll_interval_seconds,
        pod.startup_timeout_seconds,
        pod.active_deadline_seconds,
        pod.on_finish_action,
    ) == (False, 10, 600, 3660, "delete_pod")
    assert [(found.resource, found.verbs) for found in pod.permissions] == [
        ("pods", ("create", "get", "list", "watch", "delete", "patch")),
        ("pods/log", ("get",)),
        ("pods/exec", ("create", "get")),
        ("events", ("list", "watch")),
    ]


def test_a_pod_is_told_as_its_catalog_says(tmp_path):
    rows = told(tmp_path, pod_workload(pod=WHOLE_POD, delivery="file"))
    assert rows["cluster"] == "cluster"
    assert rows["service account"] == "dpone.loads, its token mounted"
    assert rows["security"].startswith("user 1000, never root, volumes of group 1000")
    assert rows["waited for by"] == "the triggerer, every 10 seconds"
    assert rows["times"] == "300 seconds to start, 7,200 to live, 90 to end"
    assert rows["pack"].endswith("bytes")
    assert (
        process_of(tmp_path, pod_workload(pod=WHOLE_POD, delivery="file")).sizes.process_argument_bytes == 0
    )


def test_a_child_process_needs_neither_secret_nor_permission(tmp_path):
    process = process_of(tmp_path, workload())
    assert process.pod is None
    titles = [section.title for section in sections_of(tmp_path, workload())]
    assert titles == [
        "DAG",
        "tasks, in their order",
        "load",
        "child process",
        "identity and sizes",
        "before the first run",
    ]
    assert told(tmp_path, workload())["connection"] == (
        "warehouse: DPONE_CONN_WAREHOUSE or AIRFLOW_CONN_WAREHOUSE"
    )


def test_an_environment_is_as_large_as_what_is_compiled_into_it(tmp_path):
    plain = process_of(tmp_path, pod_workload()).sizes
    more = process_of(tmp_path, pod_workload(pod={"env_vars": {"A": "ä" * 500}})).sizes
    assert more.environment_bytes - plain.environment_bytes == len("A=") + 1000 + 1
    assert more.process_argument_bytes == plain.process_argument_bytes


# The command


def run(capsys, *arguments):
    code = run_command_line(["airflow", "preview", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_a_project_and_the_pack_that_it_compiles_to_are_told_alike(tmp_path, capsys, form):
    pack = compile_one(tmp_path, pod_workload(hooks=HOOKS))
    Path("pack.json").write_bytes(dump_pack(pack))
    options = ["--format", form]
    project = run(capsys, "--release", "r", "--deployment", "d", *options)
    assert project[0] == ExitCode.DONE
    assert project == run(capsys, "--pack", "pack.json", *options)


def test_workloads_are_told_in_the_catalogs_order_or_one_alone(tmp_path, capsys):
    write_project(tmp_path / "shop", workloads={"two": workload(), "one": workload()})
    document = json.loads(run(capsys, "shop", "--format", "json")[1])
    assert [found["workload"] for found in document["workloads"]] == ["two", "one"]
    _, text, _ = run(capsys, "shop", "--workload", "one")
    assert text.startswith("workload one, DAG one: release local, deployment local\n\nDAG\n")
    assert "workload two" not in text


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--workload", "order"], "did you mean 'orders'?"),
        (["orders.yaml"], "this is a single manifest"),
        (["--release", ""], "--release is no name"),
        (["--pack", "nowhere.json"], "the pack cannot be read: No such file or directory"),
        (["--pack", "workloads.yaml"], "error DPONE_PACK_INVALID: the pack is not JSON"),
        (["--pack", "x.json", "--workload", "orders"], "--pack goes without a project"),
        ([".", "--pack", "x.json"], "--pack goes without a project"),
    ],
)
def test_what_cannot_be_shown_is_one_clear_message(tmp_path, capsys, arguments, message):
    write_project(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (ExitCode.REFUSED, "")
    assert message in err


def test_findings_stand_apart_from_the_document(tmp_path, capsys):
    write_project(tmp_path, workloads={"orders": workload(retries=9)})
    code, out, err = run(capsys)
    assert (code, out) == (ExitCode.REFUSED, "")
    assert "DPONE_RETRY_AUTHORITY_EXCEEDED" in err


def on_a_terminal(columns, **environment):
    """Run the command on a terminal and give what it shows."""
    ours, theirs = pty.openpty()
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "packbuilder"),
        "TERM": "xterm-256color",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "dpone_packbuilder", "airflow", "preview"],
        stdout=theirs,
        env={**variables, "COLUMNS": str(columns), **environment},
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour_and_commands_that_can_be_copied(tmp_path):
    write_project(tmp_path, workloads={"orders": pod_workload(pod={"namespace": "loads"})})
    shown = on_a_terminal(90)
    assert "\x1b[" in shown
    bare = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    command = "kubectl create secret generic databases --namespace loads \\\n    --from-literal=operations="
    assert f"  {command}'postgresql://USER:PASSWORD@HOST:5432/DATABASE' \\\n" in bare
    plain = on_a_terminal(90, NO_COLOR="1")
    assert "\x1b[3" not in plain
    assert "waited for by" in plain


def test_a_narrow_terminal_gets_plain_text(tmp_path, capsys):
    write_project(tmp_path, workloads={"orders": pod_workload()})
    assert on_a_terminal(60) == run(capsys)[1] + "\n"
