"""One run of a campaign, whole or one item's range: open it, run what is not committed, record completion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

from dpone_contract.chunk_plan import ChunkPlan
from dpone_contract.errors import CampaignBusyError, MappingCampaignBusyError
from dpone_contract.manifest import RetryPolicy
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.ports.lanes import LanePool
from dpone_runtime.ports.ledger import CampaignLedger, Fence
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import OpenedCampaign, Opening, complete_campaign, open_campaign
from dpone_runtime.services.run_chunks import Coordinator
from dpone_runtime.services.run_report import RunObserver, RunReport

_PAGE = 10_000


@dataclass(frozen=True)
class Selection:
    """Which chunks a run may touch: `first..last`, inclusive; `mapped` items hold no session lock."""

    first: int
    last: int
    mapped: bool
    max_active: int | None
    lane_count: int
    policy: RetryPolicy
    dag_run_id: str | None
    reason: str | None = None

    @property
    def count(self) -> int:
        """Chunks in the range."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class CampaignRun:
    """What a run did, and how the campaign stands after it."""

    opened: OpenedCampaign
    campaign: Campaign
    committed_total: int
    report: RunReport
    seconds: float


@dataclass(frozen=True)
class RunTools:
    """What a run works with; `lanes` is called only when there is something to do."""

    ledger: CampaignLedger
    lanes: Callable[[], LanePool]
    observer: RunObserver
    clock: Callable[[], timedelta]
    stop_requested: Callable[[], bool]
    opened: Callable[[OpenedCampaign], None]


def run_campaign(tools: RunTools, plan: ChunkPlan, wanted: Campaign, selection: Selection) -> CampaignRun:
    """Run the selected chunks that are not committed in the campaign's round.

    Errors: those of `open_campaign` and of `Coordinator.run`; CampaignBusyError for a second internal run.
    """
    began, ledger = tools.clock(), tools.ledger
    with _fence(ledger, wanted, selection) as fence:
        opened = _opened(ledger, wanted, selection)
        tools.opened(opened)
        report = RunReport(selected=selection.count, skipped=selection.count)
        if opened.how is not Opening.COMPLETE:
            report = _run(tools, plan, opened.campaign, selection, fence)
        committed = ledger.counts(plan.run_key, opened.campaign.round).get(ChunkStatus.COMMITTED, 0)
        campaign = opened.campaign
        if opened.how is not Opening.COMPLETE:
            campaign = complete_campaign(ledger, opened.campaign, committed)
    return CampaignRun(opened, campaign, committed, report, (tools.clock() - began).total_seconds())


def _opened(ledger: CampaignLedger, wanted: Campaign, selection: Selection) -> OpenedCampaign:
    try:
        return open_campaign(ledger, wanted, reason=selection.reason)
    except CampaignBusyError as error:
        if not selection.mapped:
            raise
        raise MappingCampaignBusyError(
            error.message, where=error.where, next_step=error.next_step, run_key=wanted.run_key
        ) from error


def _fence(
    ledger: CampaignLedger, wanted: Campaign, selection: Selection
) -> AbstractContextManager[Fence | None]:
    return nullcontext() if selection.mapped else ledger.fence(wanted.run_key)


def _run(
    tools: RunTools, plan: ChunkPlan, campaign: Campaign, selection: Selection, fence: Fence | None
) -> RunReport:
    done = _done(tools.ledger, campaign, selection)
    if len(done) == selection.count:
        return RunReport(selected=selection.count, skipped=selection.count)
    claims = ChunkClaims(tools.ledger, plan, max_active=selection.max_active, dag_run_id=selection.dag_run_id)
    coordinator = Coordinator(
        claims,
        tools.lanes(),
        plan,
        tools.observer,
        tools.clock,
        lane_count=min(selection.lane_count, selection.count - len(done)),
        stop_requested=tools.stop_requested,
        fence=fence,
    )
    indexes = _selected(tools.ledger, campaign, selection, done)
    selected = selection.count
    if selection.policy is RetryPolicy.FAILED_ONLY:
        chosen = tuple(indexes)
        indexes, selected, done = iter(chosen), len(chosen), frozenset()
    return coordinator.run(indexes, selected, len(done))


def _done(ledger: CampaignLedger, campaign: Campaign, selection: Selection) -> frozenset[int]:
    pages = range(selection.first, selection.last + 1, _PAGE)
    return frozenset().union(
        *(
            ledger.committed(campaign.run_key, campaign.round, page, min(page + _PAGE - 1, selection.last))
            for page in pages
        )
    )


def _selected(
    ledger: CampaignLedger, campaign: Campaign, selection: Selection, done: frozenset[int]
) -> Iterator[int]:
    if selection.policy is RetryPolicy.FAILED_ONLY:
        statuses = ledger.chunk_statuses(campaign.run_key)
        retried = (ChunkStatus.FAILED, ChunkStatus.LEASE_EXPIRED)
        yield from (
            index
            for index, status in sorted(statuses.items())
            if selection.first <= index <= selection.last and status in retried
        )
        return
    yield from (index for index in range(selection.first, selection.last + 1) if index not in done)
