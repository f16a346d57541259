"""What `retry-failed` and `restart` would load, as people and programs read it before anything moves."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_contract.process import CampaignPlan
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.status_view import window_of


def failed_document(
    planned: CampaignPlan,
    campaign: Campaign,
    counts: Mapping[ChunkStatus, int],
    records: tuple[ChunkRecord, ...],
) -> dict[str, object]:
    """Give the chunks that `retry-failed` selects as plain values; `records` are the first of them."""
    failed, lapsed = (counts.get(status, 0) for status in (ChunkStatus.FAILED, ChunkStatus.LEASE_EXPIRED))
    return {
        "schema": "dpone.backfill-retry.v1",
        "run_key": campaign.run_key,
        "status": campaign.status.value,
        "round": campaign.round,
        "plan_matches": campaign.plan_hash == planned.plan_hash,
        "config_matches": campaign.config_hash == planned.config_hash,
        "chunks_total": campaign.chunks_total,
        "chunks_failed": failed,
        "chunks_lapsed": lapsed,
        "chunks": [
            {
                "chunk_index": record.chunk_index,
                "window": window_of(planned, record),
                "status": "failed" if record.status is ChunkStatus.FAILED else "lease_expired",
                "attempt": record.attempt,
                "code": record.error_code,
                "message": record.error_message,
            }
            for record in records
        ],
    }


def failed_text(document: Mapping[str, object], next_step: str, *, markdown: bool = False) -> str:
    """Tell which chunks `retry-failed` selects, the first of them with code and message."""
    selected = int(str(document["chunks_failed"])) + int(str(document["chunks_lapsed"]))
    lines = [
        f"campaign {document['run_key']}: {document['status']}, round {document['round']}",
        f"  {document['chunks_failed']} failed, {document['chunks_lapsed']} lapsed of {document['chunks_total']} chunks",
    ]
    chunks = document["chunks"]
    shown = chunks if isinstance(chunks, list) else []
    for chunk in shown:
        lines.append(
            f"  chunk {chunk['chunk_index']} {chunk['window']}: {chunk['status']} at attempt {chunk['attempt']}"
        )
        if chunk["code"]:
            lines.append(f"    {chunk['code']}: {chunk['message']}")
    if selected > len(shown):
        lines.append(f"  and {selected - len(shown)} more")
    if not document["plan_matches"] or not document["config_matches"]:
        lines.append("  the manifest has changed since the campaign began; a run would be refused")
    lines.append(f"  next: {next_step}")
    return in_markdown(lines) if markdown else "\n".join(lines)


def round_document(
    planned: CampaignPlan, campaign: Campaign, counts: Mapping[ChunkStatus, int]
) -> dict[str, object]:
    """Give what `restart` would do as plain values."""
    return {
        "schema": "dpone.backfill-restart.v1",
        "run_key": campaign.run_key,
        "status": campaign.status.value,
        "round": campaign.round,
        "next_round": campaign.round + 1,
        "inner_mode": campaign.inner_mode,
        "plan_matches": campaign.plan_hash == planned.plan_hash,
        "config_matches": campaign.config_hash == planned.config_hash,
        "chunks_to_load": campaign.chunks_total,
        "chunks_committed_now": counts.get(ChunkStatus.COMMITTED, 0),
        "chunks_at_work": counts.get(ChunkStatus.RUNNING, 0),
        "lower": planned.plan.lower,
        "upper": planned.plan.upper,
        "target": campaign.target.name,
    }


def round_text(document: Mapping[str, object], window: str, next_step: str, *, markdown: bool = False) -> str:
    """Tell what `restart` would do."""
    lines = [
        f"campaign {document['run_key']}: {document['status']}, round {document['round']}",
        f"  round {document['next_round']} would load {document['chunks_to_load']} chunks, {window}, by {document['inner_mode']}",
        f"  {document['chunks_committed_now']} of them are committed now and would be loaded again",
    ]
    if document["chunks_at_work"]:
        lines.append(
            f"  {document['chunks_at_work']} chunks are at work: their attempts could commit nothing any more"
        )
    if not document["plan_matches"] or not document["config_matches"]:
        lines.append("  the manifest has changed since the campaign began; a run would be refused")
    lines.append(f"  next: {next_step}")
    return in_markdown(lines) if markdown else "\n".join(lines)


def in_markdown(lines: list[str]) -> str:
    """Give lines of text as a heading and a list."""
    head, *rest = lines
    items = [
        f"  - {line.strip()}" if line.startswith("    ") else f"- {line.strip()}" for line in rest if line
    ]
    return "\n".join([f"### {head}", "", *items])
