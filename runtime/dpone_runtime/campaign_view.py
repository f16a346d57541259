"""Looking at a campaign, and asking it to stop: what the read and mark verbs do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpone_contract.errors import CampaignMissingError, located
from dpone_contract.process import CampaignPlan, Process, plan_campaign
from dpone_runtime.bootstrap import ledger_place, open_ledger, resolve_connections
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.ports.ledger import CampaignLedger
from dpone_runtime.run_context import RunContext
from dpone_runtime.services.open_campaign import cancel_campaign
from dpone_runtime.status_view import ledger_picture, next_step_of, status_document, status_text

_FAILURES_SHOWN = 5
_PICTURE_LIMIT = 2_000


@dataclass(frozen=True)
class CampaignStatusView:
    """A campaign's state: the document, and what its text adds."""

    document: dict[str, object]
    picture: str
    next_step: str

    def text(self, *, markdown: bool = False) -> str:
        """Give the text."""
        return status_text(self.document, self.picture, self.next_step, markdown=markdown)


def campaign_status(
    process: Process, context: RunContext, environ: Mapping[str, str], manifest: str
) -> CampaignStatusView:
    """Read a campaign's state.

    Errors: CampaignMissingError, those of connections and planning.
    """
    planned, ledger, campaign = _found(process, context, environ, manifest)
    counts = ledger.counts(campaign.run_key, campaign.round)
    failures = ledger.failures(campaign.run_key, _FAILURES_SHOWN)
    statuses = ledger.chunk_statuses(campaign.run_key) if campaign.chunks_total <= _PICTURE_LIMIT else {}
    return CampaignStatusView(
        status_document(planned, campaign, counts, failures, ledger.authority()),
        ledger_picture(campaign.chunks_total, statuses),
        next_step_of(campaign, counts, manifest),
    )


def cancel(
    process: Process,
    context: RunContext,
    environ: Mapping[str, str],
    manifest: str,
    *,
    reason: str,
    by: str | None,
) -> str:
    """Ask a campaign to stop; give the line that tells of it.

    Errors: CampaignMissingError, CampaignStoppedError.
    """
    _, ledger, campaign = _found(process, context, environ, manifest)
    marked = cancel_campaign(ledger, campaign, reason=reason, by=by)
    return f"campaign {marked.run_key}: {marked.status.value}; chunks at work may finish, none begins"


def require_begun(process: Process, context: RunContext, environ: Mapping[str, str], manifest: str) -> None:
    """Require that there is a campaign to resume.

    Errors: CampaignMissingError.
    """
    _found(process, context, environ, manifest)


def _found(
    process: Process, context: RunContext, environ: Mapping[str, str], manifest: str
) -> tuple[CampaignPlan, CampaignLedger, Campaign]:
    with located(manifest):
        planned = plan_campaign(process, context.interval)
    connections = resolve_connections(process.manifest, environ)
    ledger = open_ledger(process.manifest, connections)
    campaign = ledger.read_campaign(planned.plan.run_key) if ledger.exists() else None
    if campaign is None:
        raise CampaignMissingError(
            f"the ledger has no campaign {planned.plan.run_key}",
            where=ledger_place(process.manifest, connections),
            next_step=f"begin it with `dpone backfill run {manifest} --execute`, or check window and overrides",
        )
    return planned, ledger, campaign
