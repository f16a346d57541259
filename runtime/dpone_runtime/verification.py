"""`dpone backfill verify`: compare what is committed with its source, tell what differs, load it again where that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpone_contract.errors import (
    CampaignMissingError,
    DponeError,
    InterruptedRunError,
    UsageError,
    VerificationIncompleteError,
    VerificationMismatchError,
)
from dpone_contract.manifest import RetryPolicy
from dpone_contract.process import CampaignPlan, Process
from dpone_runtime.bootstrap import PreparedRun, prepare_verification, resolve_connections
from dpone_runtime.command_options import CommandLine, VerificationFlags
from dpone_runtime.domain.campaign import (
    Campaign,
    CampaignStatus,
    require_columns_as_loaded,
    require_same_campaign,
)
from dpone_runtime.domain.coverage import Coverage
from dpone_runtime.domain.verification import VerificationReport
from dpone_runtime.evidence import leave_evidence
from dpone_runtime.execute import RunOrder, elapsed, execute, plan_and_verify
from dpone_runtime.interruption import Interruption
from dpone_runtime.progress import Progress
from dpone_runtime.run_context import RunContext
from dpone_runtime.services.open_campaign import require_another_round
from dpone_runtime.services.verify_campaign import (
    VerificationTools,
    end_verification,
    verify_campaign,
)
from dpone_runtime.verification_view import verification_document, verification_line, verification_text


@dataclass(frozen=True)
class VerificationOrder:
    """How a verification is asked for, and of which campaign."""

    command: CommandLine
    flags: VerificationFlags


@dataclass(frozen=True)
class Verified:
    """What a verification came to; `repaired` counts the chunks that were loaded again, `error` says why it is no success."""

    planned: CampaignPlan
    campaign: Campaign
    report: VerificationReport
    coverage: Coverage | None
    repaired: int
    error: DponeError | None

    def document(self) -> dict[str, object]:
        """Give plain values."""
        return verification_document(
            self.planned, self.campaign, self.report, self.coverage, repaired=self.repaired
        )

    def text(self) -> str:
        """Tell it to people."""
        return verification_text(self.planned, self.report, self.coverage, repaired=self.repaired)


def verify(
    process: Process,
    context: RunContext,
    environ: Mapping[str, str],
    order: VerificationOrder,
    interruption: Interruption,
) -> Verified:
    """Verify a campaign; with `repair`, load the chunks that differ once more, in a round of their own, and compare those again.

    Errors: UsageError, CampaignMissingError, CampaignDriftError; those of planning, connections and of the repairing run.
    Source: the design, verification.
    """
    if order.flags.reason is not None and not order.flags.repair:
        raise UsageError(
            "--reason says why chunks are loaded again, and nothing is without --repair",
            where="--reason",
            next_step="add --repair, or leave --reason out",
        )
    if order.flags.repair and not (order.flags.reason or "").strip():
        raise UsageError(
            "--repair changes what is committed, and says why",
            where="--reason",
            next_step='add --reason "..."; it is kept in the ledger',
        )
    planned = plan_and_verify(process, context, RunOrder(place=order.command.manifest))
    connections = resolve_connections(process.manifest, environ)
    prepared = prepare_verification(process, planned, connections, repairs=order.flags.repair)
    progress = Progress(planned.plan, elapsed, quiet=order.flags.quiet, terminal=sys.stderr.isatty())
    verification = _Verification(process, context, environ, order, interruption, planned, prepared, progress)
    try:
        return verification.run()
    finally:
        progress.finish()
        prepared.ledger.close()


@dataclass(frozen=True)
class _Verification:
    """One verification at work."""

    process: Process
    context: RunContext
    environ: Mapping[str, str]
    order: VerificationOrder
    interruption: Interruption
    planned: CampaignPlan
    prepared: PreparedRun
    progress: Progress

    def run(self) -> Verified:
        order, manifest, total = self.order, self.process.manifest, self.planned.plan.chunks_total
        campaign = self._campaign()
        if order.flags.repair:
            # Before hours of comparing: perhaps there is nothing that a repair could do.
            require_another_round(campaign, (), whole=False)
        self.progress.say(
            f"{manifest.source.table} against {self.prepared.lane_bootstrap.sink.table}, campaign {campaign.run_key}: "
            f"{order.flags.method.value} of {total} chunks"
        )
        campaign, report = self._compare_as_it_stands(campaign, anew=order.flags.anew)
        if not (order.flags.repair and report.different and report.whole):
            return self._ended(campaign, report, repaired=0)
        self._repair(report)
        return self._after_repair(repaired=len(report.different))

    def _after_repair(self, *, repaired: int) -> Verified:
        """Compare what was loaded again. It may be published by now: what was a shadow is the target then."""
        connections = resolve_connections(self.process.manifest, self.environ)
        prepared = prepare_verification(self.process, self.planned, connections, repairs=True)
        try:
            now = replace(self, prepared=prepared)
            campaign, report = now._compare_as_it_stands(now._campaign(), anew=False)
            return now._ended(campaign, report, repaired=repaired)
        finally:
            prepared.ledger.close()

    def _ended(self, campaign: Campaign, report: VerificationReport, *, repaired: int) -> Verified:
        coverage = None
        if not report.interrupted:
            end_verification(self.prepared.ledger, campaign, report)
        if report.whole:
            evidence = leave_evidence(
                self.prepared,
                self.process,
                self.planned,
                campaign,
                environ=self.environ,
                warn=self.progress.warn,
            )
            coverage = evidence.coverage
        return Verified(
            self.planned, campaign, report, coverage, repaired, _error(campaign, report, self.order)
        )

    def _campaign(self) -> Campaign:
        wanted, ledger = self.prepared.wanted, self.prepared.ledger
        found = ledger.read_campaign(wanted.run_key) if ledger.exists() else None
        if found is None:
            raise CampaignMissingError(
                f"the ledger has no campaign {wanted.run_key}: there is nothing to verify",
                where=f"campaign {wanted.run_key}",
                next_step=f"begin it with `dpone backfill run {self.order.command} --execute`, "
                "or check window and overrides",
            )
        require_same_campaign(found, wanted)
        require_columns_as_loaded(found, wanted)
        return found

    def _compare_as_it_stands(self, campaign: Campaign, *, anew: bool) -> tuple[Campaign, VerificationReport]:
        """Compare until the round is the one that was compared: another one has loaded its chunks again meanwhile."""
        while True:
            report = self._compare(campaign, anew=anew)
            now = self._campaign()
            if report.interrupted or now.round == campaign.round:
                return now, report
            campaign, anew = now, False

    def _compare(self, campaign: Campaign, *, anew: bool) -> VerificationReport:
        source, target = self.prepared.source_reader(), self.prepared.target_reader()
        progress = self.progress
        tools = VerificationTools(
            ledger=self.prepared.ledger,
            source=source,
            target=target,
            stop_requested=self.interruption.requested,
            compared=lambda report: progress.draw(lambda: verification_line(report, progress.elapsed())),
        )
        try:
            with self.interruption.cooperative():
                return verify_campaign(tools, self.planned.plan, campaign, self.order.flags.method, anew=anew)
        finally:
            source.close()
            target.close()

    def _repair(self, report: VerificationReport) -> None:
        """Run a round of the chunks that differ, which begins under that run's fence."""
        order = self.order
        self.progress.warn(
            f"{len(report.different)} of {report.chunks_total} chunks differ and are loaded again"
        )
        run = RunOrder(
            quiet=order.flags.quiet,
            place=order.command.manifest,
            restart=True,
            only=frozenset(report.different),
            policy=RetryPolicy.NON_COMMITTED,
            reason=order.flags.reason,
        )
        done = execute(self.process, self.context, self.environ, run, self.interruption)
        if done.error is not None:
            raise done.error


def _error(campaign: Campaign, report: VerificationReport, order: VerificationOrder) -> DponeError | None:
    """Give the error that stands for a verification which is no success: nothing is passed on a part."""
    place = f"campaign {campaign.run_key}"
    if report.interrupted:
        return InterruptedRunError(
            f"told to stop after {report.compared_total} of {report.chunks_total} chunks were compared",
            where=place,
            next_step=f"dpone backfill verify {order.command} goes on where it stopped",
        )
    if report.different:
        return VerificationMismatchError(
            f"{len(report.different)} of {report.compared_total} chunks that were compared differ",
            where=place,
            next_step=_way_out_of_differences(campaign, report, order),
            run_key=campaign.run_key,
        )
    if report.missing:
        return VerificationIncompleteError(
            f"{report.missing} of {report.chunks_total} chunks are not committed and could not be compared; "
            "the others are equal",
            where=place,
            next_step=f"{_resume(campaign, order)}, then verify again",
            run_key=campaign.run_key,
        )
    return None


def _way_out_of_differences(campaign: Campaign, report: VerificationReport, order: VerificationOrder) -> str:
    if campaign.appends:
        return (
            "find out which side has changed; an append is not loaded again, its rows would be there twice: "
            "partition_replace under another backfill_id replaces the window"
        )
    if campaign.status is CampaignStatus.PUBLISHED:
        again = f"dpone backfill restart {order.command} --reason ... --execute"
        return f"find out which side has changed; what is published is loaded again all together, into a new shadow: {again}"
    again = f"dpone backfill verify {order.command} --repair --reason ..."
    if report.whole:
        return f"find out which side has changed; to load these chunks again: {again}"
    return f"let the campaign be completed ({_resume(campaign, order)}), then: {again}"


def _resume(campaign: Campaign, order: VerificationOrder) -> str:
    lifted = "" if campaign.status is CampaignStatus.OPEN else " --reason ..."
    return f"dpone backfill resume {order.command}{lifted}"
