"""Tolerations and affinity as Kubernetes writes them: which keys there are, and what each holds. Fields have its own names."""

# ruff: noqa: N815

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpone_contract.frozen import FrozenModel

Texts = tuple[str, ...]
Weight = Annotated[int, Field(ge=1, le=100)]


class Toleration(FrozenModel):
    """One toleration."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: Annotated[int, Field(ge=0)] | None = None


class NodeRequirement(FrozenModel):
    """A condition on a label or field of a node."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Texts | None = None


class NodeTerm(FrozenModel):
    """Conditions that hold together."""

    matchExpressions: tuple[NodeRequirement, ...] | None = None
    matchFields: tuple[NodeRequirement, ...] | None = None


class NodeSelector(FrozenModel):
    """Terms, of which one has to hold."""

    nodeSelectorTerms: Annotated[tuple[NodeTerm, ...], Field(min_length=1)]


class PreferredNode(FrozenModel):
    """A term and how much it counts."""

    weight: Weight
    preference: NodeTerm


class NodeAffinity(FrozenModel):
    """Which nodes a pod needs or prefers."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: tuple[PreferredNode, ...] | None = None


class LabelRequirement(FrozenModel):
    """A condition on a label of other pods."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Texts | None = None


class LabelSelector(FrozenModel):
    """Which pods, or namespaces, are meant."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: tuple[LabelRequirement, ...] | None = None


class PodTerm(FrozenModel):
    """Other pods, and what counts as one place."""

    topologyKey: Annotated[str, Field(min_length=1)]
    labelSelector: LabelSelector | None = None
    namespaces: Texts | None = None
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: Texts | None = None
    mismatchLabelKeys: Texts | None = None


class PreferredPods(FrozenModel):
    """A term and how much it counts."""

    weight: Weight
    podAffinityTerm: PodTerm


class PodAffinity(FrozenModel):
    """Beside which pods a pod has to be, or prefers to be."""

    requiredDuringSchedulingIgnoredDuringExecution: tuple[PodTerm, ...] | None = None
    preferredDuringSchedulingIgnoredDuringExecution: tuple[PreferredPods, ...] | None = None


class Affinity(FrozenModel):
    """The whole block."""

    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None
