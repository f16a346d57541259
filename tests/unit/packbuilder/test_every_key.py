"""Every key of manifest and catalog is accounted for: read by the code, refused by name, or said to change nothing.

A new key without a row here fails, so nothing that can be declared is ever ignored.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Severity
from dpone_contract.manifest import Manifest
from dpone_contract.manifest_text import CATALOG_KEYS
from dpone_contract.model_keys import all_keys
from dpone_packbuilder.catalog import WorkloadCatalog
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.project import project_of_texts
from tests.unit.packbuilder.project_files import as_yaml, manifest, workload

ROOT = Path(__file__).parents[3]
BACKFILL = "sink.strategy.backfill"

READ = """
name description
source.type source.connection_ref source.connection_id source.table.schema source.table.name
source.columns source.exclude_columns source.where
sink.type sink.connection_ref sink.connection_id sink.table.schema sink.table.name sink.create_target
sink.strategy.mode sink.strategy.unique_key sink.strategy.version_column sink.strategy.only_new_rows
backfill.inner_mode backfill.backfill_id backfill.parallel_workers backfill.retry_policy backfill.max_chunks
backfill.stop_after_failures backfill.verify backfill.state_dir backfill.state.backend backfill.state.schema backfill.state.require_distributed_lock
backfill.publication.mode backfill.publication.retain_backup
backfill.chunk.column backfill.chunk.kind backfill.chunk.from backfill.chunk.to backfill.chunk.step
backfill.chunk.timezone backfill.chunk.nulls backfill.chunk.boundaries backfill.chunk.buckets
gitops.airflow.mapping.mode gitops.airflow.mapping.max_items gitops.airflow.mapping.max_active
gitops.airflow.mapping.pool
workloads.<name>.manifest
*.airflow.mapping.mode *.airflow.mapping.max_items *.airflow.mapping.max_active *.airflow.mapping.pool
*.airflow.execution.dag_id *.airflow.execution.description *.airflow.execution.schedule
*.airflow.execution.start_date *.airflow.execution.catchup *.airflow.execution.retries
*.airflow.execution.retry_delay_seconds *.airflow.execution.max_active_runs *.airflow.execution.tags
*.airflow.execution.owner *.airflow.execution.outlets *.airflow.execution.backend *.airflow.execution.delivery
*.airflow.execution.execution_timeout_seconds *.airflow.execution.outcome_gate *.airflow.hooks.pre *.airflow.hooks.post
*.pod.image *.pod.image_pull_policy *.pod.image_pull_secrets *.pod.namespace *.pod.service_account *.pod.labels
*.pod.annotations *.pod.node_selector *.pod.tolerations *.pod.affinity *.pod.priority_class
*.pod.resources.requests *.pod.resources.limits *.pod.env_vars *.pod.kubernetes_conn_id *.pod.pod_template_file
*.pod.run_as_user *.pod.fs_group *.pod.on_finish_action *.pod.startup_timeout_seconds
*.pod.active_deadline_seconds *.pod.termination_grace_seconds *.pod.deferrable *.pod.poll_interval_seconds
*.pod.pack_path *.connections
"""
"""Keys that the code reads. `*` stands for `workloads.<name>` and `defaults`; what a value of them that is not possible yet
gives is below, and for the chunk in the tests of its plan."""

REFUSED = {
    "source.options.incremental_strategy": "xmin",
    "source.options.xmin_execution.mode": "initial",
    "source.options.xmin_execution.handoff_id": "orders_v1",
    "sink.options": {"a": 1},
    "state.type": "mssql",
    "state.connection_ref": "other",
    "state.atomicity": "target_atomic",
    "state.provisioning": "external",
    "gitops.airflow_xcom_summary": {"fields": ["backfill"]},
}
"""Keys whose machinery does not exist yet, each with a value that is refused by name."""

REFUSED_VALUES = {
    "source.type": ["mssql", "clickhouse", "kafka"],
    "sink.type": ["mssql", "clickhouse", "kafka"],
    "sink.strategy.only_new_rows": [True],
    "sink.strategy.version_column": ["version"],
}
"""Values, of keys that are read, that are not possible yet."""

REFUSED_WITH_REASON = {"backfill.state.connection_ref": "commit in one transaction"}
"""Keys that no release will honour with the sinks that there are, and what says why."""

WITHOUT_EFFECT = {
    "backfill.lease_ttl_minutes": "a warning says so",
    "backfill.publication.artifact_scope": "its one value is what shadow names have",
}

XMIN = {"mode": "initial"}


def spelt_out(key: str) -> list[str]:
    key = f"{BACKFILL}.{key.removeprefix('backfill.')}" if key.startswith("backfill.") else key
    if not key.startswith("*."):
        return [key]
    return [f"{holder}{key[1:]}" for holder in ("workloads.<name>", "defaults")]


def rows(keys) -> list[str]:
    return [found for key in keys for found in spelt_out(key)]


def blocks(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Give the model within an annotation, and whether it is that of a dictionary's entries."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    if get_origin(annotation) is dict:
        return blocks(get_args(annotation)[1])[0], True
    if get_origin(annotation) in (Union, UnionType) or hasattr(annotation, "__metadata__"):
        for part in get_args(annotation):
            model, named = blocks(part)
            if model is not None:
                return model, named
    return None, False


def leaves(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str]]:
    """Give the path of each key that holds a value, and the name of its field."""
    for name, field in model.model_fields.items():
        key = f"{path}.{field.alias or name}".lstrip(".")
        inner, named = blocks(field.annotation)
        if inner is None or key.endswith(".connections"):
            yield key, name
        else:
            yield from leaves(inner, f"{key}.<name>" if named else key)


LEAVES = dict([*leaves(Manifest), *leaves(WorkloadCatalog)])


def test_every_key_has_one_row_and_every_row_a_key():
    accounted = [*rows(READ.split()), *rows(REFUSED), *rows(REFUSED_WITH_REASON), *rows(WITHOUT_EFFECT)]
    assert sorted(LEAVES) == sorted(accounted)
    assert set(rows(REFUSED_VALUES)) <= set(rows(READ.split()))


def attributes_read() -> set[str]:
    found = set()
    for package in ("packbuilder", "runtime", "airflow_provider_dpone"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
    return found


def test_what_is_read_is_read():
    read = attributes_read()
    # `authored(name)` of the mapping policy reads its fields by name.
    assert set() == {LEAVES[key] for key in rows(READ.split())} - read - {"max_items", "max_active", "pool"}
    assert "zzz" not in read


def findings_of(key: str, value: Any):
    """Check a project in which one key has a value."""
    documents = {"workloads": {"orders": workload(mapping={"mode": "internal"})}}, manifest()
    if key.startswith("source.options.xmin_execution."):
        key, value = "source.options.xmin_execution", XMIN | {key.rpartition(".")[2]: value}
    holder: Any = documents[0] if key.startswith(("workloads", "defaults", "catalog")) else documents[1]
    key = key.removeprefix("catalog.")
    *path, last = ["orders" if part == "<name>" else part for part in key.split(".")]
    for part in path:
        holder = holder.setdefault(part, {})
    holder[last] = value
    texts = {"workloads.yaml": as_yaml(documents[0]), "orders.yaml": as_yaml(documents[1])}
    return check_project(project_of_texts(texts, "workloads.yaml"))


SAMPLES = [(row, value) for key, value in REFUSED.items() for row in spelt_out(key)] + [
    (row, value) for key, values in REFUSED_VALUES.items() for row in spelt_out(key) for value in values
]


@pytest.mark.parametrize("key, value", SAMPLES, ids=str)
def test_what_is_not_possible_yet_is_refused_by_name(key, value):
    (finding,) = (found for found in findings_of(key, value) if found.code is ErrorCode.NOT_SUPPORTED)
    assert finding.message.endswith("not supported yet")
    assert finding.next_step
    assert any(part in finding.message for part in (str(value), *key.split(".")[-3:]))


def test_what_no_release_will_do_is_refused_with_its_reason():
    for key, reason in REFUSED_WITH_REASON.items():
        (finding,) = findings_of(*spelt_out(key), "other")
        assert finding.code is ErrorCode.BACKFILL_STATE_UNSUPPORTED
        assert reason in finding.message
        assert "not supported yet" not in finding.message
        assert finding.next_step


def test_what_has_no_effect_is_warned_of_or_has_one_value():
    (finding,) = findings_of(f"{BACKFILL}.lease_ttl_minutes", 5)
    assert finding.severity is Severity.WARNING
    for key, value in (("retain_backup", False), ("artifact_scope", "campaign")):
        (finding,) = findings_of(f"{BACKFILL}.publication.{key}", value)
        assert (Severity.WARNING, True) == (finding.severity, f"{key} has no effect" in finding.message)
    (finding,) = findings_of(f"{BACKFILL}.publication.artifact_scope", "run")
    assert finding.message == "artifact_scope 'run' is not known"


@pytest.mark.parametrize("key", ["mapping", "max_items", "airflow"])
@pytest.mark.parametrize(
    "block", ["", "sink", "sink.strategy", BACKFILL, f"{BACKFILL}.chunk", "source", "gitops"]
)
def test_a_mapping_in_another_place_is_told_where_it_belongs(block, key):
    place = f"{block}.{key}".lstrip(".")
    if place == "gitops.airflow":
        return
    (finding,) = findings_of(place, {"mode": "summary"})
    assert (finding.code, finding.message) == (ErrorCode.MANIFEST_INVALID, f"unknown key {key!r}")
    assert "gitops" in finding.next_step


@pytest.mark.parametrize(
    "key, home",
    [
        ("catalog.mapping", "workloads.<name>.airflow or defaults.airflow"),
        ("catalog.airflow", "workloads.<name> or defaults"),
        ("workloads.<name>.mapping", "workloads.<name>.airflow or defaults.airflow"),
        ("workloads.<name>.airflow.execution.mapping", "workloads.<name>.airflow or defaults.airflow"),
        ("workloads.<name>.gitops", "in a catalog, mapping stands under workloads.<name>.airflow"),
        ("workloads.<name>.chunk", "sink.strategy.backfill in the manifest"),
        ("defaults.source", "the top of the file in the manifest"),
        ("gitops.airflow.execution", "workloads.<name>.airflow in the catalog"),
        ("schedule", "workloads.<name>.airflow.execution in the catalog"),
        ("state.backend", "sink.strategy.backfill.state"),
        ("state.schema", "sink.strategy.backfill.state"),
    ],
)
def test_a_key_of_another_block_or_file_is_told_where_it_belongs(key, home):
    findings = [found for found in findings_of(key, {}) if "unknown key" in found.message]
    assert len(findings) == 1
    assert home in findings[0].next_step


def test_the_contract_knows_which_keys_only_a_catalog_has():
    own = {key for _, key in all_keys(Manifest)}
    # `airflow`, `backend` and others stand in both files; those of pods and secrets nobody writes into a manifest.
    pods = {key for home, key in all_keys(WorkloadCatalog) if ".pod" in home or ".connections" in home}
    catalog: dict[str, str] = {}
    for home, key in all_keys(WorkloadCatalog):
        if not home.startswith("defaults."):
            catalog.setdefault(key, home.replace("of the file", "of the catalog"))
    only = {key: home for key, home in catalog.items() if key not in own | pods}
    assert only == {key: home.removesuffix(" in the catalog") for key, home in CATALOG_KEYS.items()}
