"""A campaign's state as people and programs read it."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_contract.chunk_kinds.labels import window_text
from dpone_contract.process import CampaignPlan
from dpone_runtime.domain.campaign import Campaign, CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.event import PastEvent
from dpone_runtime.domain.publication import publication_receipt

MARKS = {
    ChunkStatus.PENDING: ".",
    ChunkStatus.RUNNING: "~",
    ChunkStatus.COMMITTED: "#",
    ChunkStatus.FAILED: "X",
    ChunkStatus.LEASE_EXPIRED: "!",
}
_WIDTH = 73
_PICTURE_LIMIT = 2_000


def status_document(
    planned: CampaignPlan,
    campaign: Campaign,
    counts: Mapping[ChunkStatus, int],
    failures: tuple[ChunkRecord, ...],
    authority: dict[str, str],
) -> dict[str, object]:
    """Give the state as plain values. What is not counted is pending."""
    known = {status.value: counts.get(status, 0) for status in ChunkStatus}
    known["pending"] = campaign.chunks_total - sum(counts.values())
    return {
        "schema": "dpone.backfill-status.v1",
        "run_key": campaign.run_key,
        "status": campaign.status.value,
        "round": campaign.round,
        "reason": campaign.reason,
        "plan_hash": campaign.plan_hash,
        "plan_matches": campaign.plan_hash == planned.plan_hash,
        "config_matches": campaign.config_hash == planned.config_hash,
        "chunks_total": campaign.chunks_total,
        "chunks": known,
        "failures": [
            {
                "chunk_index": record.chunk_index,
                "window": window_of(planned, record),
                "attempt": record.attempt,
                "code": record.error_code,
                "message": record.error_message,
            }
            for record in failures
        ],
        "state_authority": authority,
    }


def publication_document(campaign: Campaign, history: tuple[PastEvent, ...]) -> dict[str, object] | None:
    """Give how a campaign that is published by a swap becomes, or became, visible; None of one whose chunks are as they commit."""
    if campaign.shadow is not None:
        return {"status": "pending", "shadow": campaign.shadow.name}
    told = [(past.at, publication_receipt(past.event)) for past in history]
    found = [(at, receipt) for at, receipt in told if receipt is not None]
    if campaign.status is not CampaignStatus.PUBLISHED or not found:
        return None
    at, receipt = found[-1]
    return {
        "status": "published",
        "at": at.isoformat(),
        "rows": receipt.rows,
        "backup": receipt.backup,
        "object_contract": receipt.object_contract,
    }


def _publication_lines(found: object) -> list[str]:
    if not isinstance(found, dict):
        return []
    if found["status"] == "pending":
        return [f"  loads {found['shadow']}; the target is as it was until that takes its place"]
    backup = f"; what was live before is {found['backup']}" if found["backup"] else ""
    return [f"  published at {found['at']} with {found['rows']} rows{backup}"]


def window_of(planned: CampaignPlan, record: ChunkRecord) -> str:
    """Give a chunk's window; the plan alone says of the last bound whether it is included."""
    if record.chunk_index <= planned.plan.chunks_total:
        chunk = planned.plan.chunk(record.chunk_index)
        if (chunk.lower, chunk.upper) == (record.lower, record.upper):
            return chunk.window
    return window_text(record.lower, record.upper, upper_inclusive=False)


def status_text(
    document: Mapping[str, object], picture: str, next_step: str, *, markdown: bool = False
) -> str:
    """Tell the state with its picture, the first failures and what to do next."""
    chunks = document["chunks"]
    counted = (
        ", ".join(f"{count} {name}" for name, count in chunks.items() if count)
        if isinstance(chunks, dict)
        else ""
    )
    lines = [
        f"campaign {document['run_key']}: {document['status']}, round {document['round']}",
        f"  {counted} of {document['chunks_total']} chunks",
    ]
    lines += _publication_lines(document.get("publication"))
    if document["reason"]:
        lines.append(f"  reason: {document['reason']}")
    if not document["plan_matches"] or not document["config_matches"]:
        lines.append("  the manifest has changed since the campaign began; a run would be refused")
    failures = document["failures"]
    for failure in failures if isinstance(failures, list) else []:
        lines.append(
            f"  chunk {failure['chunk_index']} {failure['window']} failed at attempt {failure['attempt']}:"
        )
        lines.append(f"    {failure['code']}: {failure['message']}")
    lines.append(f"  next: {next_step}")
    if picture:
        lines += ["", "```", picture, "```"] if markdown else ["", picture]
    return "\n".join(lines)


def ledger_picture(total: int, statuses: Mapping[int, ChunkStatus]) -> str:
    """Draw one mark a chunk in order; above 2,000 chunks there is no picture."""
    if total > _PICTURE_LIMIT:
        return ""
    marks = "".join(MARKS[statuses.get(index, ChunkStatus.PENDING)] for index in range(1, total + 1))
    rows = [f"  {start + 1:>5} {marks[start : start + _WIDTH]}" for start in range(0, total, _WIDTH)]
    legend = "  ".join(f"{mark} {status.value}" for status, mark in MARKS.items())
    return "\n".join([*rows, f"        {legend}"])


def next_step_of(campaign: Campaign, counts: Mapping[ChunkStatus, int], manifest: str) -> str:
    """Say what an operator would do now."""
    if campaign.publishable:
        return f"publish it; no row is moved for that: dpone backfill resume {manifest}"
    if campaign.status is CampaignStatus.PUBLISHED:
        return "nothing; every chunk is committed, and they are published"
    if campaign.finished:
        return "nothing; every chunk is committed"
    go_on = f"dpone backfill resume {manifest} --reason ..."
    if campaign.status is CampaignStatus.HALTED:
        return f"mend the cause of the failed chunks, then: {go_on}"
    if campaign.status is not CampaignStatus.OPEN:
        return f"if it may go on: {go_on}"
    if counts.get(ChunkStatus.RUNNING, 0):
        return "chunks are at work; look again, a dead run frees its chunk within two minutes"
    retry = f"dpone backfill retry-failed {manifest} --execute"
    if counts.get(ChunkStatus.FAILED, 0):
        return f"mend the cause of the failed chunks, then: {retry}"
    if counts.get(ChunkStatus.LEASE_EXPIRED, 0):
        return f"look why their run ended, then: {retry}"
    return f"dpone backfill resume {manifest}"
