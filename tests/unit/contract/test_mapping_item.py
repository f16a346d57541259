"""An item is exactly one of its plan's, and anything else in its place is refused before it is believed."""

import json

import pytest

from dpone_contract.canonical import canonical_json
from dpone_contract.errors import MappingItemInvalidError, MappingPlanMismatchError, PackTooLargeError
from dpone_contract.mapping_item import (
    ITEM_SIZE_LIMIT_BYTES,
    dump_item,
    mapping_item,
    parse_item,
    require_item_of_plan,
)
from dpone_contract.mapping_plan import build_mapping_plan
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy

HASH = "sha256:" + "a" * 64
OTHER_HASH = "sha256:" + "b" * 64
HAND_BACK = "let the provider write it; do not set it by hand"


def build(mode="summary", chunks_total=25, max_items=10, backfill_plan_hash=HASH):
    limits = MappingLimits(max_items=max_items, max_active=2, pool="dpone_backfill")
    return build_mapping_plan(
        MappingPolicy(mode=MappingMode(mode), limits=limits), chunks_total, backfill_plan_hash
    )


PLAN = build()
ITEM = mapping_item(PLAN, PLAN.items[1])
DOCUMENT = ITEM.to_document()


def text_of(**changes):
    return json.dumps({**DOCUMENT, **changes})


@pytest.mark.parametrize("mode, chunks_total", [("summary", 1), ("summary", 1000), ("visible", 200)])
def test_every_item_of_a_plan_comes_back_as_it_was_and_is_accepted(mode, chunks_total):
    plan = build(mode, chunks_total, max_items=200)
    for place in plan.items:
        item = mapping_item(plan, place)
        text = dump_item(item)
        assert canonical_json(item.to_document()).decode() == text
        assert item == parse_item(text)
        require_item_of_plan(item, plan)


def test_an_item_holds_the_published_fields_alone():
    assert {
        "schema": "dpone.airflow-mapping-item.v1",
        "mode": "summary",
        "mapping_plan_fingerprint": PLAN.plan_fingerprint,
        "backfill_plan_hash": HASH,
        "item_index": 1,
        "first_chunk_index": 4,
        "last_chunk_index": 6,
        "chunks_count": 3,
    } == DOCUMENT


@pytest.mark.parametrize(
    "changes",
    [
        {"item_index": 0},
        {"item_index": 199},
        {"first_chunk_index": 1, "last_chunk_index": 1, "chunks_count": 1},
        {"first_chunk_index": 1_000_000, "last_chunk_index": 1_000_000, "chunks_count": 1},
        {"first_chunk_index": 1, "last_chunk_index": 1_000_000, "chunks_count": 1_000_000},
        {"mode": "visible"},
    ],
)
def test_values_at_their_bounds_are_read(changes):
    assert {**DOCUMENT, **changes} == parse_item(text_of(**changes)).to_document()


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"schema": "dpone.airflow-mapping-item.v2"}, "schema"),
        ({"mode": "internal"}, "mode"),
        ({"mode": None}, "mode"),
        ({"mapping_plan_fingerprint": "a" * 64}, "mapping_plan_fingerprint"),
        ({"mapping_plan_fingerprint": HASH.upper()}, "mapping_plan_fingerprint"),
        ({"mapping_plan_fingerprint": HASH + "\n"}, "mapping_plan_fingerprint"),
        ({"backfill_plan_hash": HASH[:-1]}, "backfill_plan_hash"),
        ({"backfill_plan_hash": {"a": 1}}, "backfill_plan_hash"),
        ({"item_index": -1}, "item_index"),
        ({"item_index": 200}, "item_index"),
        ({"item_index": "1"}, "item_index"),
        ({"item_index": True}, "item_index"),
        ({"item_index": [1]}, "item_index"),
        ({"first_chunk_index": 0}, "first_chunk_index"),
        ({"first_chunk_index": 1_000_001}, "first_chunk_index"),
        ({"first_chunk_index": True, "last_chunk_index": 3}, "first_chunk_index"),
        ({"last_chunk_index": 1_000_001}, "last_chunk_index"),
        ({"last_chunk_index": None}, "last_chunk_index"),
        ({"chunks_count": 0}, "chunks_count"),
        ({"chunks_count": 1_000_001}, "chunks_count"),
        ({"chunks_count": {"deep": {"er": 1}}}, "chunks_count"),
        ({"predicate": "1 = 1"}, "predicate"),
        ({"": 1}, "item"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_the_name_of_its_field(changes, field):
    with pytest.raises(MappingItemInvalidError, match=f"the mapping item is refused: {field}: ") as caught:
        parse_item(text_of(**changes))
    assert caught.value.next_step == HAND_BACK


@pytest.mark.parametrize("missing", [name for name in DOCUMENT if name != "schema"])
def test_a_missing_field_is_refused(missing):
    document = {name: value for name, value in DOCUMENT.items() if name != missing}
    with pytest.raises(MappingItemInvalidError, match=f"{missing}: Field required"):
        parse_item(json.dumps(document))


@pytest.mark.parametrize(
    "name",
    ["password", "DB_PASSWD", "aws_secret", "Token", "credentials", "api_key", "private_key", "conn_id"],
)
def test_a_field_like_a_secret_is_refused_without_being_told(name):
    with pytest.raises(MappingItemInvalidError, match="a field of it looks like a secret") as caught:
        parse_item(text_of(**{name: "hunter2"}))
    assert name not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        dump_item(ITEM)[:-1],
        dump_item(ITEM) + "}",
        text_of().replace('"item_index": 1', '"item_index": 1, "item_index": 1'),
        text_of(item_index=float("nan")),
        text_of(item_index=1.0),
        text_of(item_index=2**53),
        "\ufeff" + dump_item(ITEM),
        dump_item(ITEM).replace("summary", "\ud800"),
        "[" * 8_000,
        '{"a":' * 1_600,
    ],
)
def test_what_is_no_strict_json_is_refused(text):
    with pytest.raises(
        MappingItemInvalidError, match="the mapping item is refused: it is not JSON"
    ) as caught:
        parse_item(text)
    assert caught.value.next_step == HAND_BACK


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(MappingItemInvalidError):
        parse_item(dump_item(ITEM).replace("summary", "\\ud800"))


@pytest.mark.parametrize("text", ["[]", '"item"', "1", "null", "true", "[{}]"])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(MappingItemInvalidError, match="it is not an object"):
        parse_item(text)


def test_an_item_of_8_kib_is_read_and_one_byte_more_is_not():
    text = dump_item(ITEM)
    padded = text + " " * (ITEM_SIZE_LIMIT_BYTES - len(text))
    assert len(padded) == 8 * 1024
    assert ITEM == parse_item(padded)
    with pytest.raises(MappingItemInvalidError, match="it has 8193 bytes, more than 8192"):
        parse_item(padded + " ")


def test_the_size_is_counted_in_bytes():
    with pytest.raises(MappingItemInvalidError, match="it has 8200 bytes"):
        parse_item("\u20ac" * 2_733 + "x")


def test_an_item_beyond_its_limit_is_not_written():
    with pytest.raises(PackTooLargeError, match="mapping item 1 is larger than 8192 bytes") as caught:
        dump_item(ITEM.replaced(mode="x" * ITEM_SIZE_LIMIT_BYTES))
    assert caught.value.next_step


@pytest.mark.parametrize(
    "first, last, count", [(4, 6, 2), (4, 6, 4), (6, 4, 1), (4, 4, 2), (5, 4, 1), (1, 1_000_000, 999_999)]
)
def test_a_range_that_contradicts_its_count_is_refused(first, last, count):
    with pytest.raises(MappingItemInvalidError, match="its range and its count disagree"):
        parse_item(text_of(first_chunk_index=first, last_chunk_index=last, chunks_count=count))


@pytest.mark.parametrize(
    "changes",
    [
        {"last_chunk_index": 7, "chunks_count": 4},
        {"first_chunk_index": 3, "chunks_count": 4},
        {"first_chunk_index": 1, "last_chunk_index": 25, "chunks_count": 25},
        {"first_chunk_index": 7, "last_chunk_index": 9},
        {"last_chunk_index": 5, "chunks_count": 2},
        {"chunks_count": 4},
        {"item_index": 0},
        {"item_index": 2},
        {"item_index": 9},
        {"item_index": 10},
        {"item_index": 199},
    ],
)
def test_a_range_that_the_plan_does_not_have_is_refused(changes):
    with pytest.raises(MappingItemInvalidError, match=r"the plan has no item \d+ with this range") as caught:
        require_item_of_plan(ITEM.replaced(**changes), PLAN)
    assert caught.value.next_step == HAND_BACK


@pytest.mark.parametrize(
    "changes, what",
    [
        ({"mapping_plan_fingerprint": OTHER_HASH}, "mapping plan"),
        ({"backfill_plan_hash": OTHER_HASH}, "chunk plan"),
        ({"backfill_plan_hash": PLAN.plan_fingerprint, "mapping_plan_fingerprint": HASH}, "chunk plan"),
        ({"mode": "visible"}, "mapping plan"),
    ],
)
def test_an_item_of_another_plan_is_refused(changes, what):
    with pytest.raises(MappingPlanMismatchError, match=f"the item names another {what}") as caught:
        require_item_of_plan(ITEM.replaced(**changes), PLAN)
    assert (
        caught.value.next_step == "publish pack and runtime of one release together, and clear the task again"
    )


@pytest.mark.parametrize(
    "other",
    [
        build(backfill_plan_hash=OTHER_HASH),
        build(max_items=11),
        build(chunks_total=26),
        build("visible", chunks_total=10),
    ],
)
def test_a_mismatch_names_both_fingerprints(other):
    item = mapping_item(other, other.items[1])
    with pytest.raises(MappingPlanMismatchError) as caught:
        require_item_of_plan(item, PLAN)
    named = {item.mapping_plan_fingerprint, item.backfill_plan_hash}
    assert caught.value.fields["named"] in named
    assert caught.value.fields["derived"] in {PLAN.plan_fingerprint, PLAN.backfill_plan_hash}
