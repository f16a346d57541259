"""The tasks of one process: pre hooks, the runtime task, mapped or not, its gate, post hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from airflow_provider_dpone.backends import (
    hook_arguments,
    hook_class_for,
    operator_class_for,
    runtime_arguments,
)
from airflow_provider_dpone.mapped_tasks import expand_runtime_task
from airflow_provider_dpone.outcome_gate import DponeOutcomeGate, build_outlets
from airflow_provider_dpone.task_env import build_mapped_envs, build_task_env
from airflow_provider_dpone.version_compat import DAG, TaskGroup
from dpone_contract.errors import PackInvalidError, RetryAuthorityExceededError, located
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import Hook, Pack, ProcessPlan

# A gate asks Airflow's API for many documents; the judgement itself is never repeated.
_GATE_RETRIES = 2


def build_pack_tasks(pack: Pack, dag: DAG, group: TaskGroup | None, default_args: Mapping[str, Any]) -> None:
    """Build the tasks of every process of a pack, in its order and side by side.

    Errors: PackInvalidError for a task id that is there twice; else as in `build_process_tasks`.
    """
    _require_free_ids(pack, dag, group)
    for plan in pack.processes:
        build_process_tasks(pack, plan, dag, group, default_args)


def build_process_tasks(
    pack: Pack, plan: ProcessPlan, dag: DAG, group: TaskGroup | None, default_args: Mapping[str, Any]
) -> None:
    """Build the tasks of one process: pre hooks one after another, the runtime task, its gate, post hooks.

    `default_args` are those of the DAG or group; a number of retries there replaces the pack's.

    Errors: RetryAuthorityExceededError, MappingUnsupportedError, PackInvalidError; each names the task.
    """
    placed: dict[str, Any] = {"dag": dag, "task_group": group} if group is not None else {"dag": dag}
    # What a DAG's default_args say of trigger rules is for the first task of the chain, not within it.
    timed = {**placed, **_timeout(pack.dag.execution_timeout_seconds)}
    behind = {**timed, "trigger_rule": "all_success"}
    with located(f"task {plan.task_id}"):
        chain: list[Any] = []
        for hook in plan.hooks.pre:
            chain.append(_build_hook(plan, hook, behind if chain else timed))
        chain.append(_build_runtime_task(pack, plan, behind if chain else timed, default_args))
        if plan.gate_task_id is not None:
            chain.append(_build_gate(plan, chain[-1].task_id, placed))
        chain += [_build_hook(plan, hook, behind) for hook in plan.hooks.post]
    for before, after in pairwise(chain):
        before >> after


def _build_runtime_task(
    pack: Pack, plan: ProcessPlan, placed: Mapping[str, Any], default_args: Mapping[str, Any]
) -> Any:
    operator = operator_class_for(plan.backend)
    env = build_task_env(pack, plan)
    static: dict[str, Any] = {
        **placed,
        **runtime_arguments(pack, plan),
        "task_id": plan.task_id,
        "retries": _retries(pack, plan, default_args),
        "retry_delay": timedelta(seconds=pack.dag.retry_delay_seconds),
        # Without its XCom no gate would ever pass; a DAG's default_args may say otherwise of both.
        "do_xcom_push": True,
        "multiple_outputs": False,
    }
    if not isinstance(plan.mapping, MappingPlan):
        return operator(**static, env_vars=env)
    static["item_labels"] = list(plan.labels)
    return expand_runtime_task(operator, plan.mapping, build_mapped_envs(env, plan.mapping), static)


def _build_gate(plan: ProcessPlan, runtime_task_id: str, placed: Mapping[str, Any]) -> Any:
    mapped = isinstance(plan.mapping, MappingPlan)
    return DponeOutcomeGate(
        **placed,
        task_id=plan.gate_task_id,
        runtime_task_id=runtime_task_id,
        process_digest=plan.process_digest,
        mapping_plan_fingerprint=plan.mapping.plan_fingerprint
        if isinstance(plan.mapping, MappingPlan)
        else None,
        item_labels=list(plan.labels) if mapped else (),
        swaps=plan.process.manifest.backfill.publication.swaps,
        outlets=build_outlets(plan.outlets),
        retries=_GATE_RETRIES,
    )


def _build_hook(plan: ProcessPlan, hook: Hook, placed: Mapping[str, Any]) -> Any:
    # Nobody has found out whether a hook's command may run twice; it is never retried by itself.
    operator = hook_class_for(plan.backend)
    return operator(**placed, **hook_arguments(plan, hook), task_id=hook.name, retries=0)


def _require_free_ids(pack: Pack, dag: DAG, group: TaskGroup | None) -> None:
    seen: set[str] = set()
    for plan in pack.processes:
        for task_id in _task_ids(plan):
            whole = task_id if group is None else group.child_id(task_id)  # type: ignore[no-untyped-call]  # Airflow leaves it untyped
            if task_id in seen or whole in dag.task_dict:
                raise PackInvalidError(
                    f"two tasks would have the id {whole}",
                    where=f"task {plan.task_id}",
                    next_step="give the process or the hook another name, or put the pack into a group of its own",
                )
            seen.add(task_id)


def _task_ids(plan: ProcessPlan) -> Sequence[str]:
    hooks = [hook.name for hook in (*plan.hooks.pre, *plan.hooks.post)]
    return [*hooks, plan.task_id, *filter(None, [plan.gate_task_id])]


def _timeout(seconds: int | None) -> dict[str, timedelta]:
    # Where the pack says nothing, a DAG's default_args may.
    return {} if seconds is None else {"execution_timeout": timedelta(seconds=seconds)}


def _retries(pack: Pack, plan: ProcessPlan, default_args: Mapping[str, Any]) -> int:
    asked = default_args.get("retries", pack.dag.retries)
    allowed = plan.retry_authority
    if int(asked or 0) > allowed.max_retries:
        raise RetryAuthorityExceededError(
            f"task {plan.task_id} is to be retried {asked} times, but {allowed.max_retries} are safe: {allowed.reason}",
            where=f"task {plan.task_id}",
            next_step=f"lower retries to {allowed.max_retries}",
        )
    return int(asked or 0)
