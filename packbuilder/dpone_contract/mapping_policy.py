"""The mapping policy: how many Airflow task instances show a campaign, and how many may run at once."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import Field, WithJsonSchema

from dpone_contract.errors import MappingPolicyInvalidError, MappingPoolRequiredError
from dpone_contract.frozen import FrozenModel

MAX_ITEMS_CEILING = 200
MAX_ACTIVE_CEILING = 64
DEFAULT_POOL = "dpone_backfill"

JsonScalar: TypeAlias = str | int | float | bool | None

_POOL_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.\- ]{0,255}"
_POOL = re.compile(_POOL_PATTERN)


class MappingMode(StrEnum):
    """One task, one task a chunk, or at most `max_items` tasks of contiguous chunks."""

    INTERNAL = "internal"
    VISIBLE = "visible"
    SUMMARY = "summary"


def _limit_schema(ceiling: int) -> WithJsonSchema:
    return WithJsonSchema({"type": ["integer", "null"], "minimum": 1, "maximum": ceiling})


AnyMode = Annotated[JsonScalar, WithJsonSchema({"enum": [*map(str, MappingMode), None]})]
AnyMaxItems = Annotated[JsonScalar, _limit_schema(MAX_ITEMS_CEILING)]
AnyMaxActive = Annotated[JsonScalar, _limit_schema(MAX_ACTIVE_CEILING)]
AnyPool = Annotated[JsonScalar, WithJsonSchema({"type": ["string", "null"], "pattern": f"^{_POOL_PATTERN}$"})]


class MappingOptions(FrozenModel):
    """The authored `airflow.mapping` block: any value, so that a bad one is reported under the mapping's own code.

    The JSON Schema of a field is what `resolve_mapping_policy` takes.
    """

    mode: AnyMode = Field(default=None, description="internal, visible or summary.")
    max_items: AnyMaxItems = Field(default=None, description="Most mapped task instances, 1..200.")
    max_active: AnyMaxActive = Field(
        default=None, description="Most of them at once, 1..64 and at most max_items."
    )
    pool: AnyPool = Field(default=None, description="Airflow pool of the mapped tasks.")


class MappingLimits(FrozenModel):
    """The bounds of a mapping plan."""

    max_items: Annotated[int, Field(ge=1, le=MAX_ITEMS_CEILING, description="Most mapped task instances.")]
    max_active: Annotated[int, Field(ge=1, le=MAX_ACTIVE_CEILING, description="Most of them at once.")]
    pool: Annotated[str, Field(min_length=1, max_length=256, description="Airflow pool of the tasks.")]


class MappingPolicy(FrozenModel):
    """A resolved policy: mode and limits, defaults filled in."""

    mode: MappingMode = Field(default=MappingMode.INTERNAL, description="internal, visible or summary.")
    limits: MappingLimits = Field(
        default=MappingLimits(max_items=200, max_active=16, pool=DEFAULT_POOL),
        description="Bounds of a mapped mode.",
    )

    @property
    def mapped(self) -> bool:
        """Whether Airflow shows more than one task."""
        return self.mode is not MappingMode.INTERNAL


def resolve_mapping_policy(*layers: MappingOptions | None) -> MappingPolicy:
    """Resolve authored blocks, the first that sets a field wins, then defaults.

    `max_active` defaults to 16, or to `max_items` where that is smaller.

    Errors: MappingPolicyInvalidError for a malformed mode or limit; MappingPoolRequiredError for an empty pool. Their
    field `field` names the key at fault.
    Source: the mapping design, authoring.
    """

    def authored(name: str) -> object:
        values = (getattr(layer, name) for layer in layers if layer is not None)
        return next((value for value in values if value is not None), None)

    mode = _read_mode(authored("mode"))
    max_items = _read_limit("max_items", authored("max_items"), 200, MAX_ITEMS_CEILING)
    max_active = _read_limit("max_active", authored("max_active"), min(16, max_items), MAX_ACTIVE_CEILING)
    if max_active > max_items:
        raise MappingPolicyInvalidError(
            f"max_active {max_active} is above max_items {max_items}",
            where="airflow.mapping.max_active",
            next_step=f"lower max_active to {max_items}, or raise max_items",
            field="max_active",
        )
    pool = authored("pool")
    if (
        mode is not MappingMode.INTERNAL
        and pool is not None
        and (not isinstance(pool, str) or not pool.strip())
    ):
        raise MappingPoolRequiredError(
            f"mode {mode.value} needs a pool",
            where="airflow.mapping.pool",
            next_step="set mapping.pool to its name",
            field="pool",
        )
    pool = DEFAULT_POOL if pool is None else pool
    if not isinstance(pool, str) or not _POOL.fullmatch(pool):
        raise MappingPolicyInvalidError(
            f"pool {pool!r} is not an Airflow pool name",
            where="airflow.mapping.pool",
            next_step="use at most 256 letters, digits, spaces, _ . and -, a letter, digit or _ first",
            field="pool",
        )
    return MappingPolicy(
        mode=mode, limits=MappingLimits(max_items=max_items, max_active=max_active, pool=pool)
    )


def _read_mode(value: object) -> MappingMode:
    if value is None:
        return MappingMode.INTERNAL
    if isinstance(value, str) and value in tuple(MappingMode):
        return MappingMode(value)
    raise MappingPolicyInvalidError(
        f"mapping.mode {value!r} is not a mode",
        where="airflow.mapping.mode",
        next_step="use internal, visible or summary",
        field="mode",
    )


def _read_limit(name: str, value: object, default: int, ceiling: int) -> int:
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= ceiling:
        return value
    raise MappingPolicyInvalidError(
        f"mapping.{name} {value!r} is out of bounds",
        where=f"airflow.mapping.{name}",
        next_step=f"use a whole number from 1 to {ceiling}",
        field=name,
    )
