"""The tasks of one process: the runtime task, mapped or not, and what stands after it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, assert_never

from airflow_provider_dpone.assets import DponeOutletsOperator, build_outlets
from airflow_provider_dpone.mapped_tasks import expand_runtime_task
from airflow_provider_dpone.process_operator import DponeProcessOperator
from airflow_provider_dpone.task_env import build_mapped_envs, build_task_env
from airflow_provider_dpone.version_compat import DAG, BaseOperator, TaskGroup
from dpone_contract.errors import NotSupportedError, RetryAuthorityExceededError, located
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import ExecutionBackend, Pack, ProcessPlan
from dpone_contract.process import encode_process

OUTLETS_SUFFIX = "_outlets"


def operator_class_for(backend: ExecutionBackend) -> type[BaseOperator]:
    """Give the operator that runs processes on a backend.

    Errors: NotSupportedError for a backend of a later release.
    """
    match backend:
        case ExecutionBackend.PROCESS:
            return DponeProcessOperator
        case ExecutionBackend.KUBERNETES:
            raise NotSupportedError(
                "this release of airflow-provider-dpone runs no pods yet",
                next_step="set airflow.execution.backend to process and build the pack again",
            )
        case _:
            assert_never(backend)


def build_pack_tasks(pack: Pack, dag: DAG, group: TaskGroup | None, default_args: Mapping[str, Any]) -> None:
    """Build the tasks of every process of a pack, in its order and side by side.

    Errors: as in `build_process_tasks`.
    """
    for plan in pack.processes:
        build_process_tasks(pack, plan, dag, group, default_args)


def build_process_tasks(
    pack: Pack, plan: ProcessPlan, dag: DAG, group: TaskGroup | None, default_args: Mapping[str, Any]
) -> None:
    """Build the tasks of one process: the runtime task, and for outlets of a mapped one a task that updates them.

    `default_args` are those of the DAG or group; a number of retries there replaces the pack's.

    Errors: RetryAuthorityExceededError, NotSupportedError, MappingUnsupportedError, PackInvalidError.
    """
    if plan.hooks.pre or plan.hooks.post:
        raise NotSupportedError(
            f"task {plan.task_id} has hooks, which this release does not run",
            where=f"task {plan.task_id}",
            next_step="remove the hooks and build the pack again",
        )
    with located(f"task {plan.task_id}"):
        operator = operator_class_for(plan.backend)
    env = build_task_env(pack, plan)
    outlets = build_outlets(plan.outlets)
    placed: dict[str, Any] = {"dag": dag, "task_group": group} if group is not None else {"dag": dag}
    common: dict[str, Any] = {
        **placed,
        "task_id": plan.task_id,
        "process": encode_process(plan.process),
        "retries": _retries(pack, plan, default_args),
        "retry_delay": timedelta(seconds=pack.dag.retry_delay_seconds),
    }
    if not isinstance(plan.mapping, MappingPlan):
        operator(**common, env_vars=env, outlets=outlets)
        return
    mapped = expand_runtime_task(
        operator, plan.mapping, build_mapped_envs(env, plan.mapping), {**common, "labels": list(plan.labels)}
    )
    if outlets:
        task_id = plan.task_id + OUTLETS_SUFFIX
        mapped >> DponeOutletsOperator(task_id=task_id, outlets=outlets, retries=0, **placed)


def _retries(pack: Pack, plan: ProcessPlan, default_args: Mapping[str, Any]) -> int:
    asked = default_args.get("retries", pack.dag.retries)
    allowed = plan.retry_authority
    if asked > allowed.max_retries:
        raise RetryAuthorityExceededError(
            f"task {plan.task_id} is to be retried {asked} times, but {allowed.max_retries} are safe: {allowed.reason}",
            where=f"task {plan.task_id}",
            next_step=f"lower retries to {allowed.max_retries}",
        )
    return int(asked)
