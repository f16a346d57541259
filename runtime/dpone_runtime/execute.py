"""From a process and its context to an outcome: plan, verify, connect, run; the shared way of every verb that loads."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from dpone_contract.errors import DponeError, PlanMovedError, located
from dpone_contract.manifest import InnerMode, RetryPolicy
from dpone_contract.mapping_item import require_item_of_plan
from dpone_contract.outcome import RunOutcome
from dpone_contract.process import CampaignPlan, Process, plan_campaign
from dpone_runtime.bootstrap import (
    PreparedRun,
    prepare_run,
    publication_swap,
    resolve_connections,
    state_capabilities,
)
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.capabilities import require_mapped_execution
from dpone_runtime.evidence import Evidence, leave_evidence
from dpone_runtime.interruption import Interruption
from dpone_runtime.lane_bootstrap import LANE_OPENER
from dpone_runtime.plan_view import plan_line
from dpone_runtime.progress import Progress
from dpone_runtime.result import error_of, passed_or_failed, summary
from dpone_runtime.run_context import RunContext, require_process_of_context
from dpone_runtime.services.open_campaign import OpenedCampaign, Opening
from dpone_runtime.services.publish_campaign import Publication
from dpone_runtime.services.run_campaign import RunTools, Selection, run_campaign
from dpone_runtime.state_directory import find_state_file

_OPENINGS = {
    Opening.CREATED: "campaign opened",
    Opening.FOUND: "campaign found open; what is committed is skipped",
    Opening.RESUMED: "campaign resumed",
    Opening.NEW_ROUND: "the window is run again: round {round} {again}",
    Opening.COMPLETE: "every chunk is committed already; there is nothing to do (`dpone backfill restart` loads the window again)",
}
_AGAIN = {
    InnerMode.INCREMENTAL_MERGE: "merges its rows",
    InnerMode.FULL_REFRESH: "replaces the whole table",
}
_APPENDED = (
    "every chunk is appended already; there is nothing to do (an append is never run twice; partition_replace loads a "
    "window again)"
)


@dataclass(frozen=True)
class RunOrder:
    """How a run is asked for. `place` is where its process was read; `lane_opener` is named by tests that stop lanes.

    `continues`: it goes on with what has begun, and begins no round. `restart`: it begins one, whatever there is; of the chunks
    of `only`, where that is given.
    """

    quiet: bool = False
    plan_hash: str | None = None
    place: str | None = None
    continues: bool = False
    restart: bool = False
    only: frozenset[int] | None = None
    policy: RetryPolicy | None = None
    reason: str | None = None
    lane_opener: str = LANE_OPENER


@dataclass(frozen=True)
class Executed:
    """What came of a run: its outcome, the error that stands for a failed one, and a summary for people."""

    outcome: RunOutcome
    error: DponeError | None
    summary: str


def plan_and_verify(process: Process, context: RunContext, order: RunOrder) -> CampaignPlan:
    """Plan a process and hold the plan against what the run was told; opens nothing.

    Errors: PlanInvalidError, StateUnsupportedError, MappingStateUnsupportedError, PlanMovedError,
    RunContextInvalidError, MappingItemInvalidError, MappingPlanMismatchError.
    Source: the mapping design, runtime input and plan verification.
    """
    require_process_of_context(process, context)
    with located(order.place or f"process {process.name}"):
        planned = plan_campaign(process, context.interval)
    if order.plan_hash is not None and order.plan_hash != planned.plan_hash:
        raise PlanMovedError(
            f"the plan is {planned.plan_hash}, not the one that was reviewed",
            where="--plan-hash",
            next_step="review `dpone backfill plan` again and pass its hash",
        )
    if context.item is not None:
        require_mapped_execution(state_capabilities(process.manifest))
        require_item_of_plan(context.item, planned.mapping_plan(process.mapping))
    return planned


def execute(
    process: Process,
    context: RunContext,
    environ: Mapping[str, str],
    order: RunOrder,
    interruption: Interruption,
) -> Executed:
    """Run a process, or the item that the context names.

    Errors: whatever refuses or ends the run before its coordinator came to an end.
    """
    planned = plan_and_verify(process, context, order)
    progress = Progress(planned.plan, elapsed, quiet=order.quiet, terminal=sys.stderr.isatty())
    progress.warn(plan_line(process, planned, context.item))
    connections = resolve_connections(process.manifest, environ)
    prepared = prepare_run(process, planned, connections, restart=order.restart)
    selection = _selection(process, planned, context, order)
    try:
        tools = _tools(process, prepared, progress, order, interruption)
        with interruption.cooperative():
            run = run_campaign(tools, planned.plan, prepared.wanted, selection)
            evidence = Evidence()
            if run.campaign.finished and run.campaign.revision != run.opened.campaign.revision:
                evidence = leave_evidence(
                    prepared, process, planned, run.campaign, environ=environ, warn=progress.warn
                )
    finally:
        progress.finish()
        prepared.ledger.close()
    state_file = find_state_file(process.manifest, environ, planned.plan.run_key)
    outcome = passed_or_failed(
        process,
        planned,
        context,
        run,
        prepared.ledger,
        policy=selection.policy,
        evidence=evidence,
        state_file=state_file,
    )
    return Executed(outcome, error_of(run), summary(planned, run, evidence))


def elapsed() -> timedelta:
    """Give this process's monotonic clock."""
    return timedelta(seconds=time.monotonic())


def _tools(
    process: Process, prepared: PreparedRun, progress: Progress, order: RunOrder, interruption: Interruption
) -> RunTools:
    def opened(found: OpenedCampaign) -> None:
        progress.say(_opening_line(found))

    # Made before the campaign is opened, so that what cannot cross to a lane is refused before anything is taken.
    lanes = prepared.lanes(order.lane_opener)

    def publication(campaign: Campaign) -> Publication | None:
        swap = publication_swap(process.manifest, campaign)
        return None if swap is None else Publication(swap, progress.warn)

    return RunTools(
        ledger=prepared.ledger,
        lanes=lambda: lanes,
        observer=progress,
        clock=elapsed,
        stop_requested=interruption.requested,
        opened=opened,
        publication=publication,
    )


def _opening_line(found: OpenedCampaign) -> str:
    campaign = found.campaign
    if campaign.publishable:
        return "every chunk is committed already; what is left is to publish them"
    if found.how is Opening.COMPLETE and campaign.appends:
        return _APPENDED
    again = _AGAIN.get(InnerMode(campaign.inner_mode), "replaces its slice")
    return _OPENINGS[found.how].format(round=campaign.round, again=again)


def _selection(process: Process, planned: CampaignPlan, context: RunContext, order: RunOrder) -> Selection:
    item, backfill = context.item, process.manifest.backfill
    return Selection(
        first=item.first_chunk_index if item else 1,
        last=item.last_chunk_index if item else planned.plan.chunks_total,
        mapped=item is not None,
        max_active=process.mapping.limits.max_active if item else None,
        lane_count=1 if item else backfill.parallel_workers,
        policy=order.policy or backfill.retry_policy,
        dag_run_id=context.attempt.dag_run_id,
        reason=order.reason,
        continues=order.continues,
        restart=order.restart,
        only=order.only,
        stop_after_failures=backfill.stop_after_failures,
    )
