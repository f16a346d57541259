"""The decision whether a chunk may be claimed: one look at campaign, chunk and live leases, one verdict."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dpone_runtime.domain.campaign import Campaign, CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus


class ClaimVerdict(StrEnum):
    """What a look at a chunk says."""

    CLAIM = "claim"
    COMMITTED = "committed"
    BUSY = "busy"
    LAPSED = "lapsed"
    NOT_NOW = "not_now"
    STOPPED = "stopped"


@dataclass(frozen=True)
class LedgerView:
    """What one transition sees, read under its lock; `now` is the database's clock, `chunk` None if never claimed."""

    campaign: Campaign | None
    chunk: ChunkRecord | None
    live_leases: int
    now: datetime


def decide_claim(
    view: LedgerView, *, max_active: int | None, lapsed_holder_ended: bool = False
) -> ClaimVerdict:
    """Decide on one chunk.

    A lapsed chunk is LAPSED first: the caller ends whatever session still holds its lock and looks again.

    Source: the design, ledger (claim).
    """
    campaign, chunk = view.campaign, view.chunk
    if campaign is None or campaign.status is not CampaignStatus.OPEN:
        if campaign is not None and chunk is not None and chunk.committed_in(campaign.round):
            return ClaimVerdict.COMMITTED
        return ClaimVerdict.STOPPED
    if chunk is not None:
        if chunk.committed_in(campaign.round):
            return ClaimVerdict.COMMITTED
        if chunk.lease_live(view.now):
            return ClaimVerdict.BUSY
        if chunk.status is ChunkStatus.RUNNING and not lapsed_holder_ended:
            return ClaimVerdict.LAPSED
    if max_active is not None and view.live_leases >= max_active:
        return ClaimVerdict.NOT_NOW
    return ClaimVerdict.CLAIM
