"""`dpone backfill doctor`: look at a campaign, its ledger, both tables and the target's sessions; say what to do. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpone_contract.errors import DponeError, ExitCode, TableMissingError, located
from dpone_contract.mapping_policy import MappingMode
from dpone_contract.process import CampaignPlan, Process, plan_campaign
from dpone_runtime.bootstrap import (
    Connections,
    describe_wanted,
    open_diagnostics,
    open_ledger,
    resolve_connections,
    unwritable_folder,
)
from dpone_runtime.diagnosis_view import DiagnosisView
from dpone_runtime.domain.campaign import Campaign, drifts
from dpone_runtime.domain.diagnosis import Diagnosis, Symptom, Urgency
from dpone_runtime.ports.diagnostics import TargetDiagnostics
from dpone_runtime.ports.ledger import CampaignLedger, FailureGroup
from dpone_runtime.run_context import RunContext
from dpone_runtime.services.diagnose_campaign import FailedChunks, Situation, diagnose

_RUNNING_READ = 1_000
"""How many running chunks are read: as many may be at work, and lapsed ones are few."""


def examine(process: Process, context: RunContext, environ: Mapping[str, str], command: str) -> DiagnosisView:
    """Examine the campaign of a process; `command` is the manifest with its options, for the next command line.

    A target that cannot be reached is a diagnosis too.

    Errors: those of planning and of connections that are missing or cannot be read.
    """
    with located(command):
        planned = plan_campaign(process, context.interval)
    connections = resolve_connections(process.manifest, environ)
    try:
        diagnostics = open_diagnostics(process.manifest, connections)
    except DponeError as error:
        return _unreachable(process, planned, command, error)
    try:
        return _Examination(process, planned, connections, command, diagnostics).view()
    except DponeError as error:
        if error.exit_code is not ExitCode.OWNERSHIP_OR_INFRASTRUCTURE:
            raise
        return _unreachable(process, planned, command, error)
    finally:
        diagnostics.close()


def _unreachable(process: Process, planned: CampaignPlan, command: str, error: DponeError) -> DiagnosisView:
    if error.exit_code is not ExitCode.OWNERSHIP_OR_INFRASTRUCTURE:
        raise error
    text = f"{error.code.value}: {error.message}"
    found = Diagnosis((Symptom("unreachable", Urgency.INFRASTRUCTURE, text, error.next_step),))
    situation = Situation(
        command, planned.plan.run_key, ledger_exists=False, internal=_is_internal(process), seen=False
    )
    return DiagnosisView(planned, situation, found)


def _is_internal(process: Process) -> bool:
    return process.mapping.mode is MappingMode.INTERNAL


@dataclass(frozen=True)
class _Examination:
    """One look at everything."""

    process: Process
    planned: CampaignPlan
    connections: Connections
    command: str
    diagnostics: TargetDiagnostics

    def view(self) -> DiagnosisView:
        """Look, and say what was found."""
        missing = self._missing_rights()
        unreadable = any("SELECT" in lacking for lacking in missing)
        blank = Situation(
            self.command,
            self.planned.plan.run_key,
            ledger_exists=False,
            internal=_is_internal(self.process),
            in_a_file=self.process.manifest.backfill.state.in_a_file,
            seen=not unreadable,
            missing_rights=missing,
            pooled=self.diagnostics.pooled(),
        )
        if unreadable:
            return DiagnosisView(self.planned, blank, diagnose(blank))
        ledger = open_ledger(self.process.manifest, self.connections)
        try:
            situation = self._situation(ledger, blank)
            sessions = self.diagnostics.sessions(
                self.planned.plan.run_key,
                situation.campaign.target.relation if situation.campaign else None,
                tuple(chunk.record.chunk_index for chunk in situation.running),
            )
            return DiagnosisView(self.planned, situation, diagnose(situation), sessions, ledger.authority())
        finally:
            ledger.close()

    def _missing_rights(self) -> tuple[str, ...]:
        if self.process.manifest.backfill.state.in_a_file:
            return unwritable_folder(self.connections)
        return self.diagnostics.missing_rights()

    def _situation(self, ledger: CampaignLedger, blank: Situation) -> Situation:
        run_key = self.planned.plan.run_key
        exists = ledger.exists()
        campaign = ledger.read_campaign(run_key) if exists else None
        wanted, tables = self._wanted(campaign)
        compared = campaign or wanted
        found = replace(
            blank,
            ledger_exists=exists,
            campaign=campaign,
            tables=tables,
            window=compared.reach if compared else None,
            others=ledger.others(run_key, compared.target) if compared else (),
        )
        if campaign is None:
            return found
        return replace(
            found,
            drifts=drifts(campaign, wanted or self._hashes_of(campaign)),
            counts=ledger.counts(run_key, campaign.round),
            running=ledger.running(run_key, _RUNNING_READ),
            failed=tuple(self._failed(ledger, group) for group in ledger.failure_groups(run_key)),
            history=ledger.campaign_events(run_key),
        )

    def _wanted(self, campaign: Campaign | None) -> tuple[Campaign | None, DponeError | None]:
        """Describe the campaign that a run would want, or give why its tables let it have none."""
        try:
            return describe_wanted(self.process, self.planned, self.connections), None
        except TableMissingError as error:
            # A first run makes its target.
            made = campaign is None and error.where == "sink.table"
            made = made and self.process.manifest.sink.create_target != "never"
            return None, None if made else error
        except DponeError as error:
            return None, error

    def _hashes_of(self, campaign: Campaign) -> Campaign:
        planned = self.planned
        return replace(
            campaign,
            plan_hash=planned.plan_hash,
            config_hash=planned.config_hash,
            chunks_total=planned.plan.chunks_total,
        )

    def _failed(self, ledger: CampaignLedger, group: FailureGroup) -> FailedChunks:
        first = ledger.read_chunk(self.planned.plan.run_key, group.first_chunk_index)
        message = (first.error_message if first else None) or "without a message"
        return FailedChunks(group.code, group.chunks, group.first_chunk_index, message)
