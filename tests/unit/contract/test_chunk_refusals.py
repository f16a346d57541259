"""A window that cannot be planned is refused with what to write instead, before any chunk of it exists."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_contract.chunk_options import MAX_CHUNKS_LIMIT
from dpone_contract.errors import PlanInvalidError
from tests.factories import window_spec

FIRST_BIGINT, LAST_BIGINT = -9223372036854775808, 9223372036854775807
ZERO_UUID, LAST_UUID = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
INTEGERS = {"first": 1, "to": 10, "step": 4}
HOURS = {"first": "2013-01-01T00:00:00", "to": "2013-01-01T06:00:00", "step": "2h"}
UUIDS = {"kind": "uuid", "buckets": 4}


@pytest.mark.parametrize(
    "chunk, message, next_step",
    [
        # Numbers.
        (
            INTEGERS | {"first": 11},
            "holds no chunk: it ends with 10 before it begins with 11",
            "smaller number",
        ),
        (INTEGERS | {"to": None}, "chunk.to is missing", "a whole number"),
        (INTEGERS | {"to": "2013-01-01"}, "chunk.to '2013-01-01' is not a whole number", "or set chunk.kind"),
        (INTEGERS | {"to": "1e3"}, "chunk.to '1e3' is not a whole number", "a whole number"),
        (INTEGERS | {"to": "\u0661"}, "is not a whole number", "a whole number"),
        (INTEGERS | {"to": LAST_BIGINT + 1}, "chunk.to 9223372036854775808 is beyond", f"..{LAST_BIGINT}"),
        (
            INTEGERS | {"first": FIRST_BIGINT - 1},
            "chunk.from -9223372036854775809 is beyond",
            f"{FIRST_BIGINT}..",
        ),
        (INTEGERS | {"to": "9" * 5000}, "chunk.to", "a whole number"),
        (INTEGERS | {"step": None}, "chunk.step is missing", "step: 1000"),
        (INTEGERS | {"step": 0}, "step 0 never ends", "at least 1"),
        (INTEGERS | {"step": -1}, "step -1 never ends", "at least 1"),
        (INTEGERS | {"step": "1d"}, "step '1d' does not fit integer chunks", "without a unit"),
        (INTEGERS | {"timezone": "Europe/Berlin"}, "chunk.timezone does not fit", "remove chunk.timezone"),
        (INTEGERS | {"buckets": 4, "kind": "integer"}, "chunk.buckets belongs to", "remove chunk.buckets"),
        # Timestamps.
        (HOURS | {"to": "2013-01-01T00:00:00"}, "holds no chunk", "chunk.to is not included"),
        (HOURS | {"to": "2012-01-01T00:00:00"}, "which is not after", "earlier instant into chunk.from"),
        (HOURS | {"to": None}, "chunk.to is missing", "with an offset or without"),
        (HOURS | {"to": 5}, "chunk.to '5' is not a timestamp", "YYYY-MM-DDThh:mm:ss"),
        (
            HOURS | {"to": "2013-01-02T00:00Z"},
            "chunk.from and chunk.to mix times",
            "all with an offset, or all without",
        ),
        (HOURS | {"to": "2013-02-29T00:00"}, "is no time of the calendar", "name a time that exists"),
        (HOURS | {"to": "2013-01-02T25:00"}, "is no time of the calendar", "name a time that exists"),
        (HOURS | {"to": "2013-01-02T00:00:00.0000001"}, "finer than a microsecond", "six decimals"),
        (HOURS | {"step": 2}, "step 2 needs a unit in a window of timestamps", "write step: 2h"),
        (HOURS | {"step": None}, "chunk.step is missing", "step: 6h"),
        (HOURS | {"step": "0h"}, "never ends", "at least 1"),
        (HOURS | {"step": "1m"}, "step '1m' is not a step", "write Nh"),
        (HOURS | {"timezone": "Mars/Olympus"}, "is not an IANA time zone", "Europe/Berlin"),
        (
            HOURS | {"first": "0001-01-01T00:00", "timezone": "Asia/Tokyo"},
            "outside the years 1 to 9999",
            "nearer",
        ),
        (HOURS | {"buckets": 4, "kind": "timestamp"}, "chunk.buckets belongs to", "remove chunk.buckets"),
        # Instants as days.
        (
            {
                "kind": "date",
                "first": "2013-01-01T00:00Z",
                "to": "2013-01-02T00:00Z",
                "step": "1d",
                "timezone": "Europe/Berlin",
            },
            "chunk.from 2013-01-01T00:00:00+00:00 is not midnight in Europe/Berlin",
            "set chunk.timezone",
        ),
        (
            {"kind": "date", "first": "2013-01-01T00:00Z", "to": "2013-01-01T00:00Z", "step": "1d"},
            "holds no chunk",
            "an instant in chunk.to is not",
        ),
        (
            {"kind": "date", "first": "2013-01-01T00:00Z", "to": "2013-01-02", "step": "1d"},
            "another bound is a day",
            "{{ ds }}",
        ),
        # Uuids.
        ({"kind": "uuid"}, "chunk.buckets is missing", "buckets: 64"),
        ({"buckets": 0}, "chunk.buckets 0 gives no chunk", "at least 1"),
        ({"buckets": -1}, "chunk.buckets -1 gives no chunk", "at least 1"),
        (UUIDS | {"first": ZERO_UUID}, "chunk.from does not fit chunks of kind uuid", "chunk.boundaries"),
        (UUIDS | {"step": 5}, "chunk.step does not fit chunks of kind uuid", "chunk.buckets"),
        (UUIDS | {"timezone": "Europe/Berlin"}, "chunk.timezone does not fit", "remove chunk.timezone"),
        # Written bounds.
        ({"boundaries": [1]}, "at least two", "begins and ends"),
        ({"boundaries": [], "kind": "integer"}, "at least two", "begins and ends"),
        ({"boundaries": [1, 1]}, "chunk.boundaries must ascend, but 1 follows 1", "each once"),
        ({"boundaries": [10, 9]}, "9 follows 10", "order them"),
        ({"boundaries": [1, LAST_BIGINT + 2]}, "beyond the range of a bigint", "may end the window"),
        (
            {"boundaries": [LAST_BIGINT + 1, LAST_BIGINT + 2]},
            "beyond the range of a bigint",
            "may end the window",
        ),
        (
            {"boundaries": [1, "2013-01-01"]},
            "chunk.boundaries '2013-01-01' is not a whole number",
            "chunk.kind",
        ),
        ({"boundaries": ["2013-01-01", 5]}, "chunk.boundaries '5' is not a date", "YYYY-MM-DD"),
        ({"boundaries": ["2013-01-01", "2013-01-02T00:00"]}, "is an instant", "without a time in all bounds"),
        (
            {"boundaries": ["2013-01-01T00:00", "2013-01-02T00:00Z"]},
            "chunk.boundaries mix",
            "all with an offset",
        ),
        (
            {"boundaries": ["2013-10-27T02:30+02:00", "2013-10-27T00:30Z"], "timezone": "Europe/Berlin"},
            "must ascend",
            "order them",
        ),
        ({"boundaries": [ZERO_UUID, "xyz"]}, "chunk.boundaries 'xyz' is not a uuid", "xxxxxxxx-"),
        ({"boundaries": ["a", "b"]}, "chunk.boundaries 'a' is neither", "set chunk.kind"),
        (
            {"boundaries": [1, 5], "first": 1},
            "chunk.from does not go together with chunk.boundaries",
            "one of the two",
        ),
        ({"boundaries": [1, 5], "to": 1}, "chunk.to does not go together", "one of the two"),
        ({"boundaries": [1, 5], "step": 1}, "chunk.step does not go together", "one of the two"),
        (
            {"boundaries": [ZERO_UUID, LAST_UUID], "buckets": 1},
            "chunk.buckets does not go together",
            "one of the two",
        ),
        ({"boundaries": [1, 5], "timezone": "Europe/Berlin"}, "chunk.timezone does not fit", "remove"),
        (
            {"boundaries": ["2013-01-01", "{{ ds }}"]},
            "chunk.boundaries hold a token",
            "chunk.from and chunk.to only",
        ),
    ],
)
def test_a_window_that_cannot_be_planned_is_refused_with_what_to_write(chunk, message, next_step):
    with pytest.raises(PlanInvalidError) as caught:
        window_spec(**chunk)
    assert message in caught.value.message
    assert next_step in caught.value.next_step


@pytest.mark.parametrize(
    "chunk, count, way_out",
    [
        ({"first": 0, "to": 10**7, "step": 10}, 1_000_001, "increase chunk.step"),
        ({"first": FIRST_BIGINT, "to": LAST_BIGINT, "step": 1}, 2**64, "increase chunk.step"),
        (
            {"first": "0001-01-01T00:00", "to": "9999-12-31T00:00", "step": "1h"},
            87_649_392,
            "increase chunk.step",
        ),
        ({"buckets": 1_000_001}, 1_000_001, "use fewer chunk.buckets"),
        ({"buckets": 1_000_000, "nulls": "include"}, 1_000_001, "use fewer chunk.buckets"),
    ],
)
def test_chunks_are_counted_by_arithmetic_before_any_is_made(monkeypatch, chunk, count, way_out):
    monkeypatch.setattr("dpone_contract.chunk_plan.ChunkPlan.chunks", None)
    with pytest.raises(
        PlanInvalidError, match=f"would produce {count} chunks, above max_chunks 1000000"
    ) as caught:
        window_spec(max_chunks=MAX_CHUNKS_LIMIT, **chunk)
    assert f"{way_out}, or increase backfill.max_chunks" in caught.value.next_step


def test_too_many_written_bounds_are_refused():
    with pytest.raises(PlanInvalidError, match="would produce 3 chunks") as caught:
        window_spec(max_chunks=2, boundaries=[1, 2, 3, 4])
    assert "write fewer chunk.boundaries" in caught.value.next_step


@given(st.data())
def test_no_text_in_a_window_escapes_as_another_error(data):
    texts = (
        st.none()
        | st.integers()
        | st.text(max_size=8)
        | st.datetimes().map(str)
        | st.dates().map(str)
        | st.uuids().map(str)
    )
    chunk = {name: data.draw(texts) for name in ("first", "to", "step")}
    chunk["kind"] = data.draw(st.none() | st.sampled_from(["date", "timestamp", "integer", "uuid"]))
    chunk["boundaries"] = data.draw(
        st.none() | st.lists(texts.filter(lambda value: value is not None), max_size=3)
    )
    chunk["timezone"] = data.draw(st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia", "Nowhere"]))
    with contextlib.suppress(PlanInvalidError):
        assert window_spec(**chunk).count() >= 1
