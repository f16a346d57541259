"""A hook becomes a task of its own, and its command is plain text that everybody may read."""

import pytest

from dpone_contract.errors import ErrorCode
from tests.unit.packbuilder.pod_files import (
    check,
    only,
    pod_workload,
)
from tests.unit.packbuilder.project_files import line_of, workload


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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
