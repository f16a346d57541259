"""What a run leaves behind once its campaign is complete: the coverage it counted, and the execution file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpone_contract.errors import DponeError
from dpone_contract.process import CampaignPlan, Process
from dpone_runtime.bootstrap import PreparedRun
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.coverage import Coverage
from dpone_runtime.execution_file import write_execution_file
from dpone_runtime.state_directory import state_directory


@dataclass(frozen=True)
class Evidence:
    """Both are None where they do not apply, or could not be had."""

    coverage: Coverage | None = None
    execution_file: Path | None = None


def leave_evidence(
    prepared: PreparedRun,
    process: Process,
    planned: CampaignPlan,
    campaign: Campaign,
    *,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
) -> Evidence:
    """Count coverage and write the execution file of a finished campaign.

    Every row is in its target by now: what cannot be counted or written is told through `warn`, and fails nothing.
    Source: the design, verification.
    """
    coverage = None
    try:
        coverage = count_coverage(prepared, planned)
    except DponeError as error:
        warn(f"coverage could not be counted: {error.message}")
    directory = state_directory(process.manifest, environ)
    try:
        path = write_execution_file(
            directory, process, planned, campaign, ledger=prepared.ledger, coverage=coverage
        )
    except OSError as error:
        warn(f"the execution file could not be written to {directory}: {error.strerror}")
        return Evidence(coverage)
    except DponeError as error:
        warn(f"the execution file could not be written: {error.message}")
        return Evidence(coverage)
    return Evidence(coverage, path)


def count_coverage(prepared: PreparedRun, planned: CampaignPlan) -> Coverage | None:
    """Count the rows of the source that no chunk covers; None where the window comes from an interval, which covers a part.

    Errors: DatabaseFailedError, ConnectionFailedError.
    """
    if planned.templated:
        return None
    reader = prepared.source_reader()
    try:
        return reader.coverage(planned.plan)
    finally:
        reader.close()
