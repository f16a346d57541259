"""One look shows every finding: what one check has to say does not wait for the errors of another to be mended."""

import pytest

from dpone_contract.manifest import Manifest
from dpone_contract.model_draft import find_draft
from dpone_contract.yaml_tree import parse_yaml
from dpone_packbuilder.checks import check_project, review_project
from dpone_packbuilder.project import load_project, project_of_texts
from tests.unit.packbuilder.project_files import as_yaml, manifest, workload, write_project

MANIFEST = """\
name: orders
source:
  type: postgres
  conection_ref: operations
  table: { schema: public, name: orders }
sink:
  type: postgres
  connection_ref: warehouse
  table: { schema: analytics, name: orders }
  strategy:
    mode: backfill
    unique_key: [id, 7]
    only_new_rows: true
    backfill:
      parallel_workers: "2"
      chunk: { colum: day, from: 2024-01-01, to: "2024-01-31", step: 1x }
schedule: "@daily"
"""
CATALOG = """\
workloads:
  orders:
    manifest: orders.yaml
    airflow:
      mapping: { mode: summary, max_item: 4, pool: 7 }
      execution: { backend: process, start_date: 2024-01-01, retires: 9, schedule: "@dialy" }
  lost:
    manifest: nowhere.yaml
    pod: { image: 5 }
"""


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(folder):
    (folder / "orders.yaml").write_text(MANIFEST)
    (folder / "workloads.yaml").write_text(CATALOG)


def told(findings):
    return [
        (found.path, found.line, found.code.removeprefix("DPONE_"), found.message.split(", the retry")[0])
        for found in findings
    ]


def test_yaml_keys_values_rules_and_both_files_are_told_at_once(tmp_path):
    write(tmp_path)
    findings = check_project(load_project(tmp_path))
    assert all(found.next_step for found in findings)
    assert told(findings) == [
        ("orders.yaml", 4, "MANIFEST_INVALID", "unknown key 'conection_ref'"),
        ("orders.yaml", 12, "MANIFEST_INVALID", "unique_key[1] must be text"),
        ("orders.yaml", 13, "NOT_SUPPORTED", "only_new_rows: true is not supported yet"),
        ("orders.yaml", 15, "MANIFEST_INVALID", "parallel_workers must be a whole number without quotes"),
        ("orders.yaml", 16, "MANIFEST_INVALID", "unknown key 'colum'"),
        ("orders.yaml", 16, "MANIFEST_INVALID", "unquoted date 2024-01-01"),
        ("orders.yaml", 16, "BACKFILL_PLAN_INVALID", "step '1x' is not a step"),
        ("orders.yaml", 17, "MANIFEST_INVALID", "unknown key 'schedule'"),
        ("workloads.yaml", 5, "MANIFEST_INVALID", "unknown key 'max_item'"),
        ("workloads.yaml", 5, "AIRFLOW_MAPPING_POOL_REQUIRED", "mode summary needs a pool"),
        ("workloads.yaml", 6, "RETRY_AUTHORITY_EXCEEDED", "retries 9 is above 3"),
        ("workloads.yaml", 6, "MANIFEST_INVALID", "unquoted date 2024-01-01"),
        ("workloads.yaml", 6, "MANIFEST_INVALID", "unknown key 'retires'"),
        ("workloads.yaml", 6, "MANIFEST_INVALID", "schedule '@dialy' is not a preset"),
        ("workloads.yaml", 8, "MANIFEST_INVALID", "manifest nowhere.yaml: the file does not exist"),
        ("workloads.yaml", 9, "MANIFEST_INVALID", "image must be text"),
    ]


def test_a_manifest_alone_is_looked_at_as_a_whole_too(tmp_path):
    write(tmp_path)
    codes = {found.code.removeprefix("DPONE_") for found in check_project(load_project("orders.yaml"))}
    assert codes == {"MANIFEST_INVALID", "NOT_SUPPORTED", "BACKFILL_PLAN_INVALID"}


def test_nothing_is_planned_from_what_has_errors(tmp_path):
    write_project(
        tmp_path,
        workloads={"good": workload(), "bad": workload(manifest_path="bad.yaml")},
        manifests={"orders.yaml": manifest(), "bad.yaml": manifest(sorce=1)},
    )
    review = review_project(load_project(tmp_path))
    assert [plan.workload.name for plan in review.planned] == ["good"]
    assert [found.message for found in review.errors] == ["unknown key 'sorce'"]


def test_a_rule_adds_nothing_where_reading_has_found_the_cause(tmp_path):
    write_project(tmp_path, manifests={"orders.yaml": manifest(chunk__from=[1])})
    assert [found.message for found in check_project(load_project(tmp_path))] == [
        "from must be a single value"
    ]


def test_a_misspelt_key_that_is_needed_is_told_once(tmp_path):
    write_project(tmp_path, manifests={"orders.yaml": manifest(chunk__column=None, chunk__colum="day")})
    (finding,) = check_project(load_project(tmp_path))
    assert (finding.message, finding.next_step) == ("unknown key 'colum'", "did you mean 'column'?")


def test_a_catalog_with_an_error_still_leads_to_its_manifests():
    entry = {**workload(), "manifst": "x"}
    texts = {
        "workloads.yaml": as_yaml({"workloads": {"orders": entry}}),
        "orders.yaml": as_yaml(manifest(sink__strategy__only_new_rows=True)),
    }
    findings = check_project(project_of_texts(texts, "workloads.yaml"))
    assert [found.message for found in findings] == [
        "only_new_rows: true is not supported yet",
        "unknown key 'manifst'",
    ]


@pytest.mark.parametrize(
    "changes, drafted",
    [
        ({"sorce": 1}, True),
        ({"name": 5}, False),
        ({"name": None}, False),
        ({"source": 5}, False),
        ({"chunk__column": None, "chunk__colum": "day"}, True),
        ({"chunk__column": None}, False),
        ({"sink__strategy__backfil": {}}, True),
        ({"description": 5, "gitops__airflow__mapping__mod": [1]}, True),
        ({"source__table": ["public", "orders"]}, False),
    ],
)
def test_a_draft_is_what_remains_without_its_errors(changes, drafted):
    tree = parse_yaml(as_yaml(manifest(**changes)), "m.yaml")
    draft = find_draft(tree, Manifest)
    assert drafted is (draft is not None)
    if draft is not None and draft.backfill.chunk is not None:
        assert draft.backfill.chunk.column in ("day", "order_date")
