"""From a workload to what its tasks show: the compiled process, its planned campaign and its mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpone_contract.mapping_plan import InternalMapping, MappingPlan
from dpone_contract.process import CampaignPlan, Process, plan_campaign
from dpone_contract.window_tokens import WindowToken
from dpone_packbuilder.project import Workload

SAMPLE_INTERVAL: Mapping[WindowToken, str] = {
    WindowToken.DATA_INTERVAL_START: "2024-02-28T00:00:00+00:00",
    WindowToken.DATA_INTERVAL_END: "2024-02-29T00:00:00+00:00",
    WindowToken.LOGICAL_DATE: "2024-02-28T00:00:00+00:00",
    WindowToken.DS: "2024-02-28",
    WindowToken.DAG_RUN_ID: "scheduled__2024-02-28T00:00:00+00:00",
}
"""Values that prove at check time that a templated window can be planned; they never enter a pack."""


@dataclass(frozen=True)
class PlannedWorkload:
    """A workload that can be compiled. `campaign` is a sample where the window is templated."""

    workload: Workload
    process: Process
    campaign: CampaignPlan
    mapping: MappingPlan | InternalMapping


def plan_process(process: Process) -> CampaignPlan:
    """Plan a process, the tokens of its window replaced by a sample interval.

    Errors: PlanInvalidError, NotSupportedError.
    """
    return plan_campaign(process, SAMPLE_INTERVAL)


def plan_mapping(process: Process, campaign: CampaignPlan) -> MappingPlan | InternalMapping:
    """Give the mapping of a process.

    Errors: MappingTaskLimitExceededError.
    """
    return campaign.mapping_plan(process.mapping) if process.mapping.mapped else InternalMapping()
