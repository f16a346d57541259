"""A mapping policy is within its bounds, or refused under the mapping's own code with the key at fault."""

import pytest

from dpone_contract.errors import MappingPolicyInvalidError, MappingPoolRequiredError
from dpone_contract.mapping_policy import (
    MappingLimits,
    MappingMode,
    MappingOptions,
    MappingPolicy,
    resolve_mapping_policy,
)


def resolve(**authored):
    return resolve_mapping_policy(MappingOptions(**authored))


def limits(max_items, max_active, pool="dpone_backfill"):
    return MappingLimits(max_items=max_items, max_active=max_active, pool=pool)


@pytest.mark.parametrize("layers", [(), (None,), (None, None), (MappingOptions(),), (None, MappingOptions())])
def test_nothing_authored_gives_the_published_defaults(layers):
    policy = resolve_mapping_policy(*layers)
    assert policy == MappingPolicy(mode=MappingMode.INTERNAL, limits=limits(200, 16))
    assert policy == MappingPolicy()


@pytest.mark.parametrize(
    "authored, expected",
    [
        ({"max_items": 1}, limits(1, 1)),
        ({"max_items": 15}, limits(15, 15)),
        ({"max_items": 16}, limits(16, 16)),
        ({"max_items": 17}, limits(17, 16)),
        ({"max_items": 200}, limits(200, 16)),
        ({"max_active": 1}, limits(200, 1)),
        ({"max_active": 64}, limits(200, 64)),
        ({"max_items": 64, "max_active": 64}, limits(64, 64)),
        ({"max_items": 1, "max_active": 1}, limits(1, 1)),
        ({"pool": "default_pool"}, limits(200, 16, "default_pool")),
        ({"pool": "team-a.loads 2"}, limits(200, 16, "team-a.loads 2")),
        ({"pool": "p" * 256}, limits(200, 16, "p" * 256)),
    ],
)
@pytest.mark.parametrize("mode", list(MappingMode))
def test_limits_within_the_bounds_stand(mode, authored, expected):
    assert resolve(mode=mode.value, **authored) == MappingPolicy(mode=mode, limits=expected)


@pytest.mark.parametrize("mode, mapped", [("internal", False), ("visible", True), ("summary", True)])
def test_visible_and_summary_are_mapped(mode, mapped):
    assert mapped is resolve(mode=mode).mapped


@pytest.mark.parametrize("mode", ["internal", "visible", "summary"])
@pytest.mark.parametrize(
    "field, ceiling, bad",
    [
        *[("max_items", 200, bad) for bad in (0, -1, 201, 10**20, True, False, "40", "", 40.0, 40.5)],
        *[("max_active", 64, bad) for bad in (0, -1, 65, 10**20, True, False, "8", "", 8.0, float("nan"))],
    ],
)
def test_a_limit_beyond_its_bounds_is_refused(mode, field, ceiling, bad):
    with pytest.raises(MappingPolicyInvalidError, match=f"mapping.{field} .* is out of bounds") as caught:
        resolve(mode=mode, **{field: bad})
    assert caught.value.next_step == f"use a whole number from 1 to {ceiling}"
    assert caught.value.fields == {"field": field}


@pytest.mark.parametrize("max_items, max_active", [(1, 2), (8, 9), (63, 64)])
def test_more_at_once_than_there_are_is_refused(max_items, max_active):
    with pytest.raises(MappingPolicyInvalidError, match=f"max_active {max_active} is above") as caught:
        resolve(mode="summary", max_items=max_items, max_active=max_active)
    assert caught.value.next_step == f"lower max_active to {max_items}, or raise max_items"
    assert caught.value.fields == {"field": "max_active"}


@pytest.mark.parametrize("mode", ["", "Visible", " visible", "both", True, 1, 1.5])
def test_what_is_no_mode_is_refused(mode):
    with pytest.raises(MappingPolicyInvalidError, match="is not a mode") as caught:
        resolve(mode=mode)
    assert caught.value.next_step == "use internal, visible or summary"
    assert caught.value.fields == {"field": "mode"}


@pytest.mark.parametrize("mode", ["visible", "summary"])
@pytest.mark.parametrize("pool", ["", " ", "\t", 0, 5, False, 1.5])
def test_a_mapped_mode_without_a_pool_is_refused(mode, pool):
    with pytest.raises(MappingPoolRequiredError, match=f"mode {mode} needs a pool") as caught:
        resolve(mode=mode, pool=pool)
    assert caught.value.next_step == "set mapping.pool to its name"
    assert caught.value.fields == {"field": "pool"}


@pytest.mark.parametrize("mode", ["internal", "visible", "summary"])
@pytest.mark.parametrize("pool", ["a/b", "a\n", "-a", "\u00e9", "p" * 257])
def test_a_name_that_is_no_pool_is_refused(mode, pool):
    with pytest.raises(MappingPolicyInvalidError, match="is not an Airflow pool name") as caught:
        resolve(mode=mode, pool=pool)
    assert caught.value.next_step
    assert caught.value.fields == {"field": "pool"}


def test_the_first_layer_that_sets_a_field_wins():
    catalog = MappingOptions(mode="summary", max_active=3)
    manifest = MappingOptions(mode="visible", max_items=40, max_active=5, pool="team")
    expected = MappingPolicy(mode=MappingMode.SUMMARY, limits=limits(40, 3, "team"))
    assert expected == resolve_mapping_policy(catalog, None, manifest)


def test_a_bound_holds_across_layers():
    with pytest.raises(MappingPolicyInvalidError, match="max_active 9 is above max_items 8"):
        resolve_mapping_policy(MappingOptions(max_items=8), MappingOptions(max_active=9))


def test_a_bad_value_of_a_layer_that_is_hidden_is_not_read():
    policy = resolve_mapping_policy(MappingOptions(max_items=8), MappingOptions(max_items="many"))
    assert policy.limits == limits(8, 8)
