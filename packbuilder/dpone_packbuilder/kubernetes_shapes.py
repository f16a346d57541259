"""Tolerations and affinity as Kubernetes writes them: which keys there are, and what each holds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Texts = tuple[str, ...]
Weight = Annotated[int, Field(ge=1, le=100)]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class _Shape(BaseModel):
    # Not one of ours: those take the names of their fields too, and here Kubernetes' own are the only ones.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Toleration(_Shape):
    """One toleration."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: Annotated[int, Field(ge=0)] | None = None  # noqa: N815  # Kubernetes' own name


class NodeRequirement(_Shape):
    """A condition on a label or field of a node."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Texts | None = None


class NodeTerm(_Shape):
    """Conditions that hold together."""

    expressions: tuple[NodeRequirement, ...] | None = Field(default=None, alias="matchExpressions")
    fields: tuple[NodeRequirement, ...] | None = Field(default=None, alias="matchFields")


class NodeSelector(_Shape):
    """Terms, of which one has to hold."""

    terms: Annotated[tuple[NodeTerm, ...], Field(min_length=1)] = Field(alias="nodeSelectorTerms")


class PreferredNode(_Shape):
    """A term and how much it counts."""

    weight: Weight
    preference: NodeTerm


class NodeAffinity(_Shape):
    """Which nodes a pod needs or prefers."""

    required: NodeSelector | None = Field(default=None, alias=REQUIRED)
    preferred: tuple[PreferredNode, ...] | None = Field(default=None, alias=PREFERRED)


class LabelRequirement(_Shape):
    """A condition on a label of other pods."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Texts | None = None


class LabelSelector(_Shape):
    """Which pods, or namespaces, are meant."""

    labels: dict[str, str] | None = Field(default=None, alias="matchLabels")
    expressions: tuple[LabelRequirement, ...] | None = Field(default=None, alias="matchExpressions")


class PodTerm(_Shape):
    """Other pods, and what counts as one place."""

    topology: str = Field(alias="topologyKey", min_length=1)
    selector: LabelSelector | None = Field(default=None, alias="labelSelector")
    namespaces: Texts | None = None
    namespace_selector: LabelSelector | None = Field(default=None, alias="namespaceSelector")
    label_keys: Texts | None = Field(default=None, alias="matchLabelKeys")
    other_label_keys: Texts | None = Field(default=None, alias="mismatchLabelKeys")


class PreferredPods(_Shape):
    """A term and how much it counts."""

    weight: Weight
    term: PodTerm = Field(alias="podAffinityTerm")


class PodAffinity(_Shape):
    """Beside which pods a pod has to be, or prefers to be."""

    required: tuple[PodTerm, ...] | None = Field(default=None, alias=REQUIRED)
    preferred: tuple[PreferredPods, ...] | None = Field(default=None, alias=PREFERRED)


class Affinity(_Shape):
    """The whole block."""

    node: NodeAffinity | None = Field(default=None, alias="nodeAffinity")
    pod: PodAffinity | None = Field(default=None, alias="podAffinity")
    anti: PodAffinity | None = Field(default=None, alias="podAntiAffinity")
