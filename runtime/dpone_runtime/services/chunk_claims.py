"""What a coordinator does to chunk rows: claim, renew, release, fail, and read back after a lane is gone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpone_contract.chunk_plan import ChunkPlan
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, halted_after
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus, claimed, failed, released
from dpone_runtime.domain.claim import ClaimVerdict, LedgerView, decide_claim
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.lease import LEASE_TTL, new_owner
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest
from dpone_runtime.ports.ledger import CampaignLedger, Change, Decision, StaleRevisionError


@dataclass(frozen=True)
class Claim:
    """A verdict, with the claimed row and what a lane needs where it is CLAIM."""

    verdict: ClaimVerdict
    record: ChunkRecord | None = None
    request: LoadRequest | None = None


class RenewalVerdict(StrEnum):
    """What a renewal found."""

    RENEWED = "renewed"
    COMMITTED = "committed"
    LOST = "lost"


class ChunkClaims:
    """The chunk rows of one campaign, as one run may change them. `stop_after_failures` halts the campaign at so many."""

    def __init__(
        self,
        ledger: CampaignLedger,
        plan: ChunkPlan,
        *,
        max_active: int | None,
        dag_run_id: str | None,
        stop_after_failures: int | None = None,
    ) -> None:
        self._ledger = ledger
        self._plan = plan
        self._max_active = max_active
        self._dag_run_id = dag_run_id
        self._stop_after_failures = stop_after_failures

    def claim(self, chunk_index: int) -> Claim:
        """Try to claim one chunk. A lapsed holder is ended first; it is busy until the next look where one was found.

        Errors: those of the ledger. A lost race is BUSY.
        """
        chunk = self._plan.chunk(chunk_index)
        verdict = ClaimVerdict.BUSY

        def decide(view: LedgerView) -> Change | None:
            nonlocal verdict
            verdict = decide_claim(view, max_active=self._max_active)
            if verdict is ClaimVerdict.LAPSED:
                # Under the transition lock: whoever holds the chunk's lock now cannot be a new owner.
                if self._ledger.end_holders(self._plan.run_key, chunk_index):
                    verdict = ClaimVerdict.BUSY
                    return None
                verdict = decide_claim(view, max_active=self._max_active, lapsed_holder_ended=True)
            if verdict is not ClaimVerdict.CLAIM or view.campaign is None:
                return None
            record = claimed(
                view.chunk,
                chunk,
                run_key=self._plan.run_key,
                owner=new_owner(),
                round_number=view.campaign.round,
                now=view.now,
                expires_at=view.now + LEASE_TTL,
                dag_run_id=self._dag_run_id,
            )
            return Change(event=_event(record, EventKind.CLAIMED), chunk=record)

        try:
            change = self._ledger.transition(self._plan.run_key, chunk.index, decide)
        except StaleRevisionError:
            return Claim(ClaimVerdict.BUSY)
        record = change.chunk if change else None
        if record is None or record.owner is None:
            return Claim(verdict)
        request = LoadRequest(
            self._plan.run_key, chunk, record.round, record.attempt, record.revision, record.owner
        )
        return Claim(ClaimVerdict.CLAIM, record, request)

    def renew(self, record: ChunkRecord) -> RenewalVerdict:
        """Renew a lease; where that is refused, reread: committed by this owner is success, all else is lost."""
        if self._ledger.renew(record):
            return RenewalVerdict.RENEWED
        return RenewalVerdict.COMMITTED if self.committed(record) else RenewalVerdict.LOST

    def committed(self, record: ChunkRecord) -> bool:
        """Read back whether this very attempt committed."""
        return self.read_back(record) is not None

    def read_back(self, record: ChunkRecord) -> ChunkRecord | None:
        """Give the chunk's row where this very attempt committed it."""
        found = self._ledger.read_chunk(record.run_key, record.chunk_index)
        if found is None or found.owner != record.owner or found.round != record.round:
            return None
        return found if found.status is ChunkStatus.COMMITTED else None

    def end_holders(self, record: ChunkRecord) -> int:
        """End every session that holds the chunk's lock, while the row is this attempt's; give how many there were.

        Decided under the transition lock, so that no session of a later owner is ended.
        """
        ended = 0

        def decide(view: LedgerView) -> None:
            nonlocal ended
            if _still(view.chunk, record):
                ended = self._ledger.end_holders(record.run_key, record.chunk_index)

        self._ledger.transition(record.run_key, record.chunk_index, decide)
        return ended

    def record_commit(self, request: LoadRequest, receipt: LoadReceipt) -> None:
        """Have the ledger know what a lane says that it has committed.

        Errors: ChunkLeaseLostError where the chunk is no longer this attempt's.
        """
        self._ledger.record_commit(request, receipt)

    def release(self, record: ChunkRecord, detail: str) -> bool:
        """Give a claim back, where it is still this attempt's."""
        return self._end(record, released(record), EventKind.RELEASED, detail)

    def fail(self, record: ChunkRecord, code: str, message: str, *, again: bool = False) -> bool:
        """Record that an attempt ended without a commit, where the row is still its own.

        Where that makes as many failed chunks as the campaign may have, the same change halts it; one that is to be tried
        `again` by this run does not.
        """

        def decide(view: LedgerView) -> Change | None:
            if not _still(view.chunk, record):
                return None
            event = _event(record, EventKind.FAILED, code)
            row = failed(record, code, message, view.now)
            halted = None if again else self._halted(view)
            if halted is None:
                return Change(event=event, chunk=row)
            told = Event(
                halted.run_key, EventKind.HALTED, halted.round, halted.revision, detail=halted.reason
            )
            return Change(event=event, chunk=row, campaign=halted, campaign_event=told)

        return self._transition(record, decide)

    def _halted(self, view: LedgerView) -> Campaign | None:
        """Give the campaign halted where one more failure is as many as it may have. Called inside a decision."""
        campaign, limit = view.campaign, self._stop_after_failures
        if limit is None or campaign is None or campaign.status is not CampaignStatus.OPEN:
            return None
        count = self._ledger.failed_count(self._plan.run_key) + 1
        return halted_after(campaign, count, limit) if count >= limit else None

    def _end(self, record: ChunkRecord, row: ChunkRecord, kind: EventKind, detail: str) -> bool:
        def decide(view: LedgerView) -> Change | None:
            if not _still(view.chunk, record):
                return None
            return Change(event=_event(record, kind, detail), chunk=row)

        return self._transition(record, decide)

    def _transition(self, record: ChunkRecord, decide: Decision) -> bool:
        try:
            return self._ledger.transition(record.run_key, record.chunk_index, decide) is not None
        except StaleRevisionError:
            return False


def _still(found: ChunkRecord | None, record: ChunkRecord) -> bool:
    return (
        found is not None
        and found.status is ChunkStatus.RUNNING
        and (found.owner, found.revision) == (record.owner, record.revision)
    )


def _event(record: ChunkRecord, kind: EventKind, detail: str | None = None) -> Event:
    return Event(
        run_key=record.run_key,
        kind=kind,
        round=record.round,
        revision=record.revision,
        chunk_index=record.chunk_index,
        attempt=record.attempt,
        owner=record.owner,
        detail=detail,
    )
