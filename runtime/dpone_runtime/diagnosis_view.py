"""A diagnosis as people and programs read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from dpone_contract.errors import ExitCode
from dpone_contract.process import CampaignPlan
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.diagnosis import Diagnosis, Urgency, Verdict
from dpone_runtime.ports.diagnostics import LockingSession
from dpone_runtime.ports.ledger import RunningChunk
from dpone_runtime.preview_view import in_markdown
from dpone_runtime.services.diagnose_campaign import RUNNING_SHOWN, Situation
from dpone_runtime.status_view import window_of

_MARKS = {Urgency.INFO: " ", Urgency.ACTION: "!", Urgency.INFRASTRUCTURE: "!!"}
_VERDICTS = {
    Verdict.HEALTHY: "healthy",
    Verdict.COMPLETE: "complete",
    Verdict.ACTION: "something is to be done",
    Verdict.INFRASTRUCTURE: "the infrastructure needs a look",
}


@dataclass(frozen=True)
class DiagnosisView:
    """A diagnosis with what it was made of."""

    planned: CampaignPlan
    situation: Situation
    diagnosis: Diagnosis
    sessions: tuple[LockingSession, ...] = ()
    authority: Mapping[str, str] | None = None

    @property
    def exit_code(self) -> ExitCode:
        """How the command ends."""
        return self.diagnosis.exit_code

    @property
    def document(self) -> dict[str, object]:
        """Give plain values, `dpone.backfill-doctor.v1`; lists are bounded."""
        situation, campaign = self.situation, self.situation.campaign
        return {
            "schema": "dpone.backfill-doctor.v1",
            "run_key": situation.run_key,
            "verdict": self.diagnosis.verdict.value,
            "next": self.diagnosis.next_step,
            "status": campaign.status.value if campaign else None,
            "round": campaign.round if campaign else None,
            "reason": campaign.reason if campaign else None,
            "requested_by": campaign.requested_by if campaign else None,
            "chunks_total": self.planned.plan.chunks_total,
            "chunks": self._counts(campaign) if campaign else None,
            "running": [self._running(chunk) for chunk in situation.running[:RUNNING_SHOWN]],
            "failures": [
                {
                    "code": group.code,
                    "chunks": group.chunks,
                    "first_chunk_index": group.first_chunk_index,
                    "message": group.message,
                }
                for group in situation.failed
            ],
            "drift": list(situation.drifts),
            "sessions": [_session(session) for session in self.sessions],
            "symptoms": [
                {
                    "name": symptom.name,
                    "urgency": symptom.urgency.value,
                    "text": symptom.text,
                    "next": symptom.next_step,
                }
                for symptom in self.diagnosis.symptoms
            ],
            "state_authority": dict(self.authority) if self.authority else None,
        }

    def _counts(self, campaign: Campaign) -> dict[str, int]:
        counts = self.situation.counts
        known = {status.value: counts.get(status, 0) for status in ChunkStatus}
        return {**known, "pending": campaign.chunks_total - sum(counts.values())}

    def _running(self, chunk: RunningChunk) -> dict[str, object]:
        record = chunk.record
        return {
            "chunk_index": record.chunk_index,
            "window": window_of(self.planned, record),
            "attempt": record.attempt,
            "dag_run_id": record.dag_run_id,
            "started_at": record.started_at.isoformat() if record.started_at else None,
            "lease_seconds_left": round(chunk.lease_left.total_seconds(), 1),
        }

    def text(self, *, markdown: bool = False) -> str:
        """Tell it in lines."""
        situation, campaign = self.situation, self.situation.campaign
        state = "not begun" if situation.seen else "not known"
        if campaign is not None:
            state = f"{campaign.status.value}, round {campaign.round}"
        lines = [f"campaign {situation.run_key}: {state}; {_VERDICTS[self.diagnosis.verdict]}"]
        if campaign is not None:
            counted = [f"{count} {name}" for name, count in self._counts(campaign).items() if count]
            lines.append(f"  {', '.join(counted)} of {campaign.chunks_total} chunks")
        for symptom in self.diagnosis.symptoms:
            lines.append(f"  {_MARKS[symptom.urgency]:<2} {symptom.text}")
            if symptom.name in ("at_work", "lapsed"):
                lines += [
                    f"       {self._running_text(chunk)}"
                    for chunk in situation.running[:RUNNING_SHOWN]
                    if (chunk.lease_left > timedelta()) == (symptom.name == "at_work")
                ]
        lines += [f"     {_session_text(session)}" for session in self.sessions]
        lines.append(f"  next: {self.diagnosis.next_step}")
        return in_markdown(lines) if markdown else "\n".join(lines)

    def _running_text(self, chunk: RunningChunk) -> str:
        record, left = chunk.record, chunk.lease_left.total_seconds()
        who = f"DAG run {record.dag_run_id}" if record.dag_run_id else "a run by hand"
        since = f" since {record.started_at:%Y-%m-%d %H:%M:%S %Z}" if record.started_at else ""
        lease = f"lease {left:.0f} s left" if left > 0 else f"lease lapsed {-left:.0f} s ago"
        return f"chunk {record.chunk_index} {window_of(self.planned, record)}: {who}{since}, {lease}"


def _session(session: LockingSession) -> dict[str, object]:
    return {
        "pid": session.pid,
        "name": session.name,
        "state": session.state,
        "seconds_in_transaction": round(session.in_transaction.total_seconds(), 1)
        if session.in_transaction is not None
        else None,
        "waits": session.waits,
        "holds": list(session.holds),
    }


def _session_text(session: LockingSession) -> str:
    since = (
        f", in a transaction for {session.in_transaction.total_seconds():.0f} s"
        if session.in_transaction
        else ""
    )
    waits = ", waits for another session" if session.waits else ""
    return f"session {session.pid} ({session.name}, {session.state or 'state hidden'}{since}{waits}) holds {', '.join(session.holds)}"
