"""What cannot be published by a swap, or would be lost by one, is told at its key before anything runs."""

import pytest

from dpone_contract.errors import DponeError
from dpone_contract.finding import Severity
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.mapping_planner import plan_process
from dpone_packbuilder.project import load_project
from tests.unit.contract.test_process import process_of
from tests.unit.packbuilder.project_files import line_of, manifest, workload, write_project

SWAP = {"mode": "shadow_swap"}
FOLDER = {"backend": "local_file"}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def check(folder, mapping="summary", execution=None, **changes):
    changes.setdefault("backfill__publication", SWAP)
    entry = workload(mapping={"mode": mapping}, **(execution or {}))
    write_project(folder, workloads={"orders": entry}, manifests={"orders.yaml": manifest(**changes)})
    return check_project(load_project(folder))


@pytest.mark.parametrize("inner_mode", ["incremental_append", "partition_replace", "replace"])
@pytest.mark.parametrize("mapping", ["internal", "visible", "summary"])
def test_what_can_be_published_by_a_swap_has_no_finding(tmp_path, inner_mode, mapping):
    assert () == check(tmp_path, mapping, backfill__inner_mode=inner_mode)


REFUSED = [
    ({"backfill__inner_mode": "incremental_merge", "sink__strategy__unique_key": ["order_date"]}, "inner_mode", "PLAN_INVALID"),
    ({"chunk__from": "{{ ds }}", "chunk__to": "{{ ds }}"}, "mode", "PLAN_INVALID"),
    ({"backfill__state": FOLDER}, "backend", "STATE_UNSUPPORTED"),
]  # fmt: skip


@pytest.mark.parametrize("changes, key, code", REFUSED)
def test_what_cannot_is_refused_once_and_at_its_key(tmp_path, changes, key, code):
    (finding,) = check(tmp_path, "internal", **changes)
    # The first `mode` of the file is the strategy's; that of the publication comes last.
    line = line_of(tmp_path / "orders.yaml", key if key != "mode" else "publication") + (key == "mode")
    assert (f"DPONE_BACKFILL_{code}", "orders.yaml", line) == (finding.code, finding.path, finding.line)
    assert "shadow_swap" in finding.message
    assert finding.next_step


@pytest.mark.parametrize("changes, key, code", REFUSED)
def test_a_run_refuses_what_the_check_refuses(changes, key, code):
    with pytest.raises(DponeError, match="shadow_swap") as caught:
        plan_process(process_of(backfill__publication=SWAP, **changes))
    assert f"DPONE_BACKFILL_{code}" == caught.value.code
    assert caught.value.next_step


@pytest.mark.parametrize("changes, key, code", REFUSED)
def test_nothing_of_it_is_refused_without_a_swap(tmp_path, changes, key, code):
    assert () == check(tmp_path, "internal", **changes, backfill__publication={"mode": "direct"})


def test_all_of_it_is_told_at_once_and_hides_nothing_else(tmp_path):
    told = check(
        tmp_path,
        "internal",
        backfill__inner_mode="incremental_merge",
        sink__strategy__unique_key=["order_date"],
        backfill__state=FOLDER,
        chunk__from="{{ ds }}",
        chunk__to="{{ ds }}",
        chunk__step="1x",
        source__exclude_columns=["order_date"],
    )
    assert {
        "incremental_merge": 1,
        "window without tokens": 1,
        "local_file": 1,
        "step '1x' is not a step": 1,
        "'order_date' of chunk.column": 1,
    } == {
        words: sum(words in found.message for found in told)
        for words in (
            "incremental_merge",
            "window without tokens",
            "local_file",
            "step '1x' is not a step",
            "'order_date' of chunk.column",
        )
    }
    assert 5 == len(told)


@pytest.mark.parametrize("value", [True, False])
def test_a_backup_without_a_swap_is_warned_of_whatever_is_asked_for(tmp_path, value):
    (finding,) = check(tmp_path, backfill__publication={"mode": "direct", "retain_backup": value})
    line = line_of(tmp_path / "orders.yaml", "retain_backup")
    assert (Severity.WARNING, line) == (finding.severity, finding.line)
    assert "no table is exchanged" in finding.message
    assert "shadow_swap" in finding.next_step


def test_what_was_live_is_not_dropped_for_rows_that_nobody_has_compared(tmp_path):
    dropping = {**SWAP, "retain_backup": False}
    (finding,) = check(tmp_path, backfill__publication=dropping)
    line = line_of(tmp_path / "orders.yaml", "retain_backup")
    assert (Severity.WARNING, line) == (finding.severity, finding.line)
    assert "verify: strict" in finding.next_step
    for verify in ("strict", "checksum"):
        assert () == check(tmp_path, backfill__publication=dropping, backfill__verify=verify)


def test_retries_of_a_load_that_drops_what_was_live_are_refused(tmp_path):
    changes = {"backfill__publication": {**SWAP, "retain_backup": False}, "backfill__verify": "strict"}
    (finding,) = check(tmp_path, execution={"retries": 1}, **changes)
    assert ("DPONE_RETRY_AUTHORITY_EXCEEDED", "workloads.yaml") == (finding.code, finding.path)
    assert "retain_backup: false" in finding.message
    assert () == check(tmp_path, execution={"retries": 3})


@pytest.mark.parametrize("swapping", ["orders.yaml", "two.yaml"])
@pytest.mark.parametrize(
    "changes",
    [
        {"chunk__from": "2025-01-01", "chunk__to": "2025-01-02"},
        {"chunk__from": "{{ ds }}", "chunk__to": "{{ ds }}"},
    ],
)
def test_a_swap_and_another_load_of_its_table_are_a_warning_whatever_the_windows(tmp_path, changes, swapping):
    swap, other = manifest(backfill__publication=SWAP), manifest(**changes)
    manifests = {"orders.yaml": other, "two.yaml": swap}
    if swapping == "orders.yaml":
        manifests = {"orders.yaml": swap, "two.yaml": other}
    internal = {"mode": "internal"}
    workloads = {
        "one": workload(mapping=internal),
        "two": workload(mapping=internal, manifest_path="two.yaml"),
    }
    write_project(tmp_path, workloads=workloads, manifests=manifests)
    (finding,) = check_project(load_project(tmp_path))
    assert ("DPONE_BACKFILL_OVERLAP", Severity.WARNING, swapping) == (
        finding.code,
        finding.severity,
        finding.path,
    )
    assert "replaces the whole table" in finding.message
