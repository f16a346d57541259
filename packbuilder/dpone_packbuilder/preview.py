"""What is in a pack, told before it is published: text, JSON or Markdown. Opens nothing.

What Airflow and a cluster need for it is told by `airflow_preview`.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import assert_never

from dpone_contract.environment import connection_variables
from dpone_contract.manifest import Manifest
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import Pack, ProcessPlan, dump_pack
from dpone_contract.process import config_hash, plan_campaign
from dpone_packbuilder.airflow_preview import pool_of
from dpone_packbuilder.pod import manifest_connections

Document = dict[str, object]


class PreviewFormat(StrEnum):
    """Forms of a preview."""

    TEXT = "text"
    JSON = "json"
    MD = "md"


def render_preview(pack: Pack, form: PreviewFormat) -> str:
    """Give a preview in one of its forms, without a final newline."""
    match form:
        case PreviewFormat.TEXT:
            return _text(pack)
        case PreviewFormat.JSON:
            return json.dumps(preview_document(pack), indent=2, ensure_ascii=False)
        case PreviewFormat.MD:
            return _markdown(pack)
        case _:
            assert_never(form)


def preview_document(pack: Pack) -> Document:
    """Give the `dpone.preview.v1` document of a pack."""
    return {
        "schema": "dpone.preview.v1",
        "workload": pack.workload,
        "release": pack.release,
        "deployment": pack.deployment,
        "pack_fingerprint": pack.fingerprint,
        "pack_size_bytes": len(dump_pack(pack)),
        "dag": pack.dag.to_document(),
        "tasks": [_task_document(plan) for plan in pack.processes],
    }


def preview_rows(pack: Pack) -> list[tuple[str, str]]:
    """Give the preview as pairs of a name and a value, in the order in which a person asks for them."""
    dag = pack.dag
    rows = [
        ("DAG", dag.dag_id),
        ("schedule", dag.schedule or "none (started by hand)"),
        ("start date", dag.start_date or "none"),
    ]
    for plan in pack.processes:
        rows += _task_rows(plan, dag.retries)
    rows += [
        ("pack fingerprint", pack.fingerprint),
        ("pack size", f"{len(dump_pack(pack)):,} bytes"),
        ("release", f"{pack.release}, deployment {pack.deployment}"),
    ]
    return rows


def load_rows(plan: ProcessPlan) -> list[tuple[str, str]]:
    """Give what a process loads: both tables, mode, window, identities, ledger."""
    manifest = plan.process.manifest
    state = manifest.backfill.state
    lock = "distributed lock required" if state.require_distributed_lock else "distributed lock not required"
    return [
        ("source", f"{manifest.source.table} ({manifest.source.type.value}, {manifest.source.connection})"),
        ("target", f"{manifest.sink.table} ({manifest.sink.type.value}, {manifest.sink.connection})"),
        ("inner mode", manifest.backfill.inner_mode.value),
        *_window_rows(plan),
        ("publication", _publication_told(manifest)),
        ("config hash", config_hash(plan.process)),
        ("ledger", f"{(state.backend or 'audit_schema')} in schema {state.schema_}, {lock}"),
    ]


def _publication_told(manifest: Manifest) -> str:
    """Say how rows become visible, what becomes of those that were, and what is looked for before."""
    publication, key = manifest.backfill.publication, manifest.sink.strategy.unique_key
    if not publication.swaps:
        return f"{publication.mode}: chunks are visible as they are committed"
    kept = "kept as a backup" if publication.retain_backup else "dropped"
    duplicates = f"no {', '.join(key)} twice" if key else "no unique_key, duplicates are not looked for"
    return f"{publication.mode}: all at once, into a table of its own first; what was live is {kept}; {duplicates}"


def retries_told(plan: ProcessPlan, retries: int) -> str:
    """Say how often Airflow retries, and how often it may."""
    return f"{retries} (at most {plan.retry_authority.max_retries}: {plan.retry_authority.reason})"


def _task_rows(plan: ProcessPlan, retries: int) -> list[tuple[str, str]]:
    return [
        ("task", plan.task_id),
        *load_rows(plan),
        ("mode", plan.mapping.mode),
        *mapping_rows(plan),
        ("backend", plan.backend.value),
        ("retries", retries_told(plan, retries)),
        *(
            ("connection", f"{name}: " + " or ".join(connection_variables(name)))
            for name in manifest_connections(plan.process.manifest)
        ),
        *(("outlet", uri) for uri in plan.outlets),
    ]


def _window_rows(plan: ProcessPlan) -> list[tuple[str, str]]:
    chunk = plan.process.manifest.backfill.chunk
    if chunk is not None and chunk.templated:
        window = f"{chunk.from_} .. {chunk.to} by {chunk.step}, taken from the DAG run's interval"
        return [("window", window)]
    campaign = plan_campaign(plan.process)
    total = campaign.plan.chunks_total
    return [
        ("chunks", f"{total:,} along {campaign.plan.spec.column}, {campaign.plan.label(1, total)}"),
        ("plan hash", campaign.plan_hash),
        ("run key", campaign.plan.run_key),
    ]


def mapping_rows(plan: ProcessPlan) -> list[tuple[str, str]]:
    """Give how Airflow shows a process: items, labels, limits, pool."""
    mapping = plan.mapping
    if not isinstance(mapping, MappingPlan):
        return [("items", "one task runs every chunk")]
    sizes = sorted({item.chunks_count for item in mapping.items})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    chunks = "chunk" if sizes[-1] == 1 else "chunks"
    return [
        (
            "items",
            f"{mapping.items_total} mapped tasks of {size} {chunks} (at most {mapping.limits.max_items})",
        ),
        ("first item", plan.labels[0]),
        ("last item", plan.labels[-1]),
        ("concurrency", f"at most {mapping.limits.max_active} items at once"),
        ("pool", mapping.limits.pool),
        ("create the pool", pool_of(mapping, [plan]).command),
        ("plan fingerprint", mapping.plan_fingerprint),
    ]


def _task_document(plan: ProcessPlan) -> Document:
    manifest, mapping = plan.process.manifest, plan.mapping
    chunk = manifest.backfill.chunk
    document: Document = {
        "task_id": plan.task_id,
        "source": manifest.source.table.to_document(),
        "target": manifest.sink.table.to_document(),
        "inner_mode": manifest.backfill.inner_mode.value,
        "publication": manifest.backfill.publication.to_document(),
        "mode": mapping.mode,
        "backend": plan.backend.value,
        "ledger": manifest.backfill.state.to_document(),
        "retry_authority": plan.retry_authority.to_document(),
        "connections": {name: list(connection_variables(name)) for name in manifest_connections(manifest)},
        "outlets": list(plan.outlets),
        "process_digest": plan.process_digest,
        "config_hash": config_hash(plan.process),
    }
    if isinstance(mapping, MappingPlan):
        document["mapping"] = {
            "items_total": mapping.items_total,
            "chunks_per_item": [item.chunks_count for item in mapping.items],
            "first_label": plan.labels[0],
            "last_label": plan.labels[-1],
            "max_items": mapping.limits.max_items,
            "max_active": mapping.limits.max_active,
            "pool": mapping.limits.pool,
            "pool_command": pool_of(mapping, [plan]).command,
            "plan_fingerprint": mapping.plan_fingerprint,
        }
    if chunk is None or not chunk.templated:
        campaign = plan_campaign(plan.process)
        document["campaign"] = {
            "run_key": campaign.plan.run_key,
            "plan_hash": campaign.plan_hash,
            "chunks_total": campaign.plan.chunks_total,
            "lower": campaign.plan.lower,
            "upper": campaign.plan.upper,
        }
    return document


def _text(pack: Pack) -> str:
    rows = preview_rows(pack)
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"workload {pack.workload}", *(f"  {name:<{width}}  {value}" for name, value in rows)])


def _markdown(pack: Pack) -> str:
    lines = [f"### {pack.workload}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | `{_cell(value)}` |" for name, value in preview_rows(pack)]
    return "\n".join(lines)


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("`", "'")
