"""What holds for a workload's pods, connections and hooks: its catalog entry over the catalog's defaults.

Blocks of names (labels, variables, quantities, connections) are merged name by name; everything else, lists too, is taken whole
from the first place that sets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from dpone_contract.pack import ExecutionBackend, Hooks
from dpone_contract.yaml_tree import Path, YamlTree
from dpone_packbuilder.catalog import (
    HookOptions,
    PodOptions,
    ResourceOptions,
    SecretKey,
    default_path,
    workload_path,
)
from dpone_packbuilder.policy import Place, resolve_execution
from dpone_packbuilder.project import Workload

Value = TypeVar("Value")


def runs_in_pods(workload: Workload) -> bool:
    """Whether a workload's tasks run in pods: the backend where nobody says otherwise."""
    return resolve_execution(workload).backend is not ExecutionBackend.PROCESS


def resolve_pod(workload: Workload) -> PodOptions:
    """Give a workload's pod settings; what nobody has set stays None."""
    own = workload.options.pod if workload.options else None
    default = workload.defaults.pod if workload.defaults else None
    found = {
        name: _merged(getattr(own, name, None), getattr(default, name, None))
        for name in PodOptions.model_fields
    }
    return PodOptions().replaced(**found)


def resolve_connections(workload: Workload) -> dict[str, SecretKey]:
    """Give the secrets of connections by name, those that only the defaults name included."""
    own = workload.options.connections if workload.options else None
    default = workload.defaults.connections if workload.defaults else None
    return {**(default or {}), **(own or {})}


def resolve_hooks(workload: Workload) -> Hooks:
    """Give a workload's hooks; each of the two lists is taken whole."""
    own, default = _hook_options(workload)
    return Hooks(
        pre=_first(own.pre, default.pre) or (),
        post=_first(own.post, default.post) or (),
    )


def pod_place(workload: Workload, *keys: str | int) -> Place:
    """Give the place of a key below `pod`, in the entry before the defaults, else the nearest place where it could be set."""
    return authored_place(workload, "pod", *keys)


def connection_place(workload: Workload, *keys: str) -> Place:
    """Give the place of a key below `connections`, as `pod_place` does."""
    return authored_place(workload, "connections", *keys)


def hook_place(workload: Workload, *keys: str | int) -> Place:
    """Give the place of a key below `airflow.hooks`, as `pod_place` does."""
    return authored_place(workload, "airflow", "hooks", *keys)


def is_authored(workload: Workload, *keys: str | int) -> bool:
    """Whether a key has a value in the file, be it a wrong one that is told elsewhere."""
    place = authored_place(workload, *keys)
    return place.path in place.tree.positions and place.tree.below(place.path).value is not None


def authored_place(workload: Workload, *keys: str | int) -> Place:
    """Give the place of a key, the workload's own before the defaults' one, else the nearest that could hold it."""
    tree = workload.catalog_tree or YamlTree("")
    own: Path = (*workload_path(workload.name), *keys)
    default: Path = (*default_path(), *keys)
    return Place(tree, next((path for path in (own, default) if path in tree.positions), own))


def _hook_options(workload: Workload) -> tuple[HookOptions, HookOptions]:
    own = workload.options.airflow if workload.options else None
    default = workload.defaults.airflow if workload.defaults else None
    nothing = HookOptions()
    return (own and own.hooks) or nothing, (default and default.hooks) or nothing


def _merged(own: object, default: object) -> object:
    if isinstance(own, ResourceOptions) and isinstance(default, ResourceOptions):
        names = ResourceOptions.model_fields
        return own.replaced(**{name: _merged(getattr(own, name), getattr(default, name)) for name in names})
    if isinstance(own, Mapping) and isinstance(default, Mapping):
        return {**default, **own}
    return _first(own, default)


def _first(own: Value | None, default: Value | None) -> Value | None:
    return default if own is None else own
