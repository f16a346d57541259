"""A verification as people and programs read it: how much was compared, what differs, what no chunk covers."""

from __future__ import annotations

from datetime import timedelta

from dpone_contract.process import CampaignPlan
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.coverage import Coverage
from dpone_runtime.domain.verification import VerificationReport


def verification_line(report: VerificationReport, elapsed: timedelta) -> str:
    """Give the state of a verification at work in one line."""
    share = report.compared_total / report.chunks_total
    parts = [f"{report.compared_total}/{report.chunks_total} chunks", f"{report.rows:,} rows"]
    if report.different:
        parts.append(f"{len(report.different)} differ")
    seconds = max(elapsed.total_seconds(), 0.001)
    left = (report.chunks_total - report.compared_total - report.missing) * seconds / max(report.compared, 1)
    parts.append(f"about {left:.0f} s left")
    return f"[{'#' * int(share * 10):<10}] {share:4.0%}  " + " | ".join(parts)


def verification_text(
    planned: CampaignPlan, report: VerificationReport, coverage: Coverage | None, *, repaired: int
) -> str:
    """Tell how much was compared and what came of it."""
    verdict = f"{len(report.different)} differ" if report.different else "equal"
    lines = []
    if report.continued_from is not None and report.compared_before and not repaired:
        lines.append(
            f"went on with the verification begun at {report.continued_from:%Y-%m-%d %H:%M:%S %Z}: "
            f"{report.compared_before} chunks had been compared before"
        )
    lines.append(
        f"{report.compared_total} of {report.chunks_total} chunks compared by {report.method.value}, "
        f"{report.rows:,} rows now: {verdict}"
    )
    if report.missing:
        lines.append(f"{report.missing} chunks are not committed and were not compared")
    for difference in report.differences:
        window = planned.plan.chunk(difference.chunk_index).window
        lines.append(f"  chunk {difference.chunk_index} {window}: {difference.text}")
    more = len(report.different) - len(report.differences)
    if more:
        lines.append(f"  and {more} more")
    if repaired:
        lines.append(f"{repaired} chunks were loaded again in a round of their own")
    if coverage is not None:
        lines.append(coverage.text(planned.plan.spec.column))
    return "\n".join(lines)


def verification_document(
    planned: CampaignPlan,
    campaign: Campaign,
    report: VerificationReport,
    coverage: Coverage | None,
    *,
    repaired: int,
) -> dict[str, object]:
    """Give the result as plain values; `different` has every index, `differences` tells of the first."""
    return {
        "schema": "dpone.backfill-verification.v1",
        "run_key": campaign.run_key,
        "plan_hash": campaign.plan_hash,
        "round": campaign.round,
        "method": report.method.value,
        "status": _status(report),
        "chunks_total": report.chunks_total,
        "chunks_compared": report.compared_total,
        "chunks_compared_before": report.compared_before,
        "chunks_not_committed": report.missing,
        "chunks_different": len(report.different),
        "chunks_repaired": repaired,
        "rows_compared": report.rows,
        "different": report.different,
        "differences": [
            {
                "chunk_index": difference.chunk_index,
                "window": planned.plan.chunk(difference.chunk_index).window,
                "text": difference.text,
            }
            for difference in report.differences
        ],
        "coverage": coverage.to_document() if coverage else None,
    }


def _status(report: VerificationReport) -> str:
    if report.different:
        return "different"
    return "equal" if report.whole else "incomplete"
