"""Which rows a chunk covers: typed bounds, half open, never the session's time zone."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_contract.chunk_options import ChunkKind
from dpone_contract.chunk_plan import plan_chunks
from dpone_contract.errors import ColumnsDifferError
from dpone_runtime.adapters.postgres.predicate import chunk_predicate, covered_window, require_chunk_column
from dpone_runtime.domain.campaign import Window
from dpone_runtime.ports.connectors import Column
from dpone_runtime.ports.type_structure import TypeStructure
from tests.campaign_factories import RUN_KEY, make_plan
from tests.factories import window_spec

CHUNK = make_plan().chunk(1)


def column(kind: str, name: str = "day") -> Column:
    return Column(name, TypeStructure(kind), nullable=False)


def on(day: str, kind: str, timezone: str) -> str:
    following = (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    return chunk_predicate(column(kind), ChunkKind.DATE, timezone, replace(CHUNK, lower=day, upper=following))


def test_a_date_column_compares_days():
    expected = """"day" >= '2013-01-01'::date AND "day" < '2013-01-02'::date"""
    assert expected == chunk_predicate(column("date"), ChunkKind.DATE, "Europe/Berlin", CHUNK)


@pytest.mark.parametrize("kind", ["timestamp without time zone", "timestamp(3) without time zone"])
def test_a_column_without_a_zone_compares_wall_clocks(kind):
    expected = """"day" >= '2013-01-01 00:00:00'::timestamp AND "day" < '2013-01-02 00:00:00'::timestamp"""
    assert expected == chunk_predicate(column(kind), ChunkKind.DATE, "Europe/Berlin", CHUNK)


@pytest.mark.parametrize(
    "timezone, day, lower, upper",
    [
        ("UTC", "2013-01-01", "2013-01-01 00:00:00+00:00", "2013-01-02 00:00:00+00:00"),
        ("Europe/Berlin", "2013-01-01", "2013-01-01 00:00:00+01:00", "2013-01-02 00:00:00+01:00"),
        ("Asia/Kathmandu", "2013-01-01", "2013-01-01 00:00:00+05:45", "2013-01-02 00:00:00+05:45"),
        ("America/St_Johns", "2013-01-01", "2013-01-01 00:00:00-03:30", "2013-01-02 00:00:00-03:30"),
        # 23 and 25 hours.
        ("Europe/Berlin", "2013-03-31", "2013-03-31 00:00:00+01:00", "2013-04-01 00:00:00+02:00"),
        ("Europe/Berlin", "2013-10-27", "2013-10-27 00:00:00+02:00", "2013-10-28 00:00:00+01:00"),
        # A day that has no midnight begins at one o'clock; the offset before the gap names that instant.
        ("America/Sao_Paulo", "2013-10-20", "2013-10-20 00:00:00-03:00", "2013-10-21 00:00:00-02:00"),
        # A midnight that comes twice: the day begins at the first.
        ("America/Havana", "2013-11-03", "2013-11-03 00:00:00-04:00", "2013-11-04 00:00:00-05:00"),
        # A whole day that a place skipped.
        ("Pacific/Apia", "2011-12-29", "2011-12-29 00:00:00-10:00", "2011-12-30 00:00:00-10:00"),
        # Local mean time, with seconds.
        ("Europe/Amsterdam", "1900-01-01", "1900-01-01 00:00:00+00:18", "1900-01-02 00:00:00+00:18"),
    ],
)
@pytest.mark.parametrize("kind", ["timestamp with time zone", "timestamp(0) with time zone"])
def test_a_column_with_a_zone_compares_instants(kind, timezone, day, lower, upper):
    if day.startswith("1900"):
        offset = datetime(1900, 1, 1, tzinfo=ZoneInfo(timezone)).isoformat()[19:]
        lower, upper = f"1900-01-01 00:00:00{offset}", f"1900-01-02 00:00:00{offset}"
    expected = f""""day" >= '{lower}'::timestamptz AND "day" < '{upper}'::timestamptz"""
    assert expected == on(day, kind, timezone)


@given(
    day=st.dates(date(1950, 1, 1), date(2037, 12, 30)),
    timezone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Tehran", "Australia/Lord_Howe"]
    ),
)
def test_days_follow_one_another_without_gap_or_overlap(day, timezone):
    one = on(day.isoformat(), "timestamp with time zone", timezone)
    following = on((day + timedelta(days=1)).isoformat(), "timestamp with time zone", timezone)
    end, begin = one.rsplit("'", 2)[1], following.split("'", 2)[1]
    assert end == begin
    assert datetime.fromisoformat(one.split("'", 2)[1]) < datetime.fromisoformat(end)


def test_an_inclusive_bound_is_included():
    inclusive = chunk_predicate(column("date"), ChunkKind.DATE, "UTC", replace(CHUNK, upper_inclusive=True))
    assert inclusive.endswith(""""day" <= '2013-01-02'::date""")


@pytest.mark.parametrize("name", ["Day", 'od"d', "percent%s", "ünï", "select", "a;b'--"])
def test_any_name_is_quoted(name):
    found = chunk_predicate(column("date", name), ChunkKind.DATE, "UTC", CHUNK)
    assert 2 == found.count('"' + name.replace('"', '""') + '"')


@pytest.mark.parametrize(
    "kind", ["integer", "text", "uuid", "time without time zone", "daterange", "date[]", "interval"]
)
def test_a_column_that_days_cannot_be_compared_with_is_refused(kind):
    for refused in (
        lambda: chunk_predicate(column(kind), ChunkKind.DATE, "UTC", CHUNK),
        lambda: require_chunk_column(column(kind), "public.t", make_plan()),
    ):
        with pytest.raises(ColumnsDifferError) as refusal:
            refused()
        assert kind in refusal.value.message


@pytest.mark.parametrize(
    "kind, lower, end, expected",
    [
        ("date", "2013-01-01", "2013-01-06", "date"),
        ("timestamp without time zone", "2013-01-01", "2013-01-06", "date"),
        (
            "timestamp(3) with time zone",
            "2013-01-01T00:00:00+01:00",
            "2013-01-06T00:00:00+01:00",
            "timestamp",
        ),
    ],
)
def test_days_are_instants_where_the_column_has_a_zone(kind, lower, end, expected):
    plan = plan_chunks(
        window_spec(first="2013-01-01", to="2013-01-05", step="1d", timezone="Europe/Berlin"), RUN_KEY
    )
    assert Window("key", expected, lower, end) == covered_window(column(kind), plan)


def test_a_window_with_rows_without_a_value_is_everything():
    plan = plan_chunks(window_spec(first=1, to=2**63 - 1, step=2**62, nulls="include"), RUN_KEY)
    expected = Window("key", "integer", "1", str(2**63), everything=True)
    assert expected == covered_window(column("bigint"), plan)


def predicate(type_name: str, nulls: str = "fail", index: int = 1, **chunk) -> str:
    plan = plan_chunks(window_spec(**chunk, nulls=nulls), RUN_KEY)
    return chunk_predicate(column(type_name), plan.spec.kind, plan.spec.timezone, plan.chunk(index))


@pytest.mark.parametrize("kind", ["smallint", "integer", "bigint"])
def test_numbers_are_compared_as_bigint(kind):
    expected = """"day" >= '-5'::bigint AND "day" < '5'::bigint"""
    assert expected == predicate(kind, first=-5, to=9, step=10)


def test_the_last_bigint_is_included():
    expected = """"day" >= '9'::bigint AND "day" <= '9223372036854775807'::bigint"""
    assert expected == predicate("bigint", first=9, to=2**63 - 1, step=2**63)


def test_numbers_with_a_fraction_are_compared_as_such():
    assert """"day" >= '0'::numeric AND "day" < '10'::numeric""" == predicate(
        "numeric(9,2)", first=0, to=9, step=10
    )


def test_uuids_are_compared_natively_and_the_last_is_included():
    expected = """"day" >= '80000000-0000-0000-0000-000000000000'::uuid AND "day" <= 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid"""
    assert expected == predicate("uuid", kind="uuid", buckets=2, index=2)


def test_rows_without_a_value_are_found_by_name():
    assert '"day" IS NULL' == predicate("uuid", "include", 3, kind="uuid", buckets=2)


@pytest.mark.parametrize(
    "kind, expected",
    [
        (
            "timestamp(6) with time zone",
            """"day" >= '2013-10-27 02:00:00+02:00'::timestamptz AND "day" < '2013-10-27 02:00:00+01:00'::timestamptz""",
        ),
        # The hour that comes twice belongs to its first pass; nothing is left for the second.
        (
            "timestamp without time zone",
            """"day" >= '2013-10-27 02:00:00'::timestamp AND "day" < '2013-10-27 03:00:00'::timestamp""",
        ),
    ],
)
def test_hours_are_instants_or_the_wall_clocks_that_tell_them(kind, expected):
    berlin = {
        "first": "2013-10-27T02:00",
        "to": "2013-10-27T04:00",
        "step": "1h",
        "timezone": "Europe/Berlin",
    }
    assert expected == predicate(kind, **berlin)


@pytest.mark.parametrize("step, refused", [("1d", False), ("24h", False), ("6h", True)])
def test_instants_cut_a_date_column_at_midnight_only(step, refused):
    plan = plan_chunks(window_spec(first="2013-01-01T00:00", to="2013-01-09T00:00", step=step), RUN_KEY)
    if not refused:
        assert column("date") == require_chunk_column(column("date"), "public.t", plan)
        return
    with pytest.raises(ColumnsDifferError, match="not midnight in UTC") as caught:
        require_chunk_column(column("date"), "public.t", plan)
    assert "a step of days or more" in str(caught.value.next_step)


def test_a_missing_column_is_named():
    with pytest.raises(ColumnsDifferError, match=r"public\.t has no column 'flight_date'"):
        require_chunk_column(None, "public.t", make_plan())


def test_a_fitting_column_is_given_back():
    assert column("date") == require_chunk_column(column("date"), "public.t", make_plan())
