"""What a pack becomes in Airflow and Kubernetes, as a document: tasks, limits, pods, secrets, permissions, sizes. Opens nothing.

It holds names of connections and secrets, and never a value of one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from dpone_contract.environment import connection_variables
from dpone_contract.frozen import FrozenModel
from dpone_contract.manifest import BackfillStateOptions, PublicationOptions
from dpone_contract.mapping_plan import FingerprintText, MappingPlan
from dpone_contract.pack import (
    DagProjection,
    ExecutionBackend,
    Pack,
    ProcessPlan,
    RetryAuthority,
    ShortText,
)
from dpone_contract.pod import SecretVariable
from dpone_packbuilder.pod import manifest_connections
from dpone_packbuilder.pod_preview import PreviewedPod, pod_preview
from dpone_packbuilder.preview_sizes import PackSizes, TaskSizes, pack_sizes, task_sizes

Count = Annotated[int, Field(ge=1)]


class TaskKind(StrEnum):
    """What a task of a process is for."""

    PRE_HOOK = "pre_hook"
    LOAD = "load"
    GATE = "gate"
    POST_HOOK = "post_hook"


class PreviewedTask(FrozenModel):
    """One task, in the order in which they run."""

    task_id: ShortText = Field(description="Id of the task.")
    kind: TaskKind = Field(description="A hook before, the load, the gate behind it, or a hook after.")
    runs_in: Literal["pod", "child process", "worker"] = Field(description="Where it does its work.")
    instances: Count = Field(description="Task instances of a DAG run.")
    command: tuple[str, ...] = Field(default=(), description="Command of a hook.")


class PreviewedPool(FrozenModel):
    """The pool of mapped tasks, and how it is made."""

    name: ShortText = Field(description="Name of the pool.")
    slots: Count = Field(description="Slots that the mapped tasks need at most.")
    command: str = Field(description="Command that creates it.")


class PreviewedConnection(FrozenModel):
    """A connection by name: where a run looks for it."""

    name: ShortText = Field(description="Name of the connection.")
    variables: tuple[str, ...] = Field(description="Variables that may hold it.")
    secret: SecretVariable | None = Field(default=None, description="Secret that a pod gets it from.")


class PreviewedProcess(FrozenModel):
    """One process of a pack: its tasks, and what they need."""

    process: ShortText = Field(description="Name of the process.")
    backend: ExecutionBackend = Field(description="Where its tasks run.")
    mode: Literal["internal", "visible", "summary"] = Field(description="How many tasks show the campaign.")
    tasks: tuple[PreviewedTask, ...] = Field(description="Tasks in their order.")
    labels: tuple[str, ...] = Field(description="What Airflow shows of each item.")
    most_at_once: Count = Field(description="Task instances of the load that may run at once.")
    pool: PreviewedPool | None = Field(default=None, description="Pool of mapped tasks.")
    plan_fingerprint: FingerprintText | None = Field(
        default=None, description="Fingerprint of the mapping plan."
    )
    process_digest: FingerprintText = Field(description="Digest of the process.")
    retry_authority: RetryAuthority = Field(description="How many retries are safe.")
    ledger: BackfillStateOptions = Field(description="The ledger that the load needs.")
    publication: PublicationOptions = Field(description="How what was loaded becomes visible.")
    outlets: tuple[str, ...] = Field(description="Assets that a complete campaign updates.")
    connections: tuple[PreviewedConnection, ...] = Field(description="Connections of the load.")
    pod: PreviewedPod | None = Field(default=None, description="The pod of its tasks.")
    sizes: TaskSizes = Field(description="Bytes that a task carries.")


class PreviewedWorkload(FrozenModel):
    """One pack."""

    workload: ShortText = Field(description="Name of the workload.")
    release: ShortText = Field(description="Name of the release.")
    deployment: ShortText = Field(description="Name of the deployment.")
    pack_fingerprint: FingerprintText = Field(description="Fingerprint of the pack.")
    dag: DagProjection = Field(description="The DAG.")
    processes: tuple[PreviewedProcess, ...] = Field(description="Its processes.")
    sizes: PackSizes = Field(description="Bytes of the pack and of its DAG.")


class AirflowPreview(FrozenModel):
    """`dpone.airflow-preview.v1`: what `dpone airflow preview --format json` prints."""

    schema_: Literal["dpone.airflow-preview.v1"] = Field(
        default="dpone.airflow-preview.v1", alias="schema", description="Name and version of this format."
    )
    workloads: tuple[PreviewedWorkload, ...] = Field(description="Workloads in the catalog's order.")


def airflow_preview(packs: tuple[Pack, ...]) -> AirflowPreview:
    """Give the document of some packs; a pool that several share is as large as the widest of them needs."""
    plans = [plan for pack in packs for plan in pack.processes]
    return AirflowPreview(workloads=tuple(_workload(pack, plans) for pack in packs))


def pool_of(mapping: MappingPlan, plans: Iterable[ProcessPlan]) -> PreviewedPool:
    """Give the pool of a mapping, and the one command that creates it for all of the plans that use it.

    Where the triggerer waits for a pod, the pool counts tasks that it holds; Airflow leaves them out otherwise.
    """
    name = mapping.limits.pool
    sharing = [(plan, plan.mapping.limits) for plan in plans if isinstance(plan.mapping, MappingPlan)]
    sharing = [(plan, limits) for plan, limits in sharing if limits.pool == name]
    slots = max(limits.max_active for _, limits in sharing)
    quoted = f'"{name}"' if " " in name else shlex.quote(name)
    command = f'airflow pools set {quoted} {slots} "{name.replace("_", " ")}"'
    if any(plan.pod.deferrable for plan, _ in sharing):
        command += " --include-deferred"
    return PreviewedPool(name=name, slots=slots, command=command)


def _workload(pack: Pack, plans: list[ProcessPlan]) -> PreviewedWorkload:
    return PreviewedWorkload(
        workload=pack.workload,
        release=pack.release,
        deployment=pack.deployment,
        pack_fingerprint=pack.fingerprint,
        dag=pack.dag,
        processes=tuple(_process(pack, plan, plans) for plan in pack.processes),
        sizes=pack_sizes(pack),
    )


def _process(pack: Pack, plan: ProcessPlan, plans: list[ProcessPlan]) -> PreviewedProcess:
    mapping = plan.mapping if isinstance(plan.mapping, MappingPlan) else None
    in_pods = plan.backend is ExecutionBackend.KUBERNETES
    return PreviewedProcess(
        process=plan.process.name,
        backend=plan.backend,
        mode=plan.mapping.mode,
        tasks=tuple(_tasks(plan)),
        labels=plan.labels,
        most_at_once=mapping.limits.max_active if mapping else pack.dag.max_active_runs,
        pool=pool_of(mapping, plans) if mapping else None,
        plan_fingerprint=mapping.plan_fingerprint if mapping else None,
        process_digest=plan.process_digest,
        retry_authority=plan.retry_authority,
        ledger=plan.process.manifest.backfill.state,
        publication=plan.process.manifest.backfill.publication,
        outlets=plan.outlets,
        connections=tuple(_connections(plan)),
        pod=pod_preview(plan.pod, pack.dag.execution_timeout_seconds) if in_pods else None,
        sizes=task_sizes(pack, plan),
    )


def _tasks(plan: ProcessPlan) -> Iterator[PreviewedTask]:
    runs_in: Literal["pod", "child process"] = (
        "pod" if plan.backend is ExecutionBackend.KUBERNETES else "child process"
    )
    for hook in plan.hooks.pre:
        yield _hook(TaskKind.PRE_HOOK, hook.name, runs_in, hook.command)
    items = plan.mapping.items_total if isinstance(plan.mapping, MappingPlan) else 1
    yield PreviewedTask(task_id=plan.task_id, kind=TaskKind.LOAD, runs_in=runs_in, instances=items)
    if plan.gate_task_id is not None:
        yield PreviewedTask(task_id=plan.gate_task_id, kind=TaskKind.GATE, runs_in="worker", instances=1)
    for hook in plan.hooks.post:
        yield _hook(TaskKind.POST_HOOK, hook.name, runs_in, hook.command)


def _hook(
    kind: TaskKind, name: str, runs_in: Literal["pod", "child process"], command: tuple[str, ...]
) -> PreviewedTask:
    return PreviewedTask(task_id=name, kind=kind, runs_in=runs_in, instances=1, command=command)


def _connections(plan: ProcessPlan) -> Iterator[PreviewedConnection]:
    secrets = {secret.variable: secret for secret in plan.pod.secrets or ()}
    in_pods = plan.backend is ExecutionBackend.KUBERNETES
    for name in manifest_connections(plan.process.manifest):
        variables = connection_variables(name)
        yield PreviewedConnection(
            name=name, variables=variables, secret=secrets.get(variables[0]) if in_pods else None
        )
