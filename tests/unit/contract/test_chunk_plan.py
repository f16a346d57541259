"""Chunks are contiguous, half-open, cover the window, and are named by what they are."""

import hashlib
import json
import tracemalloc
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_contract.canonical import canonical_json, fingerprint
from dpone_contract.chunk_kinds.dates import DateChunks
from dpone_contract.chunk_options import NullPolicy
from dpone_contract.chunk_plan import Chunk, RunKey, backfill_run_key, plan_chunks, plan_hash, plan_line
from dpone_contract.errors import PlanInvalidError
from dpone_contract.step import Step, StepUnit, parse_step

FIRST, LAST = date(2013, 1, 31), date(2013, 12, 31)


def window(first=FIRST, last=LAST, step="1mo", **changes):
    return DateChunks(column="flight_date", first=first, last=last, step=parse_step(step), **changes)


def plan(*, run_key="flights", **changes):
    return plan_chunks(window(**changes), RunKey(run_key))


@st.composite
def plans(draw):
    first = draw(st.dates(date(1, 1, 1), date(9999, 12, 30)))
    days = draw(st.integers(0, min(800, (date(9999, 12, 30) - first).days)))
    unit = draw(st.sampled_from([StepUnit.DAYS, StepUnit.WEEKS, StepUnit.MONTHS, StepUnit.YEARS]))
    step = Step(draw(st.integers(1, 40)), unit)
    spec = DateChunks(column="d", first=first, last=first + timedelta(days=days), step=step)
    return plan_chunks(spec, RunKey("flights"))


@given(plans())
def test_chunks_are_contiguous_and_cover_the_window_exactly(found):
    chunks = list(found.chunks())
    assert list(range(1, found.chunks_total + 1)) == [chunk.index for chunk in chunks]
    assert (found.spec.first.isoformat(), found.spec.end.isoformat()) == (chunks[0].lower, chunks[-1].upper)
    assert (found.lower, found.upper) == (chunks[0].lower, chunks[-1].upper)
    assert all(left.upper == right.lower for left, right in pairwise(chunks))
    assert all(chunk.lower < chunk.upper and not chunk.upper_inclusive for chunk in chunks)


@given(plans(), st.data())
def test_a_chunk_is_the_same_alone_in_a_range_and_in_the_whole(found, data):
    first = data.draw(st.integers(1, found.chunks_total))
    last = data.draw(st.integers(first, found.chunks_total))
    whole = list(found.chunks())
    assert whole[first - 1 : last] == list(found.chunks(first, last))
    assert whole[first - 1] == found.chunk(first)


@given(plans())
def test_idempotency_keys_are_unique(found):
    keys = {chunk.idempotency_key for chunk in found.chunks()}
    assert found.chunks_total == len(keys)


@given(plans())
def test_a_line_of_the_plan_hash_is_canonical_json(found):
    for chunk in (found.chunk(1), found.chunk(found.chunks_total)):
        document = {
            "index": chunk.index,
            "lower": chunk.lower,
            "upper": chunk.upper,
            "upper_inclusive": chunk.upper_inclusive,
            "idempotency_key": chunk.idempotency_key,
        }
        assert canonical_json(document) + b"\n" == plan_line(chunk)
        assert json.loads(plan_line(replace(chunk, upper_inclusive=True)))["upper_inclusive"] is True


@given(plans())
def test_the_plan_hash_is_that_of_all_lines_at_once(found):
    lines = b"".join(plan_line(chunk) for chunk in found.chunks())
    assert "sha256:" + hashlib.sha256(lines).hexdigest() == plan_hash(found)


def test_an_idempotency_key_names_run_key_index_and_bounds():
    named = {
        "run_key": "flights",
        "index": 1,
        "lower": "2013-01-31",
        "upper": "2013-02-28",
        "upper_inclusive": False,
    }
    expected = Chunk(1, "2013-01-31", "2013-02-28", False, fingerprint(named))
    assert expected == plan().chunk(1)


@pytest.mark.parametrize(
    "changes",
    [
        {"first": FIRST + timedelta(days=1)},
        {"last": LAST - timedelta(days=1)},
        {"step": "2mo"},
        {"step": "30d"},
        {"run_key": "flights2"},
    ],
)
def test_one_changed_thing_changes_the_plan_hash(changes):
    assert plan_hash(plan()) == plan_hash(plan())
    assert plan_hash(plan()) != plan_hash(plan(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"index": 2},
        {"lower": "2013-01-30"},
        {"upper": "2013-02-27"},
        {"upper_inclusive": True},
        {"idempotency_key": "sha256:" + "0" * 64},
    ],
)
def test_every_field_of_a_chunk_is_in_its_line(changes):
    chunk = plan().chunk(1)
    assert plan_line(chunk) != plan_line(replace(chunk, **changes))


@pytest.mark.parametrize("index", [-1, 0, 13])
def test_an_index_beyond_the_plan_is_refused(index):
    with pytest.raises(PlanInvalidError, match=f"chunk {index} is not in the plan") as caught:
        plan().chunk(index)
    assert caught.value.next_step == "use 1..12"


@pytest.mark.parametrize(
    "first, last, label",
    [(1, 1, "2013-01-01"), (1, 3, "2013-01-01 .. 2013-01-03"), (11, 20, "2013-01-11 .. 2013-01-20")],
)
def test_a_label_names_the_first_day_and_the_last(first, last, label):
    assert label == plan(first=date(2013, 1, 1), step="1d").label(first, last)


def test_a_million_chunks_need_no_more_memory_than_ten():
    def peak_bytes(work):
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def stream(found, first, last):
        for _ in found.chunks(first, last):
            pass

    end = date(1, 1, 1) + timedelta(days=999_999)
    million = plan(first=date(1, 1, 1), last=end, step="1d")
    ten = plan(first=date(1, 1, 1), last=date(1, 1, 10), step="1d")
    assert million.chunks_total == 1_000_000
    assert million.chunk(1_000_000).upper == million.upper
    few = peak_bytes(lambda: (plan_hash(ten), stream(ten, 1, 10)))
    # Hashing the whole million here would take a minute under tracing; its way is the same at every index.
    many = peak_bytes(lambda: (stream(million, 1, 10_000), stream(million, 990_001, 1_000_000)))
    long = plan(first=date(1, 1, 1), last=date(1, 1, 1) + timedelta(days=19_999), step="1d")
    hashed = peak_bytes(lambda: plan_hash(long))
    assert max(many, hashed) < few + 8 * 1024


def test_a_run_key_is_a_readable_name_and_a_digest():
    key = backfill_run_key("Public.Flights 2013", window(), "partition_replace")
    named = {
        "dataset": "Public.Flights 2013",
        "inner_mode": "partition_replace",
        "chunk": {
            "column": "flight_date",
            "kind": "date",
            "from": "2013-01-31",
            "to": "2013-12-31",
            "step": "1mo",
            "timezone": "UTC",
            "nulls": "fail",
        },
    }
    assert key == "public_flights_2013-" + hashlib.sha256(canonical_json(named)).hexdigest()[:24]


@pytest.mark.parametrize("dataset", ["public.flights", "\u822a\u73ed.\u7968", "a" * 300 + ".b", '..."'])
def test_a_run_key_can_name_a_file_whatever_the_table_is_called(dataset):
    key = backfill_run_key(dataset, window(), "partition_replace")
    assert len(key) <= 73
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert key[0].isalpha()


@pytest.mark.parametrize(
    "changed",
    [
        backfill_run_key("public.flight", window(), "partition_replace"),
        backfill_run_key("public.flights", window(), "incremental_append"),
        backfill_run_key("public.flights", window(first=date(2013, 1, 30)), "partition_replace"),
        backfill_run_key("public.flights", window(last=date(2013, 12, 30)), "partition_replace"),
        backfill_run_key("public.flights", window(step="2mo"), "partition_replace"),
        backfill_run_key("public.flights", window(timezone="Europe/Berlin"), "partition_replace"),
        backfill_run_key("public.flights", window(nulls=NullPolicy.IGNORE), "partition_replace"),
        backfill_run_key("public.flights", replace(window(), column="day"), "partition_replace"),
    ],
)
def test_one_changed_thing_changes_the_run_key(changed):
    assert changed != backfill_run_key("public.flights", window(), "partition_replace")


@pytest.mark.parametrize("backfill_id", ["a", "7", "orders-2024_01.v2", "x" * 128])
def test_an_authored_id_is_the_run_key(backfill_id):
    assert backfill_id == backfill_run_key("public.flights", window(), "partition_replace", backfill_id)


@pytest.mark.parametrize(
    "backfill_id", ["", " ", ".hidden", "-x", "a b", "a/b", 'a"b', "a\n", "\u00e9", "x" * 129]
)
def test_an_id_that_cannot_name_a_file_is_refused(backfill_id):
    with pytest.raises(PlanInvalidError, match="cannot be used as a name") as caught:
        backfill_run_key("public.flights", window(), "partition_replace", backfill_id)
    assert "use 1..128 letters" in caught.value.next_step
