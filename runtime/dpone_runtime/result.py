"""The result of a run: its outcome document, its exit code, and how both are written and told."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

from dpone_contract.canonical import canonical_json
from dpone_contract.errors import CampaignStoppedError, DponeError, ExitCode, InterruptedRunError, error_class
from dpone_contract.manifest import RetryPolicy
from dpone_contract.mapping_item import MappingItem
from dpone_contract.outcome import (
    MAX_FAILURES_SHOWN,
    MESSAGE_LIMIT,
    BackfillOutcome,
    ChunkFailure,
    MappingOutcome,
    OutcomeError,
    OutcomeStatus,
    RunOutcome,
)
from dpone_contract.process import CampaignPlan, Process, process_digest
from dpone_runtime.domain.campaign import GO_ON, CampaignStatus
from dpone_runtime.evidence import Evidence
from dpone_runtime.ports.ledger import CampaignLedger
from dpone_runtime.run_context import RunContext
from dpone_runtime.services.run_campaign import CampaignRun
from dpone_runtime.state_directory import NO_FILE, StateFile


def exit_code_of(run: CampaignRun) -> ExitCode:
    """Give the code of a run whose coordinator came to an end: infrastructure only where nothing else failed."""
    report = run.report
    if run.unpublished is not None:
        return run.unpublished.exit_code
    if any(not failure.infrastructure for failure in report.failures):
        return ExitCode.CHUNKS_FAILED
    if report.failures or (report.interrupted and report.left):
        return ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
    return ExitCode.REFUSED if report.left else ExitCode.DONE


def error_of(run: CampaignRun) -> DponeError | None:
    """Give the error that stands for a run which did not load its selection."""
    report = run.report
    if report.failures:
        first = min(report.failures, key=lambda failure: failure.infrastructure)
        more = f" (and {len(report.failures) - 1} more)" if len(report.failures) > 1 else ""
        halted = run.campaign.status is CampaignStatus.HALTED
        more += f"; the campaign is halted: {run.campaign.reason}" if halted else ""
        next_step = first.next_step or "mend the cause, then run it again; committed chunks are skipped"
        kind = error_class(first.code)
        error = kind(
            f"chunk {first.chunk_index} failed at attempt {first.attempt}: {first.message}{more}",
            where=f"campaign {run.campaign.run_key}, chunk {first.chunk_index}",
            next_step=f"mend the cause, then: {GO_ON}" if halted else next_step,
            chunk_index=first.chunk_index,
        )
        # A table that changed is refused at the beginning of a run, and fails a chunk later on.
        error.exit_code = exit_code_of(run)
        return error
    if report.interrupted and report.left:
        return InterruptedRunError(
            f"told to stop: {report.committed} chunks were committed, {report.left} are left",
            where=f"campaign {run.campaign.run_key}",
            next_step="run it again; committed chunks are skipped",
        )
    if run.unpublished is not None:
        return run.unpublished
    if report.left:
        return CampaignStoppedError(
            f"campaign {run.campaign.run_key} is {run.campaign.status.value}: {report.left} chunks were not begun",
            where=f"campaign {run.campaign.run_key}",
            next_step=f"if it may go on: {GO_ON}",
        )
    return None


def passed_or_failed(
    process: Process,
    planned: CampaignPlan,
    context: RunContext,
    run: CampaignRun,
    ledger: CampaignLedger,
    *,
    policy: RetryPolicy,
    evidence: Evidence,
    state_file: StateFile = NO_FILE,
) -> RunOutcome:
    """Give the outcome of a run that came to an end."""
    report = run.report
    capabilities = ledger.capabilities()
    code = exit_code_of(run)
    error = error_of(run)
    operation: Literal["success", "failed", "interrupted"] = (
        "success" if code is ExitCode.DONE else ("interrupted" if report.interrupted else "failed")
    )
    differing = report.rows_extracted != report.rows_loaded
    backfill = BackfillOutcome(
        run_key=planned.plan.run_key,
        plan_hash=planned.plan_hash,
        config_hash=planned.config_hash,
        round=run.campaign.round,
        campaign_status=run.campaign.status.value,
        operation_status=operation,
        retry_policy=policy.value,
        chunks_total=planned.plan.chunks_total,
        campaign_chunks_committed=run.committed_total,
        chunks_selected=report.selected,
        chunks_committed=report.committed,
        chunks_skipped_resume=report.skipped,
        chunks_failed=len(report.failures),
        rows_extracted=report.rows_extracted,
        rows_loaded=report.rows_loaded,
        bytes_moved=report.bytes_moved,
        seconds=round(run.seconds, 3),
        verification={
            "status": "warning" if differing else "ok",
            "rows_extracted": report.rows_extracted,
            "rows_loaded": report.rows_loaded,
            "method": process.manifest.backfill.verify,
            "coverage": evidence.coverage.to_document() if evidence.coverage else None,
            "execution_file": str(evidence.execution_file) if evidence.execution_file else None,
        },
        state_backend=capabilities.backend,
        state_capabilities=capabilities.to_document(),
        state_authority={**ledger.authority(), "run_key": planned.plan.run_key},
        state_cache_status=state_file.cache_status,
        state_path=str(state_file.path) if state_file.path else None,
        mapping=_mapping(context.item, code) if context.item else None,
        failures=tuple(
            ChunkFailure(
                chunk_index=failure.chunk_index,
                window=planned.plan.label(failure.chunk_index, failure.chunk_index),
                attempt=failure.attempt,
                code=failure.code,
                message=failure.message[:MESSAGE_LIMIT],
            )
            for failure in report.failures[:MAX_FAILURES_SHOWN]
        ),
    )
    return RunOutcome(
        status=OutcomeStatus.PASSED if code is ExitCode.DONE else OutcomeStatus.FAILED,
        exit_code=int(code),
        process=process.name,
        process_digest=process_digest(process),
        attempt=context.attempt,
        interval={token.value: value for token, value in context.interval.items()},
        backfill=backfill,
        error=_error(error) if error else None,
    )


def refused(error: DponeError, process: Process | None, context: RunContext | None) -> RunOutcome:
    """Give the outcome of a run that ended with an error before its coordinator did."""
    return RunOutcome(
        status=OutcomeStatus.FAILED,
        exit_code=int(error.exit_code),
        process=process.name if process else None,
        process_digest=process_digest(process) if process else None,
        attempt=context.attempt if context else RunContext().attempt,
        error=_error(error),
    )


def write_outcome(outcome: RunOutcome, path: Path) -> None:
    """Write an outcome in one piece: nobody reads half a document."""
    data = canonical_json(outcome.to_document())
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".outcome-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def summary(planned: CampaignPlan, run: CampaignRun, evidence: Evidence) -> str:
    """Tell in a few lines what a run did."""
    report, campaign = run.report, run.campaign
    told = (
        f"{report.committed} chunks committed, {report.rows_loaded:,} rows in {run.seconds:.1f} s"
        if report.committed
        else "no row moved"
    )
    if report.skipped:
        told += (
            f"; {report.skipped} of {report.selected} selected chunks were committed before and are skipped"
        )
    if report.failures:
        told += f"; {len(report.failures)} failed"
    if report.left:
        told += f"; {report.left} not begun"
    state = (
        f"campaign {campaign.run_key}: {campaign.status.value}, "
        f"{run.committed_total} of {planned.plan.chunks_total} chunks committed in round {campaign.round}"
    )
    coverage = [evidence.coverage.text(planned.plan.spec.column)] if evidence.coverage else []
    return "\n".join([told, state, *coverage])


def _mapping(item: MappingItem, code: ExitCode) -> MappingOutcome:
    return MappingOutcome(
        mode=item.mode,
        plan_fingerprint=item.mapping_plan_fingerprint,
        backfill_plan_hash=item.backfill_plan_hash,
        item_index=item.item_index,
        first_chunk_index=item.first_chunk_index,
        last_chunk_index=item.last_chunk_index,
        chunks_count=item.chunks_count,
        item_status="success" if code is ExitCode.DONE else "failed",
    )


def _error(error: DponeError) -> OutcomeError:
    return OutcomeError(
        code=error.code.value,
        message=error.message[:MESSAGE_LIMIT],
        where=error.where,
        next_step=error.next_step,
        fields=dict(error.fields),
    )
