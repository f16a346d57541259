"""From a workload to what its tasks show: the compiled process, its planned campaign and its mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dpone_contract.chunk_kinds.local_time import instant_of, require_zone
from dpone_contract.mapping_plan import InternalMapping, MappingPlan
from dpone_contract.process import CampaignPlan, Process, plan_campaign
from dpone_contract.window_tokens import WindowToken
from dpone_packbuilder.project import Workload

_SAMPLE_DAY = datetime(2024, 2, 28)  # noqa: DTZ001  # its zone is the window's


@dataclass(frozen=True)
class PlannedWorkload:
    """A workload that can be compiled. `campaign` is a sample where the window is templated."""

    workload: Workload
    process: Process
    campaign: CampaignPlan
    mapping: MappingPlan | InternalMapping


def sample_interval(timezone: str) -> Mapping[WindowToken, str]:
    """Give values that prove at check time that a templated window can be planned: a day of its zone, in UTC as Airflow has it.

    They never enter a pack.

    Errors: PlanInvalidError for an unknown zone.
    """
    zone = require_zone(timezone)
    start, end = (instant_of(day, zone).isoformat() for day in (_SAMPLE_DAY, _SAMPLE_DAY + timedelta(days=1)))
    return {
        WindowToken.DATA_INTERVAL_START: start,
        WindowToken.DATA_INTERVAL_END: end,
        WindowToken.LOGICAL_DATE: start,
        WindowToken.DS: _SAMPLE_DAY.date().isoformat(),
        WindowToken.DAG_RUN_ID: f"scheduled__{start}",
    }


def plan_process(process: Process) -> CampaignPlan:
    """Plan a process, the tokens of its window replaced by a sample interval.

    Errors: PlanInvalidError, NotSupportedError.
    """
    chunk = process.manifest.backfill.chunk
    return plan_campaign(process, sample_interval(chunk.timezone if chunk else "UTC"))


def plan_mapping(process: Process, campaign: CampaignPlan) -> MappingPlan | InternalMapping:
    """Give the mapping of a process.

    Errors: MappingTaskLimitExceededError.
    """
    return campaign.mapping_plan(process.mapping) if process.mapping.mapped else InternalMapping()
