"""Proof by points: the planner's own predicates, on a real server, over values at, just below and just above every bound.

Each value is in exactly one chunk, or in none where the window does not cover it, whatever the session's time zone and
DateStyle are. What is expected is computed from what is authored, by arithmetic that shares nothing with the planner.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_runtime.adapters.postgres.predicate import chunk_predicate
from dpone_runtime.ports.connectors import Column
from dpone_runtime.ports.type_structure import TypeStructure
from tests.integration.points import (
    DATE_STYLES,
    SESSION_ZONES,
    Point,
    Session,
    chunk_of,
    day_points,
    instant_points,
    number_points,
    plan_of,
    require_points,
    uuid_points,
    uuid_text,
    wall_clock_points,
)

pytestmark = pytest.mark.usefixtures("server")
BOUNDED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
INTEGERS = {
    "smallint": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "numeric": (-(2**70), 2**70),
    "numeric(30,3)": (-(2**70), 2**70),
}
# Instants at which clocks are changed: by an hour at two, at midnight, by half an hour, by two hours, at a minute past.
CHANGES = {
    "UTC": ("2013-03-31T01:00", "2013-10-27T01:00"),
    "Europe/Berlin": ("2013-03-31T01:00", "2013-10-27T01:00", "1945-05-24T00:00"),
    "America/Sao_Paulo": ("2013-10-20T03:00", "2014-02-16T02:00"),
    "America/Havana": ("2013-03-10T05:00", "2013-11-03T05:00"),
    "Australia/Lord_Howe": ("2013-10-05T15:30", "2013-04-06T15:00"),
    "Antarctica/Troll": ("2013-03-31T01:00", "2013-10-27T01:00"),
    "America/St_Johns": ("2010-03-14T03:31", "2010-11-07T02:31"),
}
NULLS = st.sampled_from(["fail", "include", "ignore"])
SESSIONS = st.builds(Session, st.sampled_from(SESSION_ZONES), st.sampled_from(DATE_STYLES))
PRECISIONS = st.integers(0, 6)


@pytest.fixture(scope="module")
def server(server_uri: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of one's own, whose settings the tests change."""
    with psycopg.connect(server_uri, autocommit=True) as connection:
        yield connection


def stepped_days(first: date, step: int, unit: str, end: date) -> list[date]:
    """Count days and months from the first on, months as a calendar on the wall has them."""
    bounds, index = [first], 0
    while bounds[-1] < end:
        index += 1
        if unit in ("d", "w"):
            bounds.append(first + timedelta(days=index * step * (7 if unit == "w" else 1)))
            continue
        month = first.month - 1 + index * step * (12 if unit == "y" else 1)
        year, day = first.year + month // 12, first.day
        while True:
            try:
                bounds.append(date(year, month % 12 + 1, day))
                break
            except ValueError:
                day -= 1
    return [*(bound for bound in bounds if bound < end), end]


@st.composite
def instant_windows(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[datetime]]:
    """A window of instants near a change of clocks: zone, what is authored, and its bounds in UTC."""
    zone_name = draw(st.sampled_from(sorted(CHANGES)))
    zone = ZoneInfo(zone_name)
    change = datetime.fromisoformat(draw(st.sampled_from(CHANGES[zone_name]))).replace(tzinfo=UTC)
    unit = draw(st.sampled_from(["h", "h", "d", "w", "mo", "y"]))
    step = draw(st.integers(1, 4))
    span = timedelta(hours={"h": 1, "d": 24, "w": 168, "mo": 700, "y": 8000}[unit] * step)
    first = (
        change
        - draw(st.integers(0, 3)) * span
        - timedelta(minutes=draw(st.sampled_from([0, 0, 1, 30, 45, 60, 150])))
    )
    first += timedelta(microseconds=draw(st.sampled_from([0, 0, 1, 500_000, 999_999])))
    end = (
        change
        + draw(st.integers(1, 4)) * span
        + timedelta(seconds=draw(st.sampled_from([0, 0, 1, 1799, 5400])))
    )
    aware = draw(st.booleans())
    authored = [first.isoformat(), end.isoformat()]
    if not aware:
        local = [moment.astimezone(zone).replace(tzinfo=None, fold=0) for moment in (first, end)]
        authored = [moment.isoformat() for moment in local]
        first, end = (moment.replace(tzinfo=zone).astimezone(UTC) for moment in local)
    if unit == "h":
        count = -(-(end - first) // timedelta(hours=step))
        bounds = [first + timedelta(hours=step * index) for index in range(count)]
    else:
        anchor = first.astimezone(zone)
        days = stepped_days(anchor.date(), step, unit, end.astimezone(zone).date() + timedelta(days=1))
        clocks = [
            datetime.combine(day, anchor.time()).replace(tzinfo=zone).astimezone(UTC) for day in days[1:]
        ]
        bounds = [first, *(moment for moment in clocks if moment < end)]
    window = {
        "first": authored[0],
        "to": authored[1],
        "step": f"{step}{unit}",
        "timezone": zone_name,
        "kind": "timestamp",
    }
    return zone_name, window, [*bounds, end]


@BOUNDED
@given(instant_windows(), PRECISIONS, NULLS, SESSIONS)
def test_an_instant_is_in_one_chunk_of_a_column_with_a_zone(server, window, precision, nulls, session):
    _, authored, bounds = window
    plan = plan_of(**authored, nulls=nulls)
    assert len(bounds) - 1 == plan.ranges_total
    points = instant_points(bounds, precision)
    require_points(server, plan, f"timestamp({precision}) with time zone", points, session)


@BOUNDED
@given(instant_windows(), PRECISIONS, NULLS, SESSIONS)
def test_a_wall_clock_is_in_one_chunk_of_a_column_without_a_zone(server, window, precision, nulls, session):
    zone, authored, bounds = window
    points = wall_clock_points(bounds, precision, ZoneInfo(zone))
    plan = plan_of(**authored, nulls=nulls)
    require_points(server, plan, f"timestamp({precision}) without time zone", points, session)


@st.composite
def day_windows(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[date]]:
    """A window of days, stepped or written down: zone, what is authored, and its bounds."""
    zone = draw(st.sampled_from(sorted(CHANGES)))
    change = datetime.fromisoformat(draw(st.sampled_from(CHANGES[zone]))).date()
    first = draw(
        st.sampled_from(
            [change - timedelta(days=by) for by in (0, 1, 2, 31)] + [date(1, 1, 2), date(2012, 1, 31)]
        )
    )
    if draw(st.booleans()):
        gaps = draw(st.lists(st.integers(1, 400), min_size=1, max_size=6))
        bounds = [first]
        for gap in gaps:
            bounds.append(bounds[-1] + timedelta(days=gap))
        return zone, {"boundaries": [str(bound) for bound in bounds], "timezone": zone}, bounds
    step, unit = draw(st.integers(1, 5)), draw(st.sampled_from(["d", "w", "mo", "y"]))
    last = first + timedelta(days=draw(st.integers(0, 6)) * step * {"d": 1, "w": 7, "mo": 30, "y": 365}[unit])
    window = {"first": str(first), "to": str(last), "step": f"{step}{unit}", "timezone": zone}
    return zone, window, stepped_days(first, step, unit, last + timedelta(days=1))


@BOUNDED
@given(day_windows(), NULLS, SESSIONS)
def test_a_day_is_in_one_chunk_of_a_date_column(server, window, nulls, session):
    _, authored, bounds = window
    require_points(server, plan_of(**authored, nulls=nulls), "date", day_points(bounds), session)


@BOUNDED
@given(day_windows(), PRECISIONS, NULLS, SESSIONS)
def test_days_cut_a_column_with_a_zone_where_they_begin_there(server, window, precision, nulls, session):
    zone, authored, days = window
    bounds = [datetime.combine(day, time()).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for day in days]
    points = instant_points(bounds, precision)
    require_points(
        server, plan_of(**authored, nulls=nulls), f"timestamp({precision}) with time zone", points, session
    )


@BOUNDED
@given(day_windows(), PRECISIONS, NULLS, SESSIONS)
def test_days_cut_a_column_without_a_zone_at_its_midnights(server, window, precision, nulls, session):
    _, authored, days = window
    midnights = [datetime.combine(day, time()) for day in days]
    unit = timedelta(microseconds=10 ** (6 - precision))
    moments = [midnight + unit * by for midnight in midnights for by in (-1, 0, 1)]
    points = [Point(moment.isoformat(), chunk_of(moment, midnights)) for moment in moments]
    plan = plan_of(**authored, nulls=nulls)
    require_points(server, plan, f"timestamp({precision}) without time zone", points, session)


@BOUNDED
@given(day_windows(), NULLS, SESSIONS)
def test_instants_at_midnight_cut_a_date_column_into_its_days(server, window, nulls, session):
    zone, _, days = window
    first, end = (
        datetime.combine(day, time()).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).isoformat()
        for day in (days[0], days[-1])
    )
    bounds = stepped_days(days[0], 3, "mo", days[-1])
    for kind in ("date", "timestamp"):
        plan = plan_of(kind=kind, first=first, to=end, step="3mo", timezone=zone, nulls=nulls)
        require_points(server, plan, "date", day_points(bounds), session)


@st.composite
def integer_windows(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[int]]:
    """A window of numbers within a column's range, or beyond it: column type, what is authored, and its bounds."""
    type_name = draw(st.sampled_from(sorted(INTEGERS)))
    lowest, highest = INTEGERS["bigint"] if type_name.startswith("numeric") else INTEGERS[type_name]
    places = [lowest, lowest + 1, -101, -1, 0, 1, 99, highest - 100, highest]
    first = draw(st.sampled_from(places))
    last = draw(st.sampled_from([place for place in places if place >= first]))
    if draw(st.booleans()):
        inner = draw(st.sets(st.integers(first + 1, last), max_size=5)) if last > first else set()
        bounds = sorted({first, last + 1, *inner})
        return type_name, {"boundaries": bounds}, bounds
    step = max(1, -(-(last + 1 - first) // draw(st.integers(1, 9))) + draw(st.integers(-1, 1)))
    window = {"first": draw(st.sampled_from([first, str(first)])), "to": last, "step": step}
    return type_name, window, [*range(first, last + 1, step), last + 1]


@BOUNDED
@given(integer_windows(), NULLS, SESSIONS)
def test_a_number_is_in_one_chunk(server, window, nulls, session):
    type_name, authored, bounds = window
    plan = plan_of(**authored, nulls=nulls)
    assert len(bounds) - 1 == plan.ranges_total
    fraction = Decimal("0.001") if type_name.startswith("numeric") else Decimal(1)
    points = number_points(bounds, INTEGERS[type_name], fraction)
    beside = [Point("NaN", 0)] if type_name.startswith("numeric") else []
    require_points(server, plan, type_name, [*points, *beside], session)


@BOUNDED
@given(st.integers(1, 40) | st.sampled_from([64, 255, 256, 257]), NULLS, SESSIONS)
def test_a_uuid_is_in_one_bucket(server, buckets, nulls, session):
    bounds = [index * 2**128 // buckets for index in range(buckets)] + [2**128]
    plan = plan_of(kind="uuid", buckets=buckets, nulls=nulls)
    points = uuid_points(bounds, last_inclusive=False)
    assert 0 not in {point.chunk for point in points}
    require_points(server, plan, "uuid", points, session)


@BOUNDED
@given(st.sets(st.integers(0, 2**128 - 1) | st.sampled_from([0, 2**128 - 1]), min_size=2, max_size=8), NULLS)
def test_a_uuid_is_in_one_chunk_between_written_bounds(server, numbers, nulls):
    bounds = sorted(numbers)
    plan = plan_of(boundaries=[uuid_text(number).upper() for number in bounds], nulls=nulls)
    points = uuid_points(bounds, last_inclusive=bounds[-1] == 2**128 - 1)
    require_points(server, plan, "uuid", points, Session())


@st.composite
def written_instants(draw: st.DrawFn) -> tuple[str, list[str], list[datetime]]:
    """Written bounds around a change of clocks."""
    zone = draw(st.sampled_from(sorted(CHANGES)))
    change = datetime.fromisoformat(draw(st.sampled_from(CHANGES[zone]))).replace(tzinfo=UTC)
    around = st.integers(-3 * 3600 * 10**6, 3 * 3600 * 10**6).map(
        lambda by: change + timedelta(microseconds=by)
    )
    near = st.sampled_from([change + timedelta(minutes=by) for by in (-120, -60, -30, 0, 15, 30, 60, 120)])
    bounds = sorted(draw(st.sets(around | near, min_size=2, max_size=6)))
    return zone, [bound.isoformat() for bound in bounds], bounds


@BOUNDED
@given(written_instants(), PRECISIONS, SESSIONS)
def test_written_instants_cut_both_kinds_of_timestamp(server, window, precision, session):
    zone, authored, bounds = window
    plan = plan_of(boundaries=authored, timezone=zone)
    points = instant_points(bounds, precision)
    require_points(server, plan, f"timestamp({precision}) with time zone", points, session)
    points = wall_clock_points(bounds, precision, ZoneInfo(zone))
    require_points(server, plan, f"timestamp({precision}) without time zone", points, session)


@pytest.mark.parametrize(
    "type_name, window",
    [
        ("date", {"first": "2013-01-01", "to": "2013-01-02", "step": "1d"}),
        ("timestamp", {"first": "2013-01-01", "to": "2013-01-02", "step": "1d"}),
        ("timestamp with time zone", {"first": "2013-01-01T00:00", "to": "2013-01-02T00:00", "step": "1h"}),
        ("date", {"first": "2013-01-01T00:00", "to": "2013-01-02T00:00", "step": "1d"}),
        ("smallint", {"first": 1, "to": 9, "step": 2}),
        ("integer", {"first": 1, "to": 9, "step": 2}),
        ("bigint", {"first": 1, "to": 9, "step": 2}),
        ("numeric", {"first": 1, "to": 9, "step": 2}),
        ("uuid", {"kind": "uuid", "buckets": 2}),
    ],
)
def test_an_index_serves_both_ends_of_a_range_and_null(server, type_name, window):
    full_name = {"timestamp": "timestamp without time zone"}.get(type_name, type_name)
    plan = plan_of(**window, nulls="include")
    column = Column("key", TypeStructure(full_name), nullable=True)
    with server.transaction(force_rollback=True):
        server.execute(f"CREATE TABLE points (key {type_name}); CREATE INDEX ON points (key)".encode())
        server.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        for index, conditions in ((1, 2), (plan.chunks_total, 1)):
            predicate = chunk_predicate(column, plan.spec.kind, plan.spec.timezone, plan.chunk(index))
            shown = server.execute(f"EXPLAIN SELECT FROM points WHERE {predicate}".encode()).fetchall()
            (line,) = (row[0] for row in shown if "Index Cond" in row[0])
            assert conditions == line.count("key "), line
            assert not any("Filter" in row[0] for row in shown)
