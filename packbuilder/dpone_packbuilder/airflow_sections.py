"""The preview of a pack in Airflow, told to people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from dpone_contract.pack import DagProjection, Pack, ProcessPlan
from dpone_contract.pod import PodResources
from dpone_contract.process import ARGUMENT_SIZE_LIMIT_BYTES
from dpone_packbuilder.airflow_preview import (
    PreviewedProcess,
    PreviewedTask,
    PreviewedWorkload,
    TaskKind,
    airflow_preview,
)
from dpone_packbuilder.pod_preview import PreviewedPod
from dpone_packbuilder.preview import load_rows, mapping_rows, retries_told
from dpone_packbuilder.told_sections import Section

Row = tuple[str, str]

_KINDS = {
    TaskKind.PRE_HOOK: "hook before",
    TaskKind.LOAD: "load",
    TaskKind.GATE: "gate",
    TaskKind.POST_HOOK: "hook after",
}
_WHERE = {"pod": "in a pod", "child process": "in a child process", "worker": "on the worker"}


def airflow_reports(packs: tuple[Pack, ...]) -> Iterator[tuple[str, tuple[Section, ...]]]:
    """Give of each pack a heading and what it becomes, in the order in which somebody who publishes it asks."""
    for pack, workload in zip(packs, airflow_preview(packs).workloads, strict=True):
        names = f"release {pack.release}, deployment {pack.deployment}"
        yield f"workload {pack.workload}, DAG {pack.dag.dag_id}: {names}", _sections(pack, workload)


def _sections(pack: Pack, workload: PreviewedWorkload) -> tuple[Section, ...]:
    sections = [Section("DAG", tuple(_dag_rows(pack.dag)))]
    for plan, process in zip(pack.processes, workload.processes, strict=True):
        sections += [
            Section("tasks, in their order", tuple(_task_rows(process))),
            Section("load", (*load_rows(plan), *_projection_rows(plan, process, pack.dag))),
        ]
        if process.pod is not None:
            sections.append(Section("pod", tuple(_pod_rows(process.pod, process))))
        else:
            sections.append(Section("child process", tuple(_connection_rows(process))))
    sections.append(Section("identity and sizes", tuple(_size_rows(workload))))
    before = tuple(_commands(workload))
    if before:
        sections.append(Section("before the first run", commands=before))
    permissions = next((process.pod.permissions for process in workload.processes if process.pod), ())
    if permissions:
        sections.append(
            Section(
                "permissions of Airflow's account in the namespace of the pods",
                tuple((found.resource, ", ".join(found.verbs)) for found in permissions),
            )
        )
    return tuple(sections)


def _dag_rows(dag: DagProjection) -> Iterator[Row]:
    yield "id", dag.dag_id
    if dag.description:
        yield "description", dag.description
    yield "schedule", dag.schedule or "none (started by hand)"
    yield "start date", dag.start_date or "none"
    if dag.schedule:
        yield "catchup", "missed intervals are run" if dag.catchup else "off"
    yield "DAG runs at once", str(dag.max_active_runs)
    timeout = dag.execution_timeout_seconds
    yield "task timeout", "none" if timeout is None else f"{timeout:,} seconds"
    if dag.tags:
        yield "tags", ", ".join(dag.tags)
    if dag.owner:
        yield "owner", dag.owner


def _task_rows(process: PreviewedProcess) -> Iterator[tuple[str, ...]]:
    for number, task in enumerate(process.tasks, 1):
        yield f"{number}.", task.task_id, _KINDS[task.kind], _WHERE[task.runs_in], _what(task, process)


def _what(task: PreviewedTask, process: PreviewedProcess) -> str:
    match task.kind:
        case TaskKind.LOAD if process.pool is not None:
            return f"{task.instances} mapped, at most {process.most_at_once} at once"
        case TaskKind.LOAD:
            return (
                "one task"
                if process.most_at_once == 1
                else f"one task a DAG run, {process.most_at_once} at once"
            )
        case TaskKind.GATE:
            updates = f"; updates {', '.join(process.outlets)}" if process.outlets else ""
            return f"passes once the campaign is proved complete{updates}"
        case _:
            return shlex.join(task.command)


def _projection_rows(plan: ProcessPlan, process: PreviewedProcess, dag: DagProjection) -> Iterator[Row]:
    yield "mode", process.mode
    yield from (row for row in mapping_rows(plan) if row[0] != "create the pool")
    yield "retries", f"{retries_told(plan, dag.retries)}, {dag.retry_delay_seconds} seconds apart"


def _pod_rows(pod: PreviewedPod, process: PreviewedProcess) -> Iterator[Row]:
    yield "image", pod.image or "that of the template"
    if pod.image_pull_policy:
        yield "image is pulled", pod.image_pull_policy
    yield "namespace", pod.namespace or "that of the cluster's connection"
    yield (
        "cluster",
        pod.kubernetes_conn_id
        or "that of kubernetes_default; without it the one that Airflow runs in, or its kubeconfig",
    )
    if pod.pod_template_file:
        yield "template", pod.pod_template_file
    yield "resources", _resources_told(pod.resources)
    yield "service account", f"{pod.service_account or 'that of the namespace'}, {_token(pod)}"
    security = pod.security
    group = f", volumes of group {security.fs_group}" if security.fs_group else ""
    what = (
        f"user {security.run_as_user}, never root{group}; root filesystem read-only, /tmp its own; "
        f"no capability; seccomp {security.seccomp}"
    )
    yield "security", what
    waits = f"the triggerer, every {pod.poll_interval_seconds} seconds" if pod.deferrable else "the worker"
    yield "waited for by", waits
    yield "times", _times_told(pod)
    yield "when it has ended", pod.on_finish_action
    if pod.pack_path:
        yield "pack", pod.pack_path
    yield from _connection_rows(process)


def _connection_rows(process: PreviewedProcess) -> Iterator[Row]:
    for connection in process.connections:
        found = connection.secret
        if found is not None:
            told = f"{found.variable} from key {found.key} of secret {found.secret}"
        else:
            told = " or ".join(connection.variables)
        yield "connection", f"{connection.name}: {told}"
    known = {connection.secret for connection in process.connections}
    for secret in process.pod.secrets if process.pod else ():
        if secret not in known:
            yield "for hooks", f"{secret.variable} from key {secret.key} of secret {secret.secret}"


def _size_rows(workload: PreviewedWorkload) -> Iterator[Row]:
    yield "pack fingerprint", workload.pack_fingerprint
    yield "pack", f"{workload.sizes.pack_bytes:,} bytes"
    for process in workload.processes:
        sizes = process.sizes
        if sizes.process_argument_bytes:
            limit = ARGUMENT_SIZE_LIMIT_BYTES
            yield "process argument", f"{sizes.process_argument_bytes:,} of at most {limit:,} bytes"
        yield "environment", f"{sizes.environment_bytes:,} bytes a task, beside its interval"
    items = [process.sizes.serialised_item_bytes for process in workload.processes]
    each = f", {items[0]:,} of them a mapped task" if items[0] else ""
    yield "stored DAG", f"about {workload.sizes.serialised_bytes:,} bytes{each}"


def _commands(workload: PreviewedWorkload) -> Iterator[str]:
    for process in workload.processes:
        if process.pool is not None:
            yield process.pool.command
        if process.pod is not None:
            yield from process.pod.secret_commands


def _resources_told(resources: PodResources | None) -> str:
    if resources is None:
        return "none asked for, none limited"
    told = [
        f"{verb} " + ", ".join(f"{name} {text}" for name, text in sorted(quantities.items()))
        for verb, quantities in (("asks for", resources.requests), ("may use", resources.limits))
        if quantities
    ]
    return "; ".join(told)


def _times_told(pod: PreviewedPod) -> str:
    told = [f"{pod.startup_timeout_seconds:,} seconds to start"]
    if pod.active_deadline_seconds:
        told.append(f"{pod.active_deadline_seconds:,} to live")
    if pod.termination_grace_seconds:
        told.append(f"{pod.termination_grace_seconds:,} to end")
    return ", ".join(told)


def _token(pod: PreviewedPod) -> str:
    return "its token mounted" if pod.security.token_mounted else "no token mounted"
