"""The mapping plan: which contiguous range of chunks each mapped task shows, fingerprinted and provably complete."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from dpone_contract.canonical import (
    FINGERPRINT_PATTERN,
    Fingerprint,
    canonical_json_of_plain,
    fingerprint_of_bytes,
)
from dpone_contract.errors import (
    MappingPlanMismatchError,
    MappingPolicyInvalidError,
    MappingTaskLimitExceededError,
)
from dpone_contract.frozen import FrozenModel
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy

FingerprintText = Annotated[str, Field(pattern=FINGERPRINT_PATTERN)]


class InternalMapping(FrozenModel):
    """What a process that Airflow shows as one task has in place of a plan."""

    mode: Literal["internal"] = Field(default="internal", description="One task runs every chunk.")


class MappingRange(FrozenModel):
    """Chunks `first_chunk_index` to `last_chunk_index`, both inclusive and counted from one; items count from zero."""

    item_index: Annotated[int, Field(ge=0, description="Index of the item, from zero.")]
    first_chunk_index: Annotated[int, Field(ge=1, description="First chunk of the range, from one.")]
    last_chunk_index: Annotated[int, Field(ge=1, description="Last chunk of the range, inclusive.")]
    chunks_count: Annotated[int, Field(ge=1, description="Number of chunks in the range.")]


class MappingPlan(FrozenModel):
    """`dpone.airflow-mapping-plan.v1`: no predicate, connection or value, only indexes, counts, limits and hashes."""

    schema_: Literal["dpone.airflow-mapping-plan.v1"] = Field(
        default="dpone.airflow-mapping-plan.v1",
        alias="schema",
        description="Name and version of this format.",
    )
    mode: Literal["visible", "summary"] = Field(description="One item a chunk, or ranges of chunks.")
    plan_fingerprint: FingerprintText = Field(description="Fingerprint of this plan, itself left out.")
    backfill_plan_hash: FingerprintText = Field(description="Hash of the chunk plan.")
    chunks_total: Annotated[int, Field(ge=1, le=1_000_000, description="Number of chunks of the campaign.")]
    items_total: Annotated[int, Field(ge=1, le=200, description="Number of items.")]
    limits: MappingLimits = Field(description="Bounds that the plan was made under.")
    items: Annotated[
        tuple[MappingRange, ...],
        Field(
            min_length=1, max_length=200, description="Contiguous ranges, in order, without gap or overlap."
        ),
    ]


def balanced_ranges(chunks_total: int, items_total: int) -> tuple[MappingRange, ...]:
    """Cut chunks 1..chunks_total into items_total contiguous ranges, in order, without gap or overlap.

    The first chunks_total % items_total ranges hold one chunk more. Needs 1 <= items_total <= chunks_total.

    Errors: MappingPolicyInvalidError when the bounds do not hold.
    Source: the mapping design, mapping plan artifact (balanced summary items).
    """
    if not 1 <= items_total <= chunks_total:
        raise MappingPolicyInvalidError(
            f"{chunks_total} chunks cannot be cut into {items_total} items",
            where="airflow.mapping.max_items",
            next_step="ask for at least one item and at most one a chunk",
        )
    size, longer = divmod(chunks_total, items_total)
    ranges, first = [], 1
    for item_index in range(items_total):
        count = size + (1 if item_index < longer else 0)
        ranges.append(
            MappingRange(
                item_index=item_index,
                first_chunk_index=first,
                last_chunk_index=first + count - 1,
                chunks_count=count,
            )
        )
        first += count
    return tuple(ranges)


def build_mapping_plan(
    policy: MappingPolicy, chunks_total: int, backfill_plan_hash: Fingerprint
) -> MappingPlan:
    """Plan the items of a mapped mode over a chunk plan.

    Errors: MappingTaskLimitExceededError when visible would need more than `max_items` tasks;
    MappingPolicyInvalidError for mode internal, which has no plan.
    Source: the mapping design, build-time planning.
    """
    if policy.mode is MappingMode.INTERNAL:
        raise MappingPolicyInvalidError(
            "mode internal has no mapping plan",
            where="airflow.mapping.mode",
            next_step="use mode visible or summary",
        )
    if policy.mode is MappingMode.VISIBLE and chunks_total > policy.limits.max_items:
        raise MappingTaskLimitExceededError(
            f"mode visible needs {chunks_total} tasks, above max_items {policy.limits.max_items}",
            where="airflow.mapping.max_items",
            next_step="use mode: summary, a larger chunk.step, or raise max_items (at most 200)",
            chunks=chunks_total,
            max_items=policy.limits.max_items,
        )
    items = balanced_ranges(chunks_total, min(chunks_total, policy.limits.max_items))
    plan = MappingPlan(
        mode="visible" if policy.mode is MappingMode.VISIBLE else "summary",
        plan_fingerprint="sha256:" + "0" * 64,
        backfill_plan_hash=backfill_plan_hash,
        chunks_total=chunks_total,
        items_total=len(items),
        limits=policy.limits,
        items=items,
    )
    return plan.replaced(plan_fingerprint=plan_fingerprint(plan))


def plan_fingerprint(plan: MappingPlan) -> Fingerprint:
    """Fingerprint a plan, the fingerprint itself left out."""
    document = plan.to_document()
    del document["plan_fingerprint"]
    return fingerprint_of_bytes(canonical_json_of_plain(document))


def verify_mapping_plan(plan: MappingPlan) -> None:
    """Prove that a plan is what its fingerprint and its mode say, and covers every chunk exactly once, in order.

    Errors: MappingPlanMismatchError naming the first rule that does not hold.
    """

    def refuse(reason: str) -> MappingPlanMismatchError:
        return MappingPlanMismatchError(
            f"the mapping plan is damaged: {reason}", next_step="build and publish the pack again"
        )

    if plan.items_total != len(plan.items):
        raise refuse(f"it names {plan.items_total} items and lists {len(plan.items)}")
    if plan.items_total > plan.limits.max_items or plan.limits.max_active > plan.limits.max_items:
        raise refuse("it is beyond its own limits")
    next_chunk = 1
    for position, item in enumerate(plan.items):
        if item.item_index != position or item.first_chunk_index != next_chunk:
            raise refuse(f"item {position} leaves a gap or overlaps")
        if item.last_chunk_index - item.first_chunk_index + 1 != item.chunks_count:
            raise refuse(f"item {position} counts its chunks wrongly")
        next_chunk = item.last_chunk_index + 1
    if next_chunk - 1 != plan.chunks_total:
        raise refuse(f"its items cover {next_chunk - 1} of {plan.chunks_total} chunks")
    if not _is_balanced(plan):
        raise refuse(f"its items are not those of mode {plan.mode}")
    if plan_fingerprint(plan) != plan.plan_fingerprint:
        raise refuse("its fingerprint does not match its content")


def _is_balanced(plan: MappingPlan) -> bool:
    most = plan.chunks_total if plan.mode == "visible" else plan.limits.max_items
    size, longer = divmod(plan.chunks_total, plan.items_total)
    counts = [item.chunks_count for item in plan.items]
    return plan.items_total == min(plan.chunks_total, most) and counts == (
        [size + 1] * longer + [size] * (plan.items_total - longer)
    )


def parse_mapping_plan(data: bytes) -> MappingPlan:
    """Read and verify a plan from JSON bytes.

    Errors: MappingPlanMismatchError.
    """
    try:
        plan = MappingPlan.model_validate_json(data)
    except ValidationError as error:
        raise MappingPlanMismatchError(
            f"the mapping plan is malformed: {error.errors()[0]['msg']}", next_step="build the pack again"
        ) from error
    verify_mapping_plan(plan)
    return plan
