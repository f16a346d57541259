"""Which identities move when one key of manifest or catalog changes: each key, through the real builder, against the docs.

`docs/identities.md` holds one row a key. A key without a row or without another value here fails, and so does a row without a key;
the failure shows the row as it should stand.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.manifest import Manifest
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.process import plan_campaign
from dpone_packbuilder.catalog import CatalogDefaults, WorkloadCatalog, WorkloadOptions
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.compiler import compile_pack
from dpone_packbuilder.project import project_of_texts
from tests.unit.packbuilder.project_files import MANIFEST, as_yaml

DOCS = Path(__file__).parents[3] / "docs" / "identities.md"
IDENTITIES = ("run key", "plan hash", "config hash", "process digest", "mapping plan", "pack")
OF_A_CAMPAIGN = {"run key", "plan hash", "config hash"}
MARK = "●"

BACKFILL = "sink.strategy.backfill"
CHUNK = f"{BACKFILL}.chunk"
NAME = "workloads.NAME"

Changes = dict[str, Any]
"""Keys by path; the value None removes a key."""


@dataclass(frozen=True)
class Other:
    """Another value of a key, and what has to be different before, so that the key alone changes."""

    value: Any
    before: Changes | None = None


ONLY = "its only value"
NEVER = "whatever its value, it is refused with the reason"

UUIDS: Changes = {
    f"{CHUNK}.{key}": None for key in ("from", "to", "step")
} | {f"{CHUNK}.kind": "uuid", f"{CHUNK}.buckets": 4}  # fmt: skip
BOUNDS: Changes = {f"{CHUNK}.{key}": None for key in ("from", "to", "step")} | {
    f"{CHUNK}.boundaries": ["2024-01-01", "2024-01-05", "2024-01-11"]
}
HANDOVER: Changes = {"source.options.xmin_execution.mode": "initial"}

IN_THE_MANIFEST: dict[str, Any] = {
    "name": "orders_again",
    "description": "for people",
    "source.type": "mssql",
    "source.connection_ref": "another",
    "source.connection_id": Other(
        "another", {"source.connection_ref": None, "source.connection_id": "operations"}
    ),
    "source.table.schema": "another",
    "source.table.name": "another",
    "source.columns": ["order_date", "order_id"],
    "source.exclude_columns": ["note"],
    "source.where": "order_id > 0",
    "source.options.incremental_strategy": "xmin",
    "source.options.xmin_execution.mode": "initial",
    "source.options.xmin_execution.handoff_id": Other("orders_v1", HANDOVER),
    "sink.type": "mssql",
    "sink.connection_ref": "another",
    "sink.connection_id": Other("another", {"sink.connection_ref": None, "sink.connection_id": "warehouse"}),
    "sink.table.schema": "another",
    "sink.table.name": "another",
    "sink.strategy.mode": ONLY,
    "sink.strategy.unique_key": ["order_id"],
    "sink.strategy.version_column": Other(
        "changed_at",
        {f"{BACKFILL}.inner_mode": "incremental_merge", "sink.strategy.unique_key": ["order_date", "id"]},
    ),
    "sink.strategy.only_new_rows": True,
    f"{BACKFILL}.inner_mode": "incremental_append",
    f"{CHUNK}.column": "paid_on",
    f"{CHUNK}.kind": "timestamp",
    f"{CHUNK}.from": "2024-01-02",
    f"{CHUNK}.to": "2024-01-11",
    f"{CHUNK}.step": "2d",
    f"{CHUNK}.timezone": "Europe/Berlin",
    f"{CHUNK}.nulls": "ignore",
    f"{CHUNK}.boundaries": Other(["2024-01-01", "2024-01-06", "2024-01-11"], BOUNDS),
    f"{CHUNK}.buckets": Other(8, UUIDS),
    f"{BACKFILL}.backfill_id": "orders_2024",
    f"{BACKFILL}.parallel_workers": 4,
    f"{BACKFILL}.retry_policy": "failed_only",
    f"{BACKFILL}.lease_ttl_minutes": 60,
    f"{BACKFILL}.max_chunks": 500,
    f"{BACKFILL}.stop_after_failures": 3,
    f"{BACKFILL}.state.backend": Other("local_file", {f"{BACKFILL}.state.require_distributed_lock": None}),
    f"{BACKFILL}.state.schema": "another",
    f"{BACKFILL}.state.require_distributed_lock": False,
    f"{BACKFILL}.state.connection_ref": NEVER,
    f"{BACKFILL}.state_dir": "ledger",
    f"{BACKFILL}.publication.mode": "shadow_swap",
    f"{BACKFILL}.publication.retain_backup": False,
    f"{BACKFILL}.publication.artifact_scope": ONLY,
    f"{BACKFILL}.verify": "strict",
    "sink.create_target": "never",
    "sink.options": {"fill_factor": 90},
    "state.type": "postgres",
    "state.connection_ref": "another",
    "state.atomicity": "target_atomic",
    "state.provisioning": "external",
    "gitops.airflow_xcom_summary": {"full": True},
}

IN_PODS: Changes = {
    "airflow.execution.backend": None,
    "pod.image": "registry.example/dpone:1",
    "connections.operations": {"secret": "operations", "key": "uri"},
    "connections.warehouse": {"secret": "warehouse", "key": "uri"},
}
"""What turns the workload of these tests, a child process, into one of pods."""

OF_A_WORKLOAD: dict[str, Any] = {
    "airflow.mapping.mode": "internal",
    "airflow.mapping.max_items": 5,
    "airflow.mapping.max_active": 3,
    "airflow.mapping.pool": "another",
    "airflow.execution.dag_id": "another",
    "airflow.execution.description": "for people",
    "airflow.execution.schedule": "@daily",
    "airflow.execution.start_date": "2024-02-01",
    "airflow.execution.catchup": True,
    "airflow.execution.retries": 2,
    "airflow.execution.retry_delay_seconds": 5,
    "airflow.execution.max_active_runs": 3,
    "airflow.execution.tags": ["history"],
    "airflow.execution.owner": "somebody",
    "airflow.execution.execution_timeout_seconds": 3600,
    "airflow.execution.outlets": ["postgres://warehouse/analytics/orders"],
    "airflow.execution.outcome_gate": True,
    "airflow.execution.backend": "kubernetes",
    "airflow.execution.delivery": Other("file", {**IN_PODS, "pod.pack_path": "/packs"}),
    "airflow.hooks.pre": [{"name": "begin", "command": ["true"]}],
    "airflow.hooks.post": [{"name": "end", "command": ["true"]}],
    "pod.image": "registry.example/dpone:2",
    "pod.image_pull_policy": "Always",
    "pod.image_pull_secrets": ["registry"],
    "pod.namespace": "loads",
    "pod.service_account": "loader",
    "pod.labels": {"team": "orders"},
    "pod.annotations": {"team": "orders"},
    "pod.node_selector": {"disk": "fast"},
    "pod.tolerations": [{"key": "loads", "operator": "Exists"}],
    "pod.affinity": {"nodeAffinity": {}},
    "pod.priority_class": "loads",
    "pod.resources.requests": {"cpu": "1"},
    "pod.resources.limits": {"cpu": "2"},
    "pod.env_vars": {"TZ": "UTC"},
    "pod.kubernetes_conn_id": "cluster",
    "pod.pod_template_file": "/templates/load.yaml",
    "pod.run_as_user": 1000,
    "pod.fs_group": 1000,
    "pod.on_finish_action": "keep_pod",
    "pod.startup_timeout_seconds": 60,
    "pod.active_deadline_seconds": 7200,
    "pod.termination_grace_seconds": 90,
    "pod.deferrable": True,
    "pod.poll_interval_seconds": Other(5, {**IN_PODS, "pod.deferrable": True}),
    "pod.pack_path": Other("/packs", {**IN_PODS, "airflow.execution.delivery": "file"}),
    "connections.CONNECTION.secret": "another",
    "connections.CONNECTION.key": "another",
}

NOT_IN_A_FILE = ("the workload's name", "`--release`", "`--deployment`")

# Where one key may stand in several places, all of them move the same.
SAME_AS = {"gitops.airflow.": f"{NAME}.airflow.", "defaults.": f"{NAME}."}

BASE_WORKLOAD: dict[str, Any] = {
    "airflow": {
        "mapping": {"mode": "summary", "max_items": 4, "max_active": 2, "pool": "dpone_backfill"},
        "execution": {"backend": "process"},
    },
}


@dataclass(frozen=True)
class Drift:
    """What moved, and whether the changed project is refused as not supported yet."""

    moved: frozenset[str]
    refused: bool
    never: bool = False

    def row(self, key: str) -> str:
        """Give the row of the docs."""
        marks = (MARK if identity in self.moved else "" for identity in IDENTITIES)
        return (
            "| "
            + " | ".join([key, *marks, "never" if self.never else "not yet" if self.refused else ""])
            + " |"
        )


def leaf_keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Give the path of every key of a model that holds no further keys."""
    for name, found in model.model_fields.items():
        here = (*path, found.alias or name)
        inner = [(kind, named) for kind, named in models_in(found.annotation)]
        if not inner:
            yield ".".join(here)
        for kind, named in inner:
            yield from leaf_keys(kind, (*here, *named))


def models_in(
    annotation: Any, named: tuple[str, ...] = ()
) -> Iterator[tuple[type[BaseModel], tuple[str, ...]]]:
    """Give the models of an annotation, each with the stand-in for the names of a dictionary around it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, named
        return
    if get_origin(annotation) is tuple:  # a list is one value
        return
    stand_in = {WorkloadOptions: ("NAME",)}
    for argument in get_args(annotation):
        for kind, inner in models_in(argument):
            names = stand_in.get(kind, ("CONNECTION",)) if get_origin(annotation) is dict else ()
            yield kind, (*names, *inner)


def changed(document: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Give a copy of a document with keys changed."""
    found = deepcopy(document)
    for path, value in changes.items():
        *blocks, last = path.split(".")
        holder = found
        for block in blocks:
            holder = holder.setdefault(block, {})
        if value is None:
            holder.pop(last, None)
        else:
            holder[last] = value
    return found


def identities_of(
    manifest: dict[str, Any],
    workload: dict[str, Any],
    defaults: dict[str, Any] | None = None,
    *,
    name: str = "orders",
    release: str = "1",
    deployment: str = "test",
) -> tuple[dict[str, object], tuple[Finding, ...]]:
    """Compile a project of one workload; give its identities and what the check has found."""
    catalog: dict[str, Any] = {"workloads": {name: {"manifest": "orders.yaml", **workload}}}
    if defaults is not None:
        catalog["defaults"] = defaults
    texts = {"workloads.yaml": as_yaml(catalog), workload.get("manifest", "orders.yaml"): as_yaml(manifest)}
    review = review_project(project_of_texts(texts, "workloads.yaml"))
    assert review.planned, review.findings
    pack = compile_pack(review.planned[0], release=release, deployment=deployment)
    (plan,) = pack.processes
    campaign = plan_campaign(plan.process)
    mapping = plan.mapping.plan_fingerprint if isinstance(plan.mapping, MappingPlan) else None
    values = (
        campaign.plan.run_key,
        campaign.plan_hash,
        campaign.config_hash,
        plan.process_digest,
        mapping,
        pack.fingerprint,
    )
    return dict(zip(IDENTITIES, values, strict=True)), review.findings


def drift_of(before: tuple[Any, ...], after: tuple[Any, ...], **arguments: str) -> Drift:
    """Compare two projects, each as the arguments of `identities_of`."""
    was, _ = identities_of(*before)
    found, findings = identities_of(*after, **arguments)
    moved = frozenset(name for name in IDENTITIES if was[name] != found[name])
    return Drift(moved, refused=is_refused(findings))


def is_refused(findings: tuple[Finding, ...]) -> bool:
    """Whether a key is refused as not supported yet."""
    return any(finding.code is ErrorCode.NOT_SUPPORTED for finding in findings)


def drift_of_manifest_key(key: str, other: Any) -> Drift:
    """Change one key of the manifest."""
    if other == ONLY:
        return Drift(frozenset(), refused=False)
    if other == NEVER:
        assert ErrorCode.BACKFILL_STATE_UNSUPPORTED in {finding.code for finding in findings_of(key)}
        return Drift(frozenset(), refused=True, never=True)
    found = other if isinstance(other, Other) else Other(other)
    base = changed(MANIFEST, found.before or {})
    after = changed(base, {key: found.value})
    # A mapped mode has rules of its own, which would be told first.
    _, findings = identities_of(after, changed(BASE_WORKLOAD, {"airflow.mapping.mode": "internal"}))
    moved = drift_of((base, BASE_WORKLOAD), (after, BASE_WORKLOAD)).moved
    return Drift(moved, refused=is_refused(findings))


def findings_of(key: str) -> tuple[Finding, ...]:
    """Check a project with one key of the manifest set."""
    texts = {
        "workloads.yaml": as_yaml({"workloads": {"orders": {"manifest": "orders.yaml", **BASE_WORKLOAD}}}),
        "orders.yaml": as_yaml(changed(MANIFEST, {key: "another"})),
    }
    return review_project(project_of_texts(texts, "workloads.yaml")).findings


def workloads_of(key: str, other: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give a workload before and after one key of it is changed; where the key concerns pods, one of pods."""
    pods = IN_PODS if key.startswith(("pod.", "connections.")) else {}
    found = other if isinstance(other, Other) else Other(other, pods)
    base = changed(BASE_WORKLOAD, found.before or {})
    return base, changed(base, {key.replace("CONNECTION", "operations"): found.value})


def drift_of_workload_key(key: str, other: Any) -> Drift:
    """Change one key of a workload."""
    base, after = workloads_of(key, other)
    return drift_of((MANIFEST, base), (MANIFEST, after))


def drift_of_default(key: str, other: Any) -> Drift:
    """Change one key of the defaults, which holds whatever the workload does not set."""
    base, after = workloads_of(key, other)
    return drift_of((MANIFEST, {}, base), (MANIFEST, {}, after))


def drift_of_gitops_key(key: str, other: Any) -> Drift:
    """Change one key of the mapping where the manifest sets it and the catalog does not."""
    airflow = {"execution": BASE_WORKLOAD["airflow"]["execution"]}
    base = changed(MANIFEST, {"gitops.airflow.mapping": BASE_WORKLOAD["airflow"]["mapping"]})
    return drift_of((base, {"airflow": airflow}), (changed(base, {key: other}), {"airflow": airflow}))


def drift_outside_files(what: str) -> Drift:
    """Change what no file says."""
    plain = (MANIFEST, BASE_WORKLOAD)
    argument = {"the workload's name": "name", "`--release`": "release", "`--deployment`": "deployment"}[what]
    return drift_of(plain, plain, **{argument: "another"})


def documented_rows() -> dict[str, str]:
    """Give the rows of the docs by key, backticks of keys left out."""
    lines = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    found = {line.split("|")[1].strip().strip("`"): line for line in lines}
    del found["key"]
    return found


ROWS = documented_rows()


@pytest.mark.parametrize("key", IN_THE_MANIFEST)
def test_a_key_of_the_manifest_moves_what_the_docs_say(key):
    assert ROWS.get(key) == drift_of_manifest_key(key, IN_THE_MANIFEST[key]).row(f"`{key}`")


@pytest.mark.parametrize("key", OF_A_WORKLOAD)
def test_a_key_of_a_workload_moves_what_the_docs_say(key):
    named = f"{NAME}.{key}"
    assert ROWS.get(named) == drift_of_workload_key(key, OF_A_WORKLOAD[key]).row(f"`{named}`")


@pytest.mark.parametrize("what", NOT_IN_A_FILE)
def test_what_no_file_says_moves_what_the_docs_say(what):
    assert ROWS.get(what.strip("`")) == drift_outside_files(what).row(what)


@pytest.mark.parametrize("key", [key for key in OF_A_WORKLOAD if key != "airflow.execution.dag_id"])
def test_a_default_moves_what_the_key_of_a_workload_moves(key):
    assert drift_of_workload_key(key, OF_A_WORKLOAD[key]) == drift_of_default(key, OF_A_WORKLOAD[key])


@pytest.mark.parametrize("key", [key for key in OF_A_WORKLOAD if key.startswith("airflow.mapping.")])
def test_the_mapping_moves_the_same_from_the_manifest(key):
    assert drift_of_workload_key(key, OF_A_WORKLOAD[key]) == drift_of_gitops_key(
        f"gitops.{key}", OF_A_WORKLOAD[key]
    )


def test_every_key_has_a_row_and_every_row_a_key():
    keys = set(leaf_keys(Manifest)) | set(leaf_keys(WorkloadCatalog))
    documented = {
        next((key.replace(place, same, 1) for place, same in SAME_AS.items() if key.startswith(place)), key)
        for key in keys
    }
    outside = {what.strip("`") for what in NOT_IN_A_FILE}
    assert documented | outside == set(ROWS)
    assert documented == {*IN_THE_MANIFEST, *(f"{NAME}.{key}" for key in OF_A_WORKLOAD), f"{NAME}.manifest"}


def test_the_path_of_a_manifest_is_not_its_identity():
    elsewhere = {**BASE_WORKLOAD, "manifest": "elsewhere.yaml"}
    drift = drift_of((MANIFEST, BASE_WORKLOAD), (MANIFEST, elsewhere))
    assert ROWS.get(f"{NAME}.manifest") == drift.row(f"`{NAME}.manifest`")


def test_the_defaults_know_what_a_workload_knows():
    assert set(leaf_keys(CatalogDefaults)) <= {*OF_A_WORKLOAD}


@pytest.mark.parametrize(
    "key",
    [
        *(f"{BACKFILL}.{key}" for key in ("parallel_workers", "lease_ttl_minutes", "retry_policy", "verify")),
        *(key for key in ROWS if key.startswith(f"{NAME}.")),
        *(what.strip("`") for what in NOT_IN_A_FILE),
        "name",
        "description",
    ],
)
def test_what_does_not_change_the_data_leaves_the_campaign_alone(key):
    marks = [cell.strip() for cell in ROWS[key].split("|")[2:-2]]
    moved = {name for name, mark in zip(IDENTITIES, marks, strict=True) if mark == MARK}
    assert set() == moved & OF_A_CAMPAIGN


@pytest.mark.parametrize(
    "key", [f"{CHUNK}.from", f"{CHUNK}.to", f"{CHUNK}.step", f"{CHUNK}.column", f"{CHUNK}.nulls"]
)
def test_under_a_pinned_id_a_window_moves_plan_or_meaning_and_never_the_key(key):
    base = changed(MANIFEST, {f"{BACKFILL}.backfill_id": "orders_2024"})
    after = changed(base, {key: IN_THE_MANIFEST[key]})
    moved = drift_of((base, BASE_WORKLOAD), (after, BASE_WORKLOAD)).moved
    assert "run key" not in moved
    assert moved & OF_A_CAMPAIGN


@pytest.mark.parametrize(
    "changes",
    [
        {f"{BACKFILL}.inner_mode": "replace"},
        {"source.connection_ref": None, "source.connection_id": "operations"},
        {"sink.connection_ref": None, "sink.connection_id": "warehouse"},
        {f"{CHUNK}.kind": "date"},
        {f"{CHUNK}.timezone": "UTC"},
        {f"{BACKFILL}.publication.mode": "direct"},
    ],
)
def test_one_thing_said_in_another_way_is_the_same_campaign(changes):
    drift = drift_of((MANIFEST, BASE_WORKLOAD), (changed(MANIFEST, changes), BASE_WORKLOAD))
    assert set() == drift.moved & OF_A_CAMPAIGN
