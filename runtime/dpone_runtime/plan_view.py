"""A plan as people and programs read it: half-open windows, hashes, and what a run would do."""

from __future__ import annotations

from itertools import islice

from dpone_contract.mapping_item import MappingItem
from dpone_contract.process import CampaignPlan, Process
from dpone_runtime.bootstrap import publication_tables

_SHOWN = 5


def plan_line(process: Process, planned: CampaignPlan, item: MappingItem | None) -> str:
    """Tell a plan in two lines; printed before any data moves."""
    plan, manifest = planned.plan, process.manifest
    part = (
        f"item {item.item_index}: chunks {item.first_chunk_index}..{item.last_chunk_index}"
        if item
        else "all chunks"
    )
    return (
        f"{manifest.source.table} -> {manifest.sink.table}, {manifest.backfill.inner_mode.value}: "
        f"{plan.chunks_total} chunks of {plan.spec.column} in {plan.window} by {plan.spec.cut}; {part}\n"
        f"campaign {plan.run_key}, plan {planned.plan_hash}"
    )


def plan_document(
    process: Process, planned: CampaignPlan, chunks_shown: int | None = None
) -> dict[str, object]:
    """Give the plan as plain values; `chunks_shown` bounds the list of chunks."""
    plan, manifest = planned.plan, process.manifest
    chunks = plan.chunks() if chunks_shown is None else islice(plan.chunks(), chunks_shown)
    return {
        "schema": "dpone.backfill-plan.v1",
        "process": process.name,
        "run_key": plan.run_key,
        "plan_hash": planned.plan_hash,
        "config_hash": planned.config_hash,
        "source": str(manifest.source.table),
        "target": str(manifest.sink.table),
        "inner_mode": manifest.backfill.inner_mode.value,
        "chunk_column": plan.spec.column,
        "kind": plan.spec.kind.value,
        "step": plan.spec.cut,
        "timezone": plan.spec.timezone,
        "nulls": plan.spec.nulls.value,
        "lower": plan.lower,
        "upper": plan.upper,
        "publication": _publication_document(process, planned),
        "chunks_total": plan.chunks_total,
        "chunks": [
            {
                "index": chunk.index,
                "lower": chunk.lower,
                "upper": chunk.upper,
                "window": chunk.window,
            }
            for chunk in chunks
        ],
    }


def _publication_document(process: Process, planned: CampaignPlan) -> dict[str, object]:
    publication = process.manifest.backfill.publication
    tables = publication_tables(process.manifest, planned.plan.run_key)
    if tables is None:
        return {"mode": publication.mode}
    shadow, backup = tables
    kept = str(backup) if publication.retain_backup else None
    return {"mode": publication.mode, "shadow": str(shadow), "backup": kept}


def _publication_rows(process: Process, planned: CampaignPlan) -> list[tuple[str, str]]:
    found = _publication_document(process, planned)
    if "shadow" not in found:
        return []
    backup = found["backup"]
    return [
        ("publication", str(found["mode"])),
        ("shadow", f"{found['shadow']}, which becomes the target once it is whole"),
        ("backup", str(backup) if backup else "none: what is live before is dropped"),
    ]


def plan_text(process: Process, planned: CampaignPlan, *, markdown: bool = False) -> str:
    """Tell a plan with its first and last chunks."""
    document = plan_document(process, planned, 0)
    plan = planned.plan
    first = [plan.chunk(index) for index in range(1, min(_SHOWN, plan.chunks_total) + 1)]
    tail = range(max(_SHOWN, plan.chunks_total - 2) + 1, plan.chunks_total + 1)
    last = [plan.chunk(index) for index in tail]
    keys = (
        "source",
        "target",
        "inner_mode",
        "chunk_column",
        "step",
        "timezone",
        "run_key",
        "plan_hash",
        "config_hash",
    )
    names = {"inner_mode": "mode", "chunk_column": "column"}
    rows = [(names.get(key, key), str(document[key])) for key in keys]
    rows.insert(4, ("window", plan.window))
    rows.insert(5, ("chunks", str(plan.chunks_total)))
    rows[3:3] = _publication_rows(process, planned)
    if markdown:
        lines = [f"### Plan of {process.name}", "", "| | |", "|---|---|"]
        lines += [f"| {name.replace('_', ' ')} | `{value}` |" for name, value in rows]
        lines += ["", "| chunk | window |", "|---:|---|"]
        lines += [f"| {chunk.index} | `{chunk.window}` |" for chunk in (*first, *last)]
        return "\n".join(lines)
    lines = [f"plan of {process.name}"]
    lines += [f"  {name.replace('_', ' '):<12} {value}" for name, value in rows]
    lines.append("")
    lines += [f"  {chunk.index:>7}  {chunk.window}" for chunk in first]
    if last and last[0].index > _SHOWN + 1:
        lines.append("      ...")
    lines += [f"  {chunk.index:>7}  {chunk.window}" for chunk in last]
    return "\n".join(lines)
