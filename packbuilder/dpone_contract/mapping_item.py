"""The mapping item: the one small value that tells a mapped run which chunks are its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from dpone_contract.canonical import canonical_json_of_plain
from dpone_contract.environment import EnvVar
from dpone_contract.errors import MappingItemInvalidError, MappingPlanMismatchError, PackTooLargeError
from dpone_contract.frozen import FrozenModel
from dpone_contract.mapping_plan import FingerprintText, MappingPlan, MappingRange
from dpone_contract.strict_json import parse_plain_json

ITEM_SIZE_LIMIT_BYTES = 8 * 1024

_SECRET_LIKE = ("password", "passwd", "secret", "token", "credential", "api_key", "private_key", "conn")


class MappingItem(FrozenModel):
    """`dpone.airflow-mapping-item.v1`: an execution scope, neither an artifact's identity nor an authorization."""

    schema_: Literal["dpone.airflow-mapping-item.v1"] = Field(
        default="dpone.airflow-mapping-item.v1",
        alias="schema",
        description="Name and version of this format.",
    )
    mode: Literal["visible", "summary"] = Field(description="Mode of the plan.")
    mapping_plan_fingerprint: FingerprintText = Field(description="Fingerprint of the mapping plan.")
    backfill_plan_hash: FingerprintText = Field(description="Hash of the chunk plan.")
    item_index: Annotated[int, Field(ge=0, lt=200, description="Index of the item, from zero.")]
    first_chunk_index: Annotated[int, Field(ge=1, le=1_000_000, description="First chunk, from one.")]
    last_chunk_index: Annotated[int, Field(ge=1, le=1_000_000, description="Last chunk, inclusive.")]
    chunks_count: Annotated[int, Field(ge=1, le=1_000_000, description="Number of chunks.")]


def mapping_item(plan: MappingPlan, item: MappingRange) -> MappingItem:
    """Give the item of one range of a plan."""
    return MappingItem(
        mode=plan.mode,
        mapping_plan_fingerprint=plan.plan_fingerprint,
        backfill_plan_hash=plan.backfill_plan_hash,
        item_index=item.item_index,
        first_chunk_index=item.first_chunk_index,
        last_chunk_index=item.last_chunk_index,
        chunks_count=item.chunks_count,
    )


def dump_item(item: MappingItem) -> str:
    """Give the canonical JSON text of an item, for one environment value.

    Errors: PackTooLargeError beyond 8 KiB.
    """
    text = canonical_json_of_plain(item.to_document()).decode()
    if len(text.encode()) > ITEM_SIZE_LIMIT_BYTES:
        raise PackTooLargeError(
            f"mapping item {item.item_index} is larger than {ITEM_SIZE_LIMIT_BYTES} bytes",
            where=f"mapping item {item.item_index}",
            next_step="build the pack again with this release",
        )
    return text


def parse_item(text: str) -> MappingItem:
    """Read an item; anything unexpected fails closed.

    Errors: MappingItemInvalidError for bad JSON, duplicate, unknown or secret-like fields, sizes and ranges.
    """
    # What is no text at all still has a size; it is refused as JSON.
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > ITEM_SIZE_LIMIT_BYTES:
        raise _invalid(f"it has {size_bytes} bytes, more than {ITEM_SIZE_LIMIT_BYTES}")
    try:
        fields = parse_plain_json(text.encode())
    except ValueError as error:
        raise _invalid("it is not JSON") from error
    if not isinstance(fields, dict):
        raise _invalid("it is not an object")
    for name in fields:
        if any(word in name.lower() for word in _SECRET_LIKE):
            raise _invalid("a field of it looks like a secret")
    try:
        item = MappingItem.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise _invalid(f"{'.'.join(map(str, first['loc'])) or 'item'}: {first['msg']}") from error
    if item.last_chunk_index - item.first_chunk_index + 1 != item.chunks_count:
        raise _invalid("its range and its count disagree")
    return item


def require_item_of_plan(item: MappingItem, plan: MappingPlan) -> None:
    """Require an item to be, field by field, one of a plan's own.

    Errors: MappingPlanMismatchError when its fingerprints are of another plan; MappingItemInvalidError for a range
    that the plan does not have.
    """
    if item.backfill_plan_hash != plan.backfill_plan_hash:
        raise _mismatch(item, "chunk plan", item.backfill_plan_hash, plan.backfill_plan_hash)
    if item.mapping_plan_fingerprint != plan.plan_fingerprint or item.mode != plan.mode:
        raise _mismatch(item, "mapping plan", item.mapping_plan_fingerprint, plan.plan_fingerprint)
    if item.item_index >= plan.items_total or mapping_item(plan, plan.items[item.item_index]) != item:
        raise _invalid(f"the plan has no item {item.item_index} with this range")


def _mismatch(item: MappingItem, what: str, named: str, derived: str) -> MappingPlanMismatchError:
    return MappingPlanMismatchError(
        f"the item names another {what} than the process gives",
        where=f"mapping item {item.item_index}",
        next_step="publish pack and runtime of one release together, and clear the task again",
        named=named,
        derived=derived,
    )


def _invalid(reason: str) -> MappingItemInvalidError:
    return MappingItemInvalidError(
        f"the mapping item is refused: {reason}",
        where=EnvVar.MAPPING_ITEM.value,
        next_step="let the provider write it; do not set it by hand",
    )
