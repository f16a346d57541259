"""Looking at a campaign, and asking it to stop: what the read and mark verbs do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dpone_contract.errors import CampaignMissingError, located
from dpone_contract.process import CampaignPlan, Process, plan_campaign
from dpone_runtime.bootstrap import ledger_place, open_ledger, resolve_connections
from dpone_runtime.command_options import CommandLine
from dpone_runtime.domain.campaign import Campaign, CampaignStatus
from dpone_runtime.ports.ledger import CampaignLedger
from dpone_runtime.preview_view import failed_document, failed_text, round_document, round_text
from dpone_runtime.run_context import RunContext
from dpone_runtime.services.open_campaign import (
    cancel_campaign,
    closes_when_asked,
    require_another_round,
)
from dpone_runtime.status_view import (
    ledger_picture,
    next_step_of,
    publication_document,
    status_document,
    status_text,
)

_FAILURES_SHOWN = 5
_RETRIED_SHOWN = 100
_PICTURE_LIMIT = 2_000


class View(Protocol):
    """Something to show: a document, and the same as text."""

    @property
    def document(self) -> Mapping[str, object]:
        """Give plain values."""

    def text(self, *, markdown: bool = False) -> str:
        """Give the text."""


@dataclass(frozen=True)
class StatusView:
    """A campaign's state: the document, and what its text adds."""

    document: dict[str, object]
    picture: str
    next_step: str

    def text(self, *, markdown: bool = False) -> str:
        return status_text(self.document, self.picture, self.next_step, markdown=markdown)


@dataclass(frozen=True)
class FailedView:
    """What `retry-failed` would load."""

    document: dict[str, object]
    next_step: str

    def text(self, *, markdown: bool = False) -> str:
        return failed_text(self.document, self.next_step, markdown=markdown)


@dataclass(frozen=True)
class RoundView:
    """What `restart` would load."""

    document: dict[str, object]
    window: str
    next_step: str

    def text(self, *, markdown: bool = False) -> str:
        return round_text(self.document, self.window, self.next_step, markdown=markdown)


def campaign_status(
    process: Process, context: RunContext, environ: Mapping[str, str], command: CommandLine
) -> StatusView:
    """Read a campaign's state.

    Errors: CampaignMissingError, those of connections and planning.
    """
    planned, ledger, campaign = _found(process, context, environ, command)
    counts = ledger.counts(campaign.run_key, campaign.round)
    failures = ledger.failures(campaign.run_key, _FAILURES_SHOWN)
    statuses = ledger.chunk_statuses(campaign.run_key) if campaign.chunks_total <= _PICTURE_LIMIT else {}
    return StatusView(
        {
            **status_document(planned, campaign, counts, failures, ledger.authority()),
            "publication": publication_document(campaign, ledger.campaign_events(campaign.run_key)),
        },
        ledger_picture(campaign.chunks_total, statuses),
        next_step_of(campaign, counts, str(command)),
    )


def failed_chunks(
    process: Process, context: RunContext, environ: Mapping[str, str], command: CommandLine
) -> FailedView:
    """Read which chunks `retry-failed` selects.

    Errors: as `campaign_status`.
    """
    planned, ledger, campaign = _found(process, context, environ, command)
    counts = ledger.counts(campaign.run_key, campaign.round)
    found = ledger.failed_or_lapsed(campaign.run_key, 1, campaign.chunks_total, _RETRIED_SHOWN)
    next_step = f"to load them: dpone backfill retry-failed {command} --execute"
    if not found:
        next_step = f"nothing has failed; dpone backfill status {command} tells what is pending"
    elif campaign.status is not CampaignStatus.OPEN:
        next_step += " --reason ..."
    return FailedView(failed_document(planned, campaign, counts, found), next_step)


def next_round(
    process: Process, context: RunContext, environ: Mapping[str, str], command: CommandLine
) -> RoundView:
    """Read what a restart would load again.

    Errors: as `campaign_status`; CampaignStoppedError and OverlapError where it would be refused.
    """
    planned, ledger, campaign = _found(process, context, environ, command)
    others = ledger.others(campaign.run_key, campaign.target)
    require_another_round(campaign, tuple(other for other in others if not closes_when_asked(other)))
    counts = ledger.counts(campaign.run_key, campaign.round)
    return RoundView(
        round_document(planned, campaign, counts),
        planned.plan.window,
        f"nothing was changed; to do it: dpone backfill restart {command} --reason ... --execute",
    )


def cancel(
    process: Process,
    context: RunContext,
    environ: Mapping[str, str],
    command: CommandLine,
    *,
    reason: str,
    by: str | None,
) -> str:
    """Ask a campaign to stop; give the line that tells of it.

    Errors: CampaignMissingError, CampaignStoppedError.
    """
    _, ledger, campaign = _found(process, context, environ, command)
    marked = cancel_campaign(ledger, campaign, reason=reason, by=by)
    return f"campaign {marked.run_key}: {marked.status.value}; chunks at work may finish, none begins"


def require_begun(
    process: Process, context: RunContext, environ: Mapping[str, str], command: CommandLine
) -> None:
    """Require that there is a campaign to resume.

    Errors: CampaignMissingError.
    """
    _found(process, context, environ, command)


def _found(
    process: Process, context: RunContext, environ: Mapping[str, str], command: CommandLine
) -> tuple[CampaignPlan, CampaignLedger, Campaign]:
    with located(command.manifest):
        planned = plan_campaign(process, context.interval)
    connections = resolve_connections(process.manifest, environ)
    ledger = open_ledger(process.manifest, connections)
    campaign = ledger.read_campaign(planned.plan.run_key) if ledger.exists() else None
    if campaign is None:
        raise CampaignMissingError(
            f"the ledger has no campaign {planned.plan.run_key}",
            where=ledger_place(process.manifest, connections),
            next_step=f"begin it with `dpone backfill run {command} --execute`, or check window and overrides",
        )
    return planned, ledger, campaign
