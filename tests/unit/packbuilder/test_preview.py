"""A preview tells everything that Airflow will show, and what has to exist before."""

import json

import pytest

from dpone_packbuilder.checks import review_project
from dpone_packbuilder.compiler import compile_pack
from dpone_packbuilder.preview import PreviewFormat, preview_rows, render_preview
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.project_files import manifest, workload, write_project


def compile_one(tmp_path, *, entry=None, **changes):
    folder = write_project(
        tmp_path, workloads={"orders": entry or workload()}, manifests={"orders.yaml": manifest(**changes)}
    )
    (planned,) = review_project(load_project(folder)).planned
    return compile_pack(planned, release="r1", deployment="prod")


def test_a_mapped_pack_is_told_row_by_row(tmp_path):
    pack = compile_one(tmp_path)
    rows = dict(preview_rows(pack))
    assert {name: rows[name] for name in ("DAG", "schedule", "mode", "items", "first item", "last item")} == {
        "DAG": "orders",
        "schedule": "none (started by hand)",
        "mode": "summary",
        "items": "4 mapped tasks of 2 to 3 chunks (at most 4)",
        "first item": "2024-01-01 .. 2024-01-03",
        "last item": "2024-01-09 .. 2024-01-10",
    }
    assert rows["concurrency"] == "at most 2 items at once"
    assert rows["create the pool"] == 'airflow pools set dpone_backfill 2 "dpone backfill"'
    assert rows["chunks"] == "10 along order_date, 2024-01-01 .. 2024-01-10"
    assert rows["backend"] == "process"
    assert rows["ledger"] == "audit_schema in schema dpone_audit, distributed lock required"
    assert rows["retries"].startswith("0 (at most 3: ")
    assert rows["pack fingerprint"] == pack.fingerprint
    assert rows["plan fingerprint"] == pack.processes[0].mapping.plan_fingerprint


def test_the_variables_of_every_connection_are_named(tmp_path):
    assert [value for name, value in preview_rows(compile_one(tmp_path)) if name == "connection"] == [
        "operations: DPONE_CONN_OPERATIONS or AIRFLOW_CONN_OPERATIONS",
        "warehouse: DPONE_CONN_WAREHOUSE or AIRFLOW_CONN_WAREHOUSE",
    ]


@pytest.mark.parametrize(
    "publication, key, told",
    [
        (None, None, "direct: chunks are visible as they are committed"),
        (
            {"mode": "shadow_swap"},
            ["id", "order_date"],
            "shadow_swap: all at once, into a table of its own first; what was live is kept as a backup; no id, order_date twice",
        ),
        (
            {"mode": "shadow_swap", "retain_backup": False},
            None,
            "shadow_swap: all at once, into a table of its own first; what was live is dropped; no unique_key, duplicates are not looked for",
        ),
    ],
)
def test_it_is_told_how_rows_become_visible_and_what_becomes_of_those_that_were(
    tmp_path, publication, key, told
):
    pack = compile_one(tmp_path, backfill__publication=publication, sink__strategy__unique_key=key)
    assert told == dict(preview_rows(pack))["publication"]
    (task,) = json.loads(render_preview(pack, PreviewFormat.JSON))["tasks"]
    assert task["publication"] == {
        "mode": "direct",
        "retain_backup": True,
        "artifact_scope": "campaign",
        **(publication or {}),
    }


def test_an_unmapped_pack_needs_no_pool(tmp_path):
    names = [
        name for name, _ in preview_rows(compile_one(tmp_path, entry=workload(mapping={"mode": "internal"})))
    ]
    assert "pool" not in names
    assert "create the pool" not in names


def test_a_templated_window_is_told_as_it_is_written(tmp_path):
    pack = compile_one(
        tmp_path, entry=workload(mapping={"mode": "internal"}), chunk__from="{{ ds }}", chunk__to="{{ ds }}"
    )
    rows = dict(preview_rows(pack))
    assert rows["window"] == "{{ ds }} .. {{ ds }} by 1d, taken from the DAG run's interval"
    assert "run key" not in rows
    assert "campaign" not in json.loads(render_preview(pack, PreviewFormat.JSON))["tasks"][0]


def test_a_pool_with_a_space_is_quoted(tmp_path):
    pack = compile_one(tmp_path, entry=workload(mapping={"mode": "summary", "pool": "back fill"}))
    assert dict(preview_rows(pack))["create the pool"] == 'airflow pools set "back fill" 16 "back fill"'


def test_json_holds_numbers_and_hashes(tmp_path):
    pack = compile_one(tmp_path)
    document = json.loads(render_preview(pack, PreviewFormat.JSON))
    (task,) = document["tasks"]
    assert (document["schema"], document["pack_fingerprint"]) == ("dpone.preview.v1", pack.fingerprint)
    assert task["mapping"]["chunks_per_item"] == [3, 3, 2, 2]
    assert task["campaign"]["chunks_total"] == 10
    assert task["connections"]["warehouse"] == ["DPONE_CONN_WAREHOUSE", "AIRFLOW_CONN_WAREHOUSE"]


@pytest.mark.parametrize("form", list(PreviewFormat))
def test_every_form_names_workload_mode_and_fingerprint(tmp_path, form):
    pack = compile_one(tmp_path)
    text = render_preview(pack, form)
    for expected in ("orders", "summary", pack.fingerprint):
        assert expected in text
