"""From a planned workload to its pack. Pure: the same input gives the same bytes."""

from __future__ import annotations

from dpone_contract.mapping_item import dump_item, mapping_item
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import DagProjection, ExecutionBackend, Pack, ProcessPlan, dump_pack, seal_pack
from dpone_contract.process import encode_process, process_digest
from dpone_packbuilder.catalog import ExecutionOptions
from dpone_packbuilder.mapping_planner import PlannedWorkload
from dpone_packbuilder.pod import pod_arguments
from dpone_packbuilder.pod_policy import resolve_hooks
from dpone_packbuilder.policy import resolve_execution
from dpone_packbuilder.retry_authority import retry_authority

MINIMUM_PROVIDER_VERSION = "0.1.0"
_UNSEALED = "sha256:" + "0" * 64


def compile_pack(
    planned: PlannedWorkload, *, release: str, deployment: str, task: ProcessPlan | None = None
) -> Pack:
    """Compile a workload that has passed its checks into a sealed pack; `task` is what `compile_task` gave for it.

    Errors: PackTooLargeError when an item, the process argument or the pack is beyond what Airflow can carry.
    Source: the design, pack and mapping plan.
    """
    pack = seal_pack(
        Pack(
            fingerprint=_UNSEALED,
            minimum_provider_version=MINIMUM_PROVIDER_VERSION,
            release=release,
            deployment=deployment,
            workload=planned.workload.name,
            dag=dag_projection(planned, resolve_execution(planned.workload)),
            processes=(task or compile_task(planned),),
        )
    )
    dump_pack(pack)
    return pack


def compile_task(planned: PlannedWorkload) -> ProcessPlan:
    """Compile what does not depend on the release: nearly all of the work.

    Errors: PackTooLargeError when an item or the process argument is beyond what Airflow can carry.
    """
    execution = resolve_execution(planned.workload)
    process, pod = planned.process, pod_arguments(planned.workload)
    if pod.pack_path is None:  # the process travels in the task's command line
        encode_process(process)
    mapped = isinstance(planned.mapping, MappingPlan)
    return ProcessPlan(
        task_id=process.name,
        backend=execution.backend or ExecutionBackend.KUBERNETES,
        process=process,
        process_digest=process_digest(process),
        mapping=planned.mapping,
        labels=item_labels(planned),
        kpo_kwargs=None if mapped else pod,
        mapped_kpo_kwargs=pod if mapped else None,
        hooks=resolve_hooks(planned.workload),
        outcome_gate=execution.outcome_gate or False,
        outlets=execution.outlets or (),
        retry_authority=retry_authority(process.manifest),
    )


def dag_projection(planned: PlannedWorkload, execution: ExecutionOptions) -> DagProjection:
    """Give what Airflow shows of a workload, built-in defaults filled in."""
    manifest = planned.workload.manifest
    return DagProjection(
        dag_id=execution.dag_id or planned.workload.name,
        description=execution.description or (manifest.description if manifest else None),
        schedule=execution.schedule,
        start_date=execution.start_date,
        catchup=execution.catchup or False,
        max_active_runs=execution.max_active_runs or 1,
        tags=execution.tags or (),
        owner=execution.owner,
        retries=execution.retries or 0,
        retry_delay_seconds=60 if execution.retry_delay_seconds is None else execution.retry_delay_seconds,
        execution_timeout_seconds=execution.execution_timeout_seconds,
    )


def item_labels(planned: PlannedWorkload) -> tuple[str, ...]:
    """Give one label an item, in order; none for a workload that is one task.

    Errors: PackTooLargeError for an item beyond its limit.
    """
    if not isinstance(planned.mapping, MappingPlan):
        return ()
    for item in planned.mapping.items:
        dump_item(mapping_item(planned.mapping, item))
    label = planned.campaign.plan.label
    return tuple(label(item.first_chunk_index, item.last_chunk_index) for item in planned.mapping.items)
