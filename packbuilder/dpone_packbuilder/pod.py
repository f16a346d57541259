"""The operator's arguments of a workload, from what its catalog says. Pure; rules are elsewhere, and nothing is templated here."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_contract.environment import connection_variables
from dpone_contract.manifest import Manifest
from dpone_contract.pod import PodArguments, PodResources, SecretVariable
from dpone_packbuilder.catalog import Delivery, PodOptions, ResourceOptions
from dpone_packbuilder.pod_policy import (
    resolve_connections,
    resolve_hooks,
    resolve_pod,
    runs_in_pods,
)
from dpone_packbuilder.policy import resolve_execution
from dpone_packbuilder.project import Workload
from dpone_packbuilder.release_index import pack_path

LONGEST_PATH = 250
"""Of the path of a pack, in characters."""


def pod_arguments(workload: Workload) -> PodArguments:
    """Give the operator's arguments: of a child process its variables, of a pod everything that its catalog says.

    What is empty is left out, so that one thing said in two ways gives one pack.
    """
    pod = resolve_pod(workload)
    if not runs_in_pods(workload):
        return PodArguments(env_vars=pod.env_vars or None)
    return PodArguments(
        env_vars=pod.env_vars or None,
        image=pod.image,
        image_pull_policy=pod.image_pull_policy,
        image_pull_secrets=pod.image_pull_secrets or None,
        namespace=pod.namespace,
        kubernetes_conn_id=pod.kubernetes_conn_id,
        service_account_name=pod.service_account,
        labels=pod.labels or None,
        annotations=pod.annotations or None,
        node_selector=pod.node_selector or None,
        tolerations=pod.tolerations or None,
        affinity=pod.affinity or None,
        priority_class_name=pod.priority_class,
        container_resources=_resources(pod.resources),
        secrets=tuple(secret_variables(workload)) or None,
        pod_template_file=pod.pod_template_file,
        run_as_user=pod.run_as_user or None,  # 0, root, is refused by a rule
        fs_group=pod.fs_group,
        on_finish_action=pod.on_finish_action,
        startup_timeout_seconds=pod.startup_timeout_seconds,
        active_deadline_seconds=pod.active_deadline_seconds,
        termination_grace_period=pod.termination_grace_seconds,
        deferrable=pod.deferrable,
        poll_interval=pod.poll_interval_seconds,
        pack_path=_bounded(delivered_path(workload, pod)),
    )


def delivered_path(workload: Workload, pod: PodOptions) -> str | None:
    """Give where a pod finds its pack, with delivery by file: the file itself, or its place within a release's folder."""
    if resolve_execution(workload).delivery is not Delivery.FILE or pod.pack_path is None:
        return None
    if pod.pack_path.endswith(".json"):
        return pod.pack_path
    return f"{pod.pack_path.rstrip('/')}/{pack_path(workload.name)}"


def secret_variables(workload: Workload) -> Iterator[SecretVariable]:
    """Give the variables of the connections that a pod gets, by name.

    Those are what the manifest names; where there are hooks, also what the workload itself lists for them.
    """
    connections = resolve_connections(workload)
    for name in sorted(delivered_connections(workload) & connections.keys()):
        variable, *_ = connection_variables(name)
        found = connections[name]
        yield SecretVariable(variable=variable, secret=found.secret, key=found.key)


def delivered_connections(workload: Workload) -> set[str]:
    """Give the names of the connections that a pod gets, if they have a secret."""
    names = set(manifest_connections(workload.manifest)) if workload.manifest else set()
    hooks = resolve_hooks(workload)
    if workload.options and (hooks.pre or hooks.post):
        names |= set(workload.options.connections or {})
    return names


def manifest_connections(manifest: Manifest) -> tuple[str, ...]:
    """Give the connections that a process opens, each once."""
    return tuple(dict.fromkeys((manifest.source.connection, manifest.sink.connection)))


def _resources(resources: ResourceOptions | None) -> PodResources | None:
    if resources is None or not (resources.requests or resources.limits):
        return None
    return PodResources(requests=resources.requests or {}, limits=resources.limits or {})


def _bounded(path: str | None) -> str | None:
    # A longer one is refused by a rule, at its key.
    return None if path is None else path[:LONGEST_PATH]
