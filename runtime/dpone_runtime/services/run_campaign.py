"""One run of a campaign, whole or one item's range: open it, run what is not committed, record completion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

from dpone_contract.chunk_plan import ChunkPlan
from dpone_contract.errors import CampaignBusyError, DponeError, MappingCampaignBusyError
from dpone_contract.manifest import RetryPolicy
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.chunk_set import ChunkSet
from dpone_runtime.ports.lanes import LanePool
from dpone_runtime.ports.ledger import CampaignLedger, Fence
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import (
    OpenedCampaign,
    Opening,
    begin_round,
    complete_campaign,
    open_campaign,
)
from dpone_runtime.services.publish_campaign import Publication, PublicationTools, publish_campaign
from dpone_runtime.services.run_chunks import Coordinator
from dpone_runtime.services.run_report import RunObserver, RunReport

_PAGE = 10_000


@dataclass(frozen=True)
class Selection:
    """Which chunks a run may touch: `first..last`, inclusive; `mapped` items hold no session lock.

    With `restart` a new round begins first, whose `reason` is given, of all chunks or of `only` some; a run that `continues`
    begins none. With `stop_after_failures` the run goes on after a failed chunk until the campaign has so many of them.
    """

    first: int
    last: int
    mapped: bool
    max_active: int | None
    lane_count: int
    policy: RetryPolicy
    dag_run_id: str | None
    reason: str | None = None
    continues: bool = False
    restart: bool = False
    only: frozenset[int] | None = None
    stop_after_failures: int | None = None

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
    unpublished: DponeError | None = None
    """Why a campaign that is complete could not be published."""


@dataclass(frozen=True)
class RunTools:
    """What a run works with; `lanes` is called only when there is something to do."""

    ledger: CampaignLedger
    lanes: Callable[[], LanePool]
    observer: RunObserver
    clock: Callable[[], timedelta]
    stop_requested: Callable[[], bool]
    opened: Callable[[OpenedCampaign], None]
    publication: Callable[[Campaign], Publication | None] = lambda _campaign: None
    """What is to be exchanged, where a campaign becomes visible all at once."""


def run_campaign(tools: RunTools, plan: ChunkPlan, wanted: Campaign, selection: Selection) -> CampaignRun:
    """Run the selected chunks that are not committed in the campaign's round, and publish the campaign where it is due.

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
        campaign, unpublished = _published(tools, campaign, fence)
    seconds = (tools.clock() - began).total_seconds()
    return CampaignRun(opened, campaign, committed, report, seconds, unpublished)


def _published(
    tools: RunTools, campaign: Campaign, fence: Fence | None
) -> tuple[Campaign, DponeError | None]:
    """Publish what is complete and waits for it; what keeps it from that is given, since what was loaded is to be told too."""
    publication = tools.publication(campaign) if campaign.publishable else None
    if publication is None:
        return campaign, None
    told = PublicationTools(tools.ledger, tools.clock, tools.stop_requested, fence)
    try:
        return publish_campaign(told, campaign, publication), None
    except DponeError as error:
        return campaign, error


def _opened(ledger: CampaignLedger, wanted: Campaign, selection: Selection) -> OpenedCampaign:
    try:
        if selection.restart:
            begun = begin_round(ledger, wanted, reason=selection.reason or "", only=selection.only)
            return OpenedCampaign(begun, Opening.NEW_ROUND)
        # A round of failed chunks alone would have none, and would leave every other chunk pending.
        begin_rounds = not selection.continues and selection.policy is not RetryPolicy.FAILED_ONLY
        return open_campaign(ledger, wanted, reason=selection.reason, begin_rounds=begin_rounds)
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
    chosen = _chosen(tools.ledger, campaign, selection)
    if chosen.left == 0:
        return RunReport(selected=chosen.selected, skipped=chosen.selected)
    claims = ChunkClaims(
        tools.ledger,
        plan,
        max_active=selection.max_active,
        dag_run_id=selection.dag_run_id,
        stop_after_failures=selection.stop_after_failures,
    )
    coordinator = Coordinator(
        claims,
        tools.lanes(),
        plan,
        tools.observer,
        tools.clock,
        lane_count=min(selection.lane_count, chosen.left),
        stop_requested=tools.stop_requested,
        fence=fence,
        goes_on=selection.stop_after_failures is not None,
    )
    return coordinator.run(chosen.indexes, chosen.selected, chosen.selected - chosen.left)


@dataclass(frozen=True)
class _Chosen:
    """What a run has before it: the chunks to load in order, how many, and how many were selected with those that are done."""

    indexes: Iterator[int]
    left: int
    selected: int


def _chosen(ledger: CampaignLedger, campaign: Campaign, selection: Selection) -> _Chosen:
    if selection.policy is RetryPolicy.FAILED_ONLY:
        failed = _failed(ledger, campaign, selection)
        return _Chosen(iter(failed), len(failed), len(failed))
    done = _done(ledger, campaign, selection)
    return _Chosen(done.others(), selection.count - len(done), selection.count)


def _failed(ledger: CampaignLedger, campaign: Campaign, selection: Selection) -> ChunkSet:
    """Give what `failed_only` tries again: chunks that failed, and those whose lease has lapsed."""
    failed, first = ChunkSet(selection.first, selection.last), selection.first
    while page := ledger.failed_or_lapsed(campaign.run_key, first, selection.last, _PAGE):
        failed.update(record.chunk_index for record in page)
        first = page[-1].chunk_index + 1
    return failed


def _done(ledger: CampaignLedger, campaign: Campaign, selection: Selection) -> ChunkSet:
    done = ChunkSet(selection.first, selection.last)
    for first in range(selection.first, selection.last + 1, _PAGE):
        last = min(first + _PAGE - 1, selection.last)
        done.update(ledger.committed(campaign.run_key, campaign.round, first, last))
    return done
