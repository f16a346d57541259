"""Rules of a catalog's defaults: what no workload of it would use is not written there for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_packbuilder.catalog import Delivery, PodOptions, default_path
from dpone_packbuilder.pod import delivered_connections
from dpone_packbuilder.pod_policy import runs_in_pods
from dpone_packbuilder.pod_rules import OF_EVERY_BACKEND
from dpone_packbuilder.policy import Place, resolve_execution
from dpone_packbuilder.project import Project, Workload
from dpone_packbuilder.rule import error_at, warning_at


def check_defaults(project: Project) -> Iterator[Finding]:
    """Apply every rule of this module."""
    if not project.workloads or project.workloads[0].defaults is None:
        return
    first = project.workloads[0]
    in_pods = [workload for workload in project.workloads if runs_in_pods(workload)]
    yield from refuse_idle_pod_settings(first, in_pods)
    yield from report_idle_connections(first, in_pods)


def refuse_idle_pod_settings(first: Workload, in_pods: list[Workload]) -> Iterator[Finding]:
    """Defaults of pods need a workload that runs in pods, those of delivery by file one that is delivered so."""
    pod = first.defaults.pod if first.defaults else None
    by_file = any(resolve_execution(workload).delivery is Delivery.FILE for workload in in_pods)
    for key in PodOptions.model_fields:
        if pod is None or getattr(pod, key) is None or key in OF_EVERY_BACKEND:
            continue
        if not in_pods:
            yield error_at(
                _place(first, "pod", key),
                ErrorCode.MANIFEST_INVALID,
                f"pod.{key} belongs to the kubernetes backend, and every workload runs as a child process",
                "remove it, or set airflow.execution.backend: kubernetes",
            )
        elif key == "pack_path" and not by_file:
            yield error_at(
                _place(first, "pod", key),
                ErrorCode.MANIFEST_INVALID,
                "pack_path is read with delivery: file alone, and no workload is delivered so",
                "add airflow.execution.delivery: file, or remove it",
            )


def report_idle_connections(first: Workload, in_pods: list[Workload]) -> Iterator[Finding]:
    """A secret that no pod gets may be a misspelt name."""
    connections = first.defaults.connections if first.defaults else None
    used = {name for workload in in_pods for name in delivered_connections(workload)}
    unread = any(workload.manifest is None for workload in in_pods)
    for name in connections or {}:
        if name not in used and not unread:
            yield warning_at(
                _place(first, "connections", name),
                ErrorCode.MANIFEST_INVALID,
                f"no pod gets the secret of {name}: no manifest names this connection",
                "remove it, or mend the name",
            )


def _place(workload: Workload, *keys: str) -> Place:
    assert workload.catalog_tree is not None  # defaults come from a catalog
    return Place(workload.catalog_tree, default_path(*keys))
