"""A mapping plan covers every chunk exactly once, is what its mode says, and shows whatever was changed in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_contract.canonical import canonical_json, fingerprint
from dpone_contract.errors import (
    MappingPlanMismatchError,
    MappingPolicyInvalidError,
    MappingTaskLimitExceededError,
)
from dpone_contract.mapping_plan import (
    MappingRange,
    balanced_ranges,
    build_mapping_plan,
    parse_mapping_plan,
    plan_fingerprint,
    verify_mapping_plan,
)
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy

HASH = "sha256:" + "a" * 64
OTHER_HASH = "sha256:" + "b" * 64


def policy(mode="summary", max_items=40, max_active=8, pool="dpone_backfill"):
    limits = MappingLimits(max_items=max_items, max_active=min(max_active, max_items), pool=pool)
    return MappingPolicy(mode=MappingMode(mode), limits=limits)


def build(chunks_total=365, **changes):
    return build_mapping_plan(policy(**changes), chunks_total, HASH)


def resealed(plan, **changes):
    """Give a plan with fields changed whose fingerprint is right nevertheless."""
    changed = plan.replaced(**changes)
    return changed.replaced(plan_fingerprint=plan_fingerprint(changed))


def ranges(*pairs):
    return tuple(
        MappingRange(
            item_index=index, first_chunk_index=first, last_chunk_index=last, chunks_count=last - first + 1
        )
        for index, (first, last) in enumerate(pairs)
    )


MAPPED = st.builds(policy, st.just("summary"), st.integers(1, 200), st.integers(1, 64))


@given(MAPPED, st.integers(1, 1_000_000))
def test_items_cover_every_chunk_exactly_once_and_evenly(given_policy, chunks_total):
    plan = build_mapping_plan(given_policy, chunks_total, HASH)
    verify_mapping_plan(plan)
    assert min(chunks_total, given_policy.limits.max_items) == plan.items_total == len(plan.items)
    assert list(range(plan.items_total)) == [item.item_index for item in plan.items]
    ends = [0, *(item.last_chunk_index for item in plan.items)]
    assert [end + 1 for end in ends[:-1]] == [item.first_chunk_index for item in plan.items]
    assert chunks_total == ends[-1]
    counts = [item.chunks_count for item in plan.items]
    assert sorted(counts, reverse=True) == counts
    assert counts[0] - counts[-1] <= 1
    assert chunks_total == sum(counts)


@pytest.mark.parametrize("chunks_total", [1, 39, 40])
def test_visible_shows_one_item_a_chunk(chunks_total):
    plan = build(chunks_total, mode="visible")
    assert ranges(*((index, index) for index in range(1, chunks_total + 1))) == plan.items
    verify_mapping_plan(plan)


@pytest.mark.parametrize("chunks_total", [41, 1000])
def test_visible_is_refused_above_max_items(chunks_total):
    with pytest.raises(MappingTaskLimitExceededError) as caught:
        build(chunks_total, mode="visible")
    assert caught.value.message == f"mode visible needs {chunks_total} tasks, above max_items 40"
    assert "use mode: summary" in caught.value.next_step
    assert caught.value.fields == {"chunks": chunks_total, "max_items": 40}


@pytest.mark.parametrize(
    "chunks_total, max_items, sizes",
    [
        (1, 200, [1]),
        (40, 40, [1] * 40),
        (41, 40, [2] + [1] * 39),
        (79, 40, [2] * 39 + [1]),
        (365, 40, [10] * 5 + [9] * 35),
        (1000, 200, [5] * 200),
        (1_000_000, 3, [333_334, 333_333, 333_333]),
    ],
)
def test_summary_cuts_into_balanced_items_the_longer_ones_first(chunks_total, max_items, sizes):
    plan = build(chunks_total, max_items=max_items)
    assert sizes == [item.chunks_count for item in plan.items]
    verify_mapping_plan(plan)


@pytest.mark.parametrize("chunks_total, items_total", [(0, 0), (1, 0), (1, 2), (5, -1), (0, 1)])
def test_ranges_of_nothing_are_refused(chunks_total, items_total):
    with pytest.raises(MappingPolicyInvalidError, match="cannot be cut") as caught:
        balanced_ranges(chunks_total, items_total)
    assert caught.value.next_step


def test_mode_internal_has_no_plan():
    with pytest.raises(MappingPolicyInvalidError, match="mode internal has no mapping plan"):
        build(mode="internal")


def test_the_fingerprint_is_that_of_the_canonical_plan_without_itself():
    plan = build()
    document = json.loads(canonical_json(plan.to_document()))
    named = document.pop("plan_fingerprint")
    assert (named, named) == (fingerprint(document), plan_fingerprint(plan))
    assert named == build().plan_fingerprint
    assert sorted(document) == [
        "backfill_plan_hash",
        "chunks_total",
        "items",
        "items_total",
        "limits",
        "mode",
        "schema",
    ]


@pytest.mark.parametrize(
    "changed",
    [
        build(mode="visible", max_items=40, chunks_total=40),
        build(chunks_total=364),
        build(max_items=41),
        build(max_active=9),
        build(pool="other"),
        build_mapping_plan(policy(), 365, OTHER_HASH),
    ],
)
def test_one_changed_thing_changes_the_fingerprint(changed):
    assert changed.plan_fingerprint != build().plan_fingerprint
    assert changed.plan_fingerprint != build(chunks_total=40).plan_fingerprint


PLAN = build(5, max_items=3, max_active=2)
LIMITS = PLAN.limits
DRIFTS = {
    "mode": {"mode": "visible"},
    "backfill_plan_hash": {"backfill_plan_hash": OTHER_HASH},
    "plan_fingerprint": {"plan_fingerprint": OTHER_HASH},
    "chunks_total": {"chunks_total": 6},
    "items_total": {"items_total": 2},
    "max_items": {"limits": LIMITS.replaced(max_items=4)},
    "max_active": {"limits": LIMITS.replaced(max_active=3)},
    "pool": {"limits": LIMITS.replaced(pool="other")},
    "item_index": {"items": (PLAN.items[0].replaced(item_index=1), *PLAN.items[1:])},
    "first_chunk_index": {"items": (PLAN.items[0].replaced(first_chunk_index=2), *PLAN.items[1:])},
    "last_chunk_index": {"items": (PLAN.items[0].replaced(last_chunk_index=3), *PLAN.items[1:])},
    "chunks_count": {"items": (PLAN.items[0].replaced(chunks_count=3), *PLAN.items[1:])},
    "items": {"items": PLAN.items[:2]},
}


@pytest.mark.parametrize("name", DRIFTS)
def test_one_field_of_a_plan_changed_is_found(name):
    verify_mapping_plan(PLAN)
    with pytest.raises(MappingPlanMismatchError, match="the mapping plan is damaged") as caught:
        verify_mapping_plan(PLAN.replaced(**DRIFTS[name]))
    assert caught.value.next_step == "build and publish the pack again"


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"items": ranges((1, 2), (4, 4), (5, 5))}, "item 1 leaves a gap or overlaps"),
        ({"items": ranges((1, 2), (2, 4), (5, 5))}, "item 1 leaves a gap or overlaps"),
        ({"items": ranges((2, 2), (3, 4), (5, 5))}, "item 0 leaves a gap or overlaps"),
        ({"items": ranges((1, 2), (1, 2), (5, 5))}, "item 1 leaves a gap or overlaps"),
        ({"items": ranges((3, 4), (1, 2), (5, 5))}, "item 0 leaves a gap or overlaps"),
        ({"items": ranges((1, 2), (3, 4), (5, 6))}, "its items cover 6 of 5 chunks"),
        ({"items": ranges((1, 2), (3, 3), (4, 4))}, "its items cover 4 of 5 chunks"),
        ({"items": (PLAN.items[0], *PLAN.items[:2])}, "item 1 leaves a gap or overlaps"),
        ({"items": (*PLAN.items[:2], PLAN.items[2].replaced(item_index=3))}, "item 2 leaves a gap"),
        (
            {"items": (*PLAN.items[:2], PLAN.items[2].replaced(chunks_count=2))},
            "item 2 counts its chunks wrongly",
        ),
        ({"items": ranges((1, 3), (4, 5))}, "it names 3 items and lists 2"),
        ({"items_total": 2}, "it names 2 items and lists 3"),
        ({"limits": LIMITS.replaced(max_items=2)}, "it is beyond its own limits"),
        ({"limits": LIMITS.replaced(max_active=4)}, "it is beyond its own limits"),
        ({"items": ranges((1, 1), (2, 3), (4, 5))}, "its items are not those of mode summary"),
        ({"items": ranges((1, 3), (4, 4), (5, 5))}, "its items are not those of mode summary"),
        ({"items": ranges((1, 3), (4, 5)), "items_total": 2}, "its items are not those of mode summary"),
        ({"mode": "visible"}, "its items are not those of mode visible"),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused_though_its_fingerprint_is_right(changes, reason):
    with pytest.raises(MappingPlanMismatchError, match=reason):
        verify_mapping_plan(resealed(PLAN, **changes))


def test_a_plan_is_read_as_it_was_written():
    assert PLAN == parse_mapping_plan(canonical_json(PLAN.to_document()))


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "dpone.airflow-mapping-plan.v2"},
        {"mode": "internal"},
        {"plan_fingerprint": "sha256:" + "A" * 64},
        {"backfill_plan_hash": "md5:1"},
        {"chunks_total": 0},
        {"chunks_total": 1_000_001},
        {"items_total": 201},
        {"items": []},
        {"items_total": True},
        {"items_total": 3.0},
        {"limits": {"max_items": 201, "max_active": 2, "pool": "p"}},
        {"limits": {"max_items": 3, "max_active": 65, "pool": "p"}},
        {"limits": {"max_items": 3, "max_active": 2, "pool": ""}},
        {"limits": {"max_items": 3, "max_active": 2, "pool": "p" * 257}},
        {"predicate": "1 = 1"},
    ],
)
def test_a_plan_of_another_shape_is_refused(changes):
    with pytest.raises(MappingPlanMismatchError, match="the mapping plan is malformed") as caught:
        parse_mapping_plan(json.dumps({**PLAN.to_document(), **changes}).encode())
    assert caught.value.next_step


def test_a_plan_of_more_than_200_items_is_refused():
    items = [item.to_document() for item in balanced_ranges(201, 201)]
    document = {**PLAN.to_document(), "items": items, "items_total": 200, "chunks_total": 201}
    with pytest.raises(MappingPlanMismatchError, match="malformed"):
        parse_mapping_plan(json.dumps(document).encode())


def test_a_plan_with_a_changed_value_is_refused_when_it_is_read():
    document = {**PLAN.to_document(), "backfill_plan_hash": OTHER_HASH}
    with pytest.raises(MappingPlanMismatchError, match="fingerprint does not match"):
        parse_mapping_plan(json.dumps(document).encode())
