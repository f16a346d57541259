"""What holds for a workload: its catalog entry over its manifest over the catalog's defaults over the built-in ones."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_contract.mapping_policy import MappingOptions, MappingPolicy, resolve_mapping_policy
from dpone_contract.yaml_tree import Path, YamlTree
from dpone_packbuilder.catalog import AirflowOptions, ExecutionOptions, default_path, workload_path
from dpone_packbuilder.project import Workload


@dataclass(frozen=True)
class Place:
    """A key in one of the files."""

    tree: YamlTree
    path: Path


@dataclass(frozen=True)
class _Layer:
    options: MappingOptions | ExecutionOptions | None
    place: Place


def resolve_policy(workload: Workload) -> MappingPolicy:
    """Resolve how many tasks show a workload.

    Errors: MappingPolicyInvalidError, MappingPoolRequiredError; the error's field `field` names the key.
    Source: the design, authoring (policy order).
    """
    layers = (layer.options for layer in _mapping_layers(workload))
    return resolve_mapping_policy(*(options for options in layers if isinstance(options, MappingOptions)))


def resolve_execution(workload: Workload) -> ExecutionOptions:
    """Give a workload's execution options; what nobody has set stays None."""
    layers = [layer.options for layer in _execution_layers(workload) if layer.options is not None]
    found: dict[str, object] = {}
    for name in ExecutionOptions.model_fields:
        found[name] = next((value for layer in layers if (value := getattr(layer, name)) is not None), None)
    return ExecutionOptions().replaced(**found)


def mapping_place(workload: Workload, key: str) -> Place:
    """Give the place that sets a key of the mapping, else the nearest place where it could be set."""
    return _place(_mapping_layers(workload), key)


def execution_place(workload: Workload, key: str) -> Place:
    """Give the place that sets a key of the execution, else the nearest place where it could be set."""
    return _place(_execution_layers(workload), key)


def _place(layers: tuple[_Layer, ...], key: str) -> Place:
    for layer in layers:
        if layer.options is not None and getattr(layer.options, key) is not None:
            return Place(layer.place.tree, (*layer.place.path, key))
    return layers[0].place


def _mapping_layers(workload: Workload) -> tuple[_Layer, ...]:
    gitops = workload.manifest.gitops if workload.manifest else None
    authored = gitops.airflow.mapping if gitops and gitops.airflow else None
    in_manifest = _Layer(authored, Place(workload.manifest_tree, ("gitops", "airflow", "mapping")))
    in_catalog, in_defaults = _catalog_layers(workload, "mapping")
    return (*in_catalog, in_manifest, *in_defaults)


def _execution_layers(workload: Workload) -> tuple[_Layer, ...]:
    in_catalog, in_defaults = _catalog_layers(workload, "execution")
    return (*in_catalog, *in_defaults)


def _catalog_layers(workload: Workload, block: str) -> tuple[tuple[_Layer, ...], tuple[_Layer, ...]]:
    tree, options = workload.catalog_tree, workload.options
    if tree is None or options is None:
        return (), ()
    defaults = workload.defaults.airflow if workload.defaults else None
    own = Place(tree, workload_path(workload.name, "airflow", block))
    default = Place(tree, default_path("airflow", block))
    return (
        (_Layer(_block(options.airflow, block), own),),
        (_Layer(_block(defaults, block), default),),
    )


def _block(airflow: AirflowOptions | None, block: str) -> MappingOptions | ExecutionOptions | None:
    if airflow is None:
        return None
    return airflow.mapping if block == "mapping" else airflow.execution
