"""The two places where a task runs: the operators of each, and the arguments that they take from a pack."""

from __future__ import annotations

from typing import Any, assert_never

from airflow_provider_dpone.process_hook import DponeProcessHookOperator
from airflow_provider_dpone.process_operator import DponeProcessOperator
from airflow_provider_dpone.task_env import build_hook_env
from airflow_provider_dpone.version_compat import BaseOperator
from dpone_contract.errors import PackInvalidError
from dpone_contract.pack import ExecutionBackend, Hook, Pack, ProcessPlan
from dpone_contract.pod import PodArguments
from dpone_contract.process import encode_process

# What finds the pods of a task instance, and what says that one of them was seen to its end.
_AIRFLOWS_LABELS = frozenset(
    {
        "dag_id",
        "task_id",
        "run_id",
        "map_index",
        "try_number",
        "kubernetes_pod_operator",
        "already_checked",
        "airflow-worker",
        "airflow_version",
        "airflow_kpo_in_cluster",
    }
)


def operator_class_for(backend: ExecutionBackend) -> type[BaseOperator]:
    """Give the operator that runs processes on a backend."""
    match backend:
        case ExecutionBackend.PROCESS:
            return DponeProcessOperator
        case ExecutionBackend.KUBERNETES:
            # Takes seconds to import, which a deployment without pods should not pay.
            from airflow_provider_dpone.pod_operator import DponePodOperator  # noqa: PLC0415

            return DponePodOperator
        case _:
            assert_never(backend)


def hook_class_for(backend: ExecutionBackend) -> type[BaseOperator]:
    """Give the operator that runs hooks on a backend."""
    match backend:
        case ExecutionBackend.PROCESS:
            return DponeProcessHookOperator
        case ExecutionBackend.KUBERNETES:
            # As above.
            from airflow_provider_dpone.pod_hook import DponePodHookOperator  # noqa: PLC0415

            return DponePodHookOperator
        case _:
            assert_never(backend)


def runtime_arguments(pack: Pack, plan: ProcessPlan) -> dict[str, Any]:
    """Give what the runtime operator of a process takes beside its environment; the same for every item.

    Errors: PackInvalidError for a pod without an image, and for a label that Airflow writes itself.
    """
    if plan.backend is ExecutionBackend.PROCESS:
        # Other operators have a `command` too, which may stand in a DAG's default_args.
        return {"process": encode_process(plan.process), "command": None}
    return {"settings": _pod_settings(plan), "arguments": _run_arguments(pack, plan)}


def hook_arguments(plan: ProcessPlan, hook: Hook) -> dict[str, Any]:
    """Give what the operator of a hook takes, its environment included; errors as in `runtime_arguments`."""
    arguments: dict[str, Any] = {"command": list(hook.command), "env_vars": build_hook_env(plan)}
    if plan.backend is ExecutionBackend.KUBERNETES:
        arguments["settings"] = _pod_settings(plan)
    return arguments


def _run_arguments(pack: Pack, plan: ProcessPlan) -> list[str]:
    path = plan.pod.pack_path
    if path is None:
        return ["run", "--process", encode_process(plan.process)]
    return [
        "run",
        "--pack",
        path,
        "--process-name",
        plan.process.name,
        "--pack-fingerprint",
        pack.fingerprint,
    ]


def _pod_settings(plan: ProcessPlan) -> dict[str, object]:
    _require_whole(plan.pod)
    return plan.pod.replaced(env_vars=None).to_document()


def _require_whole(pod: PodArguments) -> None:
    if pod.image is None and pod.pod_template_file is None:
        raise PackInvalidError("the pod has no image", next_step="name one in the workload's pod settings")
    taken = sorted(_AIRFLOWS_LABELS & set(pod.labels or {}))
    if taken:
        raise PackInvalidError(
            f"the pod's label {taken[0]} is written by Airflow", next_step="give it another name"
        )
