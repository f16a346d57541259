"""Windows of timestamps, integers, uuids and written bounds: their bounds as text."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dpone_contract.canonical import canonical_json, fingerprint
from dpone_contract.chunk_plan import RunKey, backfill_run_key, plan_chunks, plan_hash, plan_line
from dpone_contract.errors import PlanInvalidError
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import build_process, plan_campaign, process_digest
from tests.factories import make_manifest
from tests.factories import window_spec as spec

FIRST_BIGINT, LAST_BIGINT = -9223372036854775808, 9223372036854775807
ZERO_UUID, LAST_UUID = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
INTEGERS = {"first": 1, "to": 10, "step": 4}
HOURS = {"first": "2013-01-01T00:00:00", "to": "2013-01-01T06:00:00", "step": "2h"}
UUIDS = {"kind": "uuid", "buckets": 4}
WINDOWS = {
    "integer": INTEGERS,
    "whole bigint": {"first": FIRST_BIGINT, "to": LAST_BIGINT, "step": 2**62},
    "timestamp": HOURS,
    "uuid": UUIDS,
    "written numbers": {"boundaries": [-5, 0, LAST_BIGINT + 1]},
    "written days": {"boundaries": ["2013-01-01", "2013-01-02", "2014-01-01"]},
    "written instants": {"boundaries": ["2013-01-01T00:00", "2013-01-01T00:00:00.000001"]},
    "written uuids": {"boundaries": [ZERO_UUID, LAST_UUID]},
}


def plan(**chunk):
    return plan_chunks(spec(**chunk), RunKey("flights"))


def windows(**chunk):
    return [chunk.window for chunk in plan(**chunk).chunks()]


def test_numbers_are_shown_half_open_with_the_last_number_included():
    assert ["[1, 5)", "[5, 9)", "[9, 11)"] == windows(**INTEGERS)


def test_one_number_is_a_window():
    assert ["[7, 8)"] == windows(first=7, to=7, step=100)


@pytest.mark.parametrize("first, to", [("-5", "4"), (-5, 4), ("-05", "+4")])
def test_a_number_has_one_text_however_it_is_written(first, to):
    assert ["[-5, 0)", "[0, 5)"] == windows(first=first, to=to, step="5")
    assert spec(first=-5, to=4, step=5) == spec(first=first, to=to, step="5")


def test_the_last_bigint_ends_the_last_chunk_and_is_included():
    shown = windows(first=FIRST_BIGINT, to=LAST_BIGINT, step=2**63)
    assert [f"[{FIRST_BIGINT}, 0)", f"[0, {LAST_BIGINT}]"] == shown


@pytest.mark.parametrize("number", [2**53 - 1, 2**53, -(2**53), LAST_BIGINT, FIRST_BIGINT])
def test_a_number_of_any_size_can_be_written_into_a_pack(number):
    plain, text = (
        build_process(make_manifest(window={"column": "key", "boundaries": [value, 2**63]}), MappingPolicy())
        for value in (number, str(number))
    )
    assert process_digest(plain) == process_digest(text)
    assert plan_campaign(plain) == plan_campaign(text)


def test_the_last_bigint_alone_is_a_chunk():
    shown = windows(first=LAST_BIGINT - 1, to=LAST_BIGINT, step=1)
    assert [f"[{LAST_BIGINT - 1}, {LAST_BIGINT})", f"[{LAST_BIGINT}, {LAST_BIGINT}]"] == shown


def test_the_number_before_the_last_bigint_needs_no_inclusion():
    assert [f"[{LAST_BIGINT - 1}, {LAST_BIGINT})"] == windows(
        first=LAST_BIGINT - 1, to=LAST_BIGINT - 1, step=9
    )


def test_hours_are_shown_with_their_offset_and_the_end_is_not_included():
    expected = [
        "[2013-01-01T00:00:00+00:00, 2013-01-01T04:00:00+00:00)",
        "[2013-01-01T04:00:00+00:00, 2013-01-01T06:00:00+00:00)",
    ]
    assert expected == windows(**HOURS | {"step": "4h"})


@pytest.mark.parametrize("offset", ["+01:00", "+0100", "+01"])
def test_one_instant_is_one_bound_however_it_is_written(offset):
    berlin = {"step": "1d", "timezone": "Europe/Berlin"}
    naive = spec(first="2013-01-01T00:00", to="2013-01-03T00:00", **berlin)
    aware = spec(first=f"2013-01-01T00:00:00{offset}", to="2013-01-02T23:00:00.000Z", **berlin)
    spaced = spec(first="2013-01-01 00:00:00", to="2013-01-03", **berlin)
    assert naive == aware == spaced
    assert "2013-01-02T00:00:00+01:00" == naive.bound(1)


def test_a_date_is_midnight_in_a_window_of_timestamps():
    window = spec(kind="timestamp", first="2013-01-01", to="2013-01-02", step="1d")
    assert ("2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00") == (window.bound(0), window.bound(1))


def test_microseconds_are_kept():
    window = spec(first="2013-01-01T00:00:00.000001", to="2013-01-01T00:00:00.100000000", step="1h")
    expected = "[2013-01-01T00:00:00.000001+00:00, 2013-01-01T00:00:00.100000+00:00)"
    assert [expected] == [chunk.window for chunk in plan_chunks(window, RunKey("flights")).chunks()]


@pytest.mark.parametrize(
    "day, hours, offsets",
    [("2013-03-31", 23, ("+01:00", "+02:00")), ("2013-10-27", 25, ("+02:00", "+01:00"))],
)
def test_a_day_has_23_or_25_hours_where_clocks_are_changed(day, hours, offsets):
    following = day[:8] + f"{int(day[8:]) + 1:02}" if day != "2013-03-31" else "2013-04-01"
    window = {"first": f"{day}T00:00", "to": f"{following}T00:00", "timezone": "Europe/Berlin"}
    whole = f"[{day}T00:00:00{offsets[0]}, {following}T00:00:00{offsets[1]})"
    assert [whole] == windows(**window, step="1d")
    assert hours == spec(**window, step="1h").count()


def test_an_hour_that_comes_twice_is_two_chunks():
    window = {
        "first": "2013-10-27T02:00",
        "to": "2013-10-27T03:00",
        "timezone": "Europe/Berlin",
        "step": "1h",
    }
    expected = [
        "[2013-10-27T02:00:00+02:00, 2013-10-27T02:00:00+01:00)",
        "[2013-10-27T02:00:00+01:00, 2013-10-27T03:00:00+01:00)",
    ]
    assert expected == windows(**window)


def test_months_are_counted_from_the_first_bound_and_end_with_the_month():
    window = spec(first="2013-01-31T12:00", to="2013-05-01T00:00", step="1mo")
    expected = ["01-31", "02-28", "03-31", "04-30", "05-01"]
    assert expected == [window.bound(index)[5:10] for index in range(window.count() + 1)]


def test_a_time_that_never_comes_moves_forward_and_one_that_comes_twice_is_the_first():
    spring = spec(first="2013-03-30T02:30", to="2013-04-02T00:00", step="1d", timezone="Europe/Berlin")
    assert "2013-03-31T03:30:00+02:00" == spring.bound(1)
    assert "2013-04-01T02:30:00+02:00" == spring.bound(2)
    autumn = spec(first="2013-10-26T02:30", to="2013-10-29T00:00", step="1d", timezone="Europe/Berlin")
    assert "2013-10-27T02:30:00+02:00" == autumn.bound(1)


def test_a_first_bound_within_the_second_pass_of_an_hour_is_kept():
    window = spec(
        first="2013-10-27T01:30:00Z", to="2013-10-29T00:00:00Z", step="1d", timezone="Europe/Berlin"
    )
    assert ("2013-10-27T02:30:00+01:00", "2013-10-28T02:30:00+01:00") == (window.bound(0), window.bound(1))


def test_a_day_that_a_zone_left_out_is_refused():
    window = {"first": "2011-12-28T00:00", "to": "2012-01-02T00:00", "timezone": "Pacific/Apia"}
    with pytest.raises(PlanInvalidError, match="chunk 3 would be empty") as caught:
        plan_hash(plan(**window, step="1d"))
    assert "chunk.boundaries" in caught.value.next_step
    assert 3 == len(windows(**window, step="2d"))


def test_buckets_are_adjacent_and_the_last_uuid_is_included():
    expected = [
        f"[{ZERO_UUID}, 55555555-5555-5555-5555-555555555555)",
        "[55555555-5555-5555-5555-555555555555, aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa)",
        f"[aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa, {LAST_UUID}]",
    ]
    assert expected == windows(kind="uuid", buckets=3)
    assert [f"[{ZERO_UUID}, {LAST_UUID}]"] == windows(buckets=1)


@pytest.mark.parametrize(
    "boundaries, expected",
    [
        ([0, "10", 1000], ["[0, 10)", "[10, 1000)"]),
        ([0, LAST_BIGINT], [f"[0, {LAST_BIGINT})"]),
        ([0, LAST_BIGINT + 1], [f"[0, {LAST_BIGINT}]"]),
        (["2013-01-01", "2013-02-01"], ["[2013-01-01, 2013-02-01)"]),
        (
            ["2013-01-01T00:00+01:00", "2013-01-01T00:00Z"],
            ["[2012-12-31T23:00:00+00:00, 2013-01-01T00:00:00+00:00)"],
        ),
        ([ZERO_UUID, LAST_UUID.upper()], [f"[{ZERO_UUID}, {LAST_UUID}]"]),
        ([ZERO_UUID, LAST_UUID[:-1] + "e"], [f"[{ZERO_UUID}, {LAST_UUID[:-1]}e)"]),
    ],
)
def test_written_bounds_are_half_open_up_to_the_greatest_value_there_is(boundaries, expected):
    assert expected == windows(boundaries=boundaries)


def test_instants_at_midnight_are_days_and_the_last_is_not_included():
    berlin = {"step": "1d", "timezone": "Europe/Berlin"}
    days = spec(first="2013-03-31", to="2013-04-01", **berlin)
    for first, to in [
        ("2013-03-30T23:00:00+00:00", "2013-04-01T22:00:00+00:00"),
        ("2013-03-31T00:00", "2013-04-02 00:00:00"),
    ]:
        assert days == spec(kind="date", first=first, to=to, **berlin)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("nulls", ["fail", "include"])
def test_every_kind_is_named_and_hashed_like_days(window, nulls):
    found = plan(**window, nulls=nulls)
    chunks = list(found.chunks())
    assert list(range(1, found.chunks_total + 1)) == [chunk.index for chunk in chunks]
    assert chunks == [found.chunk(index) for index in range(1, found.chunks_total + 1)]
    ranges = chunks[: found.ranges_total]
    assert all(left.upper == right.lower for left, right in pairwise(ranges))
    assert not any(chunk.upper_inclusive for chunk in ranges[:-1])
    for chunk in chunks:
        document = {
            "index": chunk.index,
            "lower": chunk.lower,
            "upper": chunk.upper,
            "upper_inclusive": chunk.upper_inclusive,
        }
        assert fingerprint({**document, "run_key": "flights"}) == chunk.idempotency_key
        assert canonical_json({**document, "idempotency_key": chunk.idempotency_key}) + b"\n" == plan_line(
            chunk
        )


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_null_is_the_last_chunk_where_it_is_included(window):
    without, found = plan(**window), plan(**window, nulls="include")
    last = found.chunk(found.chunks_total)
    assert without.chunks_total + 1 == found.chunks_total
    assert ("NULL", "NULL", "NULL", True) == (last.lower, last.upper, last.window, last.covers_null)
    assert [chunk.window for chunk in without.chunks()] == [chunk.window for chunk in found.chunks()][:-1]
    assert f"{without.window} and NULL" == found.window


def test_every_window_has_a_run_key_of_its_own():
    windows = [
        {**window, "nulls": nulls} for window in WINDOWS.values() for nulls in ("fail", "include", "ignore")
    ]
    keys = {backfill_run_key("public.flights", spec(**window), "partition_replace") for window in windows}
    assert len(windows) == len(keys)


@pytest.mark.parametrize(
    "chunk, first, last, label",
    [
        (INTEGERS, 1, 3, "1 .. 10"),
        (INTEGERS | {"step": 1}, 2, 2, "2"),
        ({"first": 0, "to": LAST_BIGINT, "step": 2**62}, 2, 2, f"{2**62} .. {LAST_BIGINT}"),
        (HOURS, 1, 2, "[2013-01-01T00:00:00+00:00, 2013-01-01T04:00:00+00:00)"),
        (UUIDS, 4, 4, f"[c0000000-0000-0000-0000-000000000000, {LAST_UUID}]"),
        ({"first": "2013-01-01", "to": "2013-01-31", "step": "1w"}, 2, 3, "2013-01-08 .. 2013-01-21"),
        ({"first": "2013-01-01", "to": "2013-01-31", "step": "1w"}, 5, 5, "2013-01-29 .. 2013-01-31"),
        ({"boundaries": ["2013-01-01", "2013-01-02", "2014-01-01"]}, 1, 2, "2013-01-01 .. 2013-12-31"),
        (INTEGERS | {"nulls": "include"}, 3, 4, "9 .. 10 and NULL"),
        (INTEGERS | {"nulls": "include"}, 4, 4, "NULL"),
        (INTEGERS | {"nulls": "include"}, 1, 2, "1 .. 8"),
    ],
)
def test_a_label_names_a_range_for_people(chunk, first, last, label):
    assert label == plan(**chunk).label(first, last)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_label_fits_the_index_of_a_mapped_task(window):
    found = plan(**window, nulls="include")
    assert len(found.label(1, found.chunks_total)) <= 250


@pytest.mark.parametrize(
    "chunk, end",
    [
        (INTEGERS, "11"),
        ({"first": 0, "to": LAST_BIGINT, "step": 2**62}, str(2**63)),
        (HOURS, "2013-01-01T06:00:00+00:00"),
        (UUIDS, LAST_UUID),
    ],
)
def test_a_window_ends_before_the_first_value_beyond_it(chunk, end):
    assert end == plan(**chunk).end
