"""Verification of what is committed: source and target compared chunk by chunk, each on its own server, and the verdicts kept.

A verdict belongs to one attempt of a chunk and to one method: whoever verifies again after an interruption compares what has none
yet, and a chunk that was loaded anew is compared anew. So is one that differed: it may have been mended meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dpone_contract.chunk_plan import ChunkPlan
from dpone_contract.manifest import InnerMode
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.verification import (
    DIFFERENCES_SHOWN,
    Difference,
    Verdict,
    VerificationMethod,
    VerificationReport,
)
from dpone_runtime.ports.connectors import SliceContent, SliceReader
from dpone_runtime.ports.ledger import CampaignLedger

_PAGE = 1_000
_REPLACING = (InnerMode.PARTITION_REPLACE, InnerMode.REPLACE, InnerMode.FULL_REFRESH)


@dataclass(frozen=True)
class VerificationTools:
    """What a verification works with; `compared` is told after each chunk."""

    ledger: CampaignLedger
    source: SliceReader
    target: SliceReader
    stop_requested: Callable[[], bool]
    compared: Callable[[VerificationReport], None]


def verify_campaign(
    tools: VerificationTools,
    plan: ChunkPlan,
    campaign: Campaign,
    method: VerificationMethod,
    *,
    anew: bool = False,
) -> VerificationReport:
    """Compare every committed chunk of a campaign's round that has no verdict yet; `anew` forgets earlier verdicts.

    It begins a verification, or goes on with one of the same method that was not ended.

    Errors: those of ledger and readers; what was compared until then is kept.
    Source: the design, verification.
    """
    report = VerificationReport(method, plan.chunks_total)
    after = None if anew else _begun(tools.ledger, campaign, report)
    if after is None:
        tools.ledger.add_event(_event(campaign, EventKind.VERIFICATION_BEGUN, method.value))
        after = tools.ledger.campaign_events(campaign.run_key)[-1].event_id
    # Each server digests by itself: while one does, there is no reason for the other to wait.
    with ThreadPoolExecutor(1, thread_name_prefix="source") as beside:
        comparison = _Comparison(tools, plan, campaign, report, beside)
        for first in range(1, plan.chunks_total + 1, _PAGE):
            comparison.compare(first, min(first + _PAGE - 1, plan.chunks_total), after)
            if report.interrupted:
                break
    return report


def end_verification(ledger: CampaignLedger, campaign: Campaign, report: VerificationReport) -> None:
    """Record what a verification that was not interrupted came to: the next one compares everything again.

    One that could not compare every chunk has no verdict: what it found is not carried into a later one, which may be long after.
    """
    told = Verdict(report.method.value, report.compared_total, len(report.different)).text()
    if not report.whole:
        told = f"incomplete, {report.compared_total} of {report.chunks_total} chunks by {report.method.value}"
    ledger.add_event(_event(campaign, EventKind.VERIFICATION_ENDED, told))


def _begun(ledger: CampaignLedger, campaign: Campaign, report: VerificationReport) -> int | None:
    """Find the verification to go on with; give the id of the event that began it."""
    found = None
    for past in ledger.campaign_events(campaign.run_key):
        match past.event.kind:
            case EventKind.VERIFICATION_BEGUN:
                found = past if past.event.detail == report.method.value else None
            case EventKind.VERIFICATION_ENDED:
                found = None
    if found is None:
        return None
    report.continued_from = found.at
    return found.event_id


def _verdicts(
    ledger: CampaignLedger, campaign: Campaign, first: int, last: int, after: int
) -> dict[int, Event]:
    """Give the latest verdict of each chunk, of any method."""
    return {
        past.event.chunk_index: past.event
        for past in ledger.verdicts(campaign.run_key, first, last, after)
        if past.event.chunk_index is not None
    }


@dataclass(frozen=True)
class _Comparison:
    """One verification at work: its tools, what it compares, what it has come to."""

    tools: VerificationTools
    plan: ChunkPlan
    campaign: Campaign
    report: VerificationReport
    beside: ThreadPoolExecutor

    def compare(self, first: int, last: int, after: int) -> None:
        """Come to a verdict on the chunks `first..last`; those of events later than `after` stand."""
        ledger, run_key = self.tools.ledger, self.campaign.run_key
        verdicts = _verdicts(ledger, self.campaign, first, last, after)
        records = {record.chunk_index: record for record in ledger.read_chunks(run_key, first, last)}
        for index in range(first, last + 1):
            if self.tools.stop_requested():
                self.report.interrupted = True
                return
            record, verdict = records.get(index), verdicts.get(index)
            if record is None or not record.committed_in(self.campaign.round):
                self.report.missing += 1
            elif verdict is not None and self._stands(verdict, record):
                self.report.compared_before += 1
            else:
                self._look(record)

    def _stands(self, verdict: Event, record: ChunkRecord) -> bool:
        """Whether an earlier verdict spares the comparison. One by counts says nothing of contents, whoever wrote it."""
        of_this_method = (verdict.detail or "").startswith(self._verdict_text(""))
        return verdict.kind is EventKind.VERIFIED and verdict.attempt == record.attempt and of_this_method

    def _verdict_text(self, told: str) -> str:
        return f"{self.report.method.value}: {told}"

    def _look(self, record: ChunkRecord) -> None:
        report, tools = self.report, self.tools
        chunk, digest = self.plan.chunk(record.chunk_index), report.method is VerificationMethod.CONTENT
        reading = self.beside.submit(tools.source.content, chunk, digest=digest)
        target = tools.target.content(chunk, digest=digest)
        source = reading.result()
        if source == target:
            kind, detail = EventKind.VERIFIED, f"{source.rows} rows"
        elif self._moves(record):
            report.missing += 1
            return
        else:
            kind, detail = EventKind.DIFFERS, _difference(self.campaign, record, source, target)
            _tell(report, record.chunk_index, detail)
        report.compared += 1
        report.rows += source.rows
        tools.ledger.add_event(_event(self.campaign, kind, self._verdict_text(detail), record))
        tools.compared(report)

    def _moves(self, record: ChunkRecord) -> bool:
        """Whether a chunk was claimed anew while it was compared: then its sides could not be equal."""
        now = self.tools.ledger.read_chunk(record.run_key, record.chunk_index)
        return now is None or now.attempt != record.attempt or not now.committed_in(self.campaign.round)


def _tell(report: VerificationReport, chunk_index: int, text: str) -> None:
    report.different.append(chunk_index)
    if len(report.differences) < DIFFERENCES_SHOWN:
        report.differences.append(Difference(chunk_index, text))


def _difference(campaign: Campaign, record: ChunkRecord, source: SliceContent, target: SliceContent) -> str:
    """Say how two sides differ, and which of them has moved since the load where the chunk's row knows."""
    if source.rows != target.rows:
        told = f"{source.rows} rows in the source, {target.rows} in the target"
    else:
        told = f"{source.rows} rows on both sides, and they are not the same"
    if campaign.inner_mode not in _REPLACING:
        return told
    moved = [
        side
        for side, content, rows in (
            ("source", source, record.rows_extracted),
            ("target", target, record.rows_loaded),
        )
        if content.rows != rows
        or (content.digest and record.content_digest and content.digest != record.content_digest)
    ]
    return f"{told}; changed since the load: {' and '.join(moved)}" if moved else told


def _event(campaign: Campaign, kind: EventKind, detail: str, record: ChunkRecord | None = None) -> Event:
    if record is None:
        return Event(campaign.run_key, kind, campaign.round, campaign.revision, detail=detail)
    return Event(
        campaign.run_key,
        kind,
        record.round,
        record.revision,
        chunk_index=record.chunk_index,
        attempt=record.attempt,
        detail=detail,
    )
