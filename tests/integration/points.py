"""Points around the bounds of a plan, and which of its chunks a real server finds each of them in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import psycopg

from dpone_contract.chunk_plan import ChunkPlan, RunKey, plan_chunks
from dpone_runtime.adapters.postgres.predicate import chunk_predicate
from dpone_runtime.ports.connectors import Column
from dpone_runtime.ports.type_structure import TypeStructure
from tests.factories import window_spec

SESSION_ZONES = ("UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")
DATE_STYLES = ("ISO, MDY", "SQL, DMY", "German, DMY", "Postgres, YMD")


@dataclass(frozen=True)
class Session:
    """What a user may have set; none of it may change a result."""

    timezone: str = "UTC"
    date_style: str = "ISO, MDY"


@dataclass(frozen=True)
class Point:
    """A value as the server reads it, and the chunk that it belongs to by the rules; 0 is none of them."""

    text: str | None
    chunk: int


def plan_of(**chunk: Any) -> ChunkPlan:
    """Plan a window as a manifest declares it; `first` stands for `from`."""
    return plan_chunks(window_spec(**chunk), RunKey("points"))


def require_points(
    connection: psycopg.Connection[Any],
    plan: ChunkPlan,
    type_name: str,
    points: Sequence[Point],
    session: Session,
) -> None:
    """Require each point in its chunk and in no other, NULL in the chunk of NULL where there is one."""
    null = plan.chunks_total if plan.chunks_total > plan.ranges_total else 0
    points = (*points, Point(None, null))
    column = Column("key", TypeStructure(type_name), nullable=True)
    spec = plan.spec
    predicates = [chunk_predicate(column, spec.kind, spec.timezone, chunk) for chunk in plan.chunks()]
    flags = ", ".join(f"coalesce({predicate}, false)" for predicate in predicates)
    rows = ", ".join(f"({number}, %s::{type_name})" for number in range(len(points)))
    connection.execute("SELECT set_config('TimeZone', %s, false)", (session.timezone,))
    connection.execute("SELECT set_config('DateStyle', %s, false)", (session.date_style,))
    query = f"SELECT number, ARRAY[{flags}] FROM (VALUES {rows}) AS point (number, key) ORDER BY number"
    found = connection.execute(query.encode(), [point.text for point in points]).fetchall()
    expected = [(point.text, [point.chunk] if point.chunk else []) for point in points]
    assert expected == [
        (points[number].text, [index for index, flag in enumerate(inside, 1) if flag])
        for number, inside in found
    ]


def chunk_of(value: Any, bounds: Sequence[Any], *, last_inclusive: bool = False) -> int:
    """Find the chunk of a value between ascending bounds; 0 where it lies outside."""
    if last_inclusive and value == bounds[-1]:
        return len(bounds) - 1
    found = bisect_right(bounds, value)
    return found if 0 < found < len(bounds) else 0


def number_points(bounds: Sequence[int], limits: tuple[int, int], unit: Decimal) -> list[Point]:
    """Give what lies at, one unit below and one above each bound, within what a column can hold.

    A bound of 2^63 is the end of the bigints: a value beyond the last of them is in no chunk.
    """
    values = {bound + unit * by for bound in bounds for by in (-1, 0, 1)} | {
        Decimal(limit) for limit in limits
    }
    return [
        Point(str(value), chunk_of(value, bounds) if value <= 2**63 - 1 else 0)
        for value in sorted(values)
        if limits[0] <= value <= limits[1]
    ]


def uuid_text(number: int) -> str:
    """Give the text of a uuid."""
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def uuid_points(bounds: Sequence[int], *, last_inclusive: bool) -> list[Point]:
    """Give what lies at, just below and just above each bound, and both ends of the keyspace."""
    values = {bound + by for bound in bounds for by in (-1, 0, 1)} | {0, 2**128 - 1}
    return [
        Point(uuid_text(value), chunk_of(value, bounds, last_inclusive=last_inclusive))
        for value in sorted(values)
        if 0 <= value < 2**128
    ]


def day_points(bounds: Sequence[date]) -> list[Point]:
    """Give the days at, before and after each bound, and the days that PostgreSQL has beside the calendar's."""
    days = {bound + timedelta(days=by) for bound in bounds for by in (-1, 0, 1)}
    beside = [Point(text, 0) for text in ("infinity", "-infinity", "0044-03-15 BC")]
    return [*beside, *(Point(str(day), chunk_of(day, bounds)) for day in sorted(days))]


def moments_near(bounds: Sequence[datetime], precision: int) -> list[datetime]:
    """Give moments of a column's precision at, just below and just above each bound, and up to two hours around it."""
    unit = timedelta(microseconds=10 ** (6 - precision))
    found = set()
    for bound in bounds:
        whole = bound.replace(
            microsecond=bound.microsecond // unit.microseconds * unit.microseconds if precision else 0
        )
        found |= {whole + unit * by for by in (-1, 0, 1, 2)}
        found |= {
            whole + timedelta(minutes=by) for by in (-120, -60, -59, -30, -1, 1, 15, 30, 59, 60, 90, 120)
        }
    return sorted(found)


def instant_points(bounds: Sequence[datetime], precision: int) -> list[Point]:
    """Give points of a column with a zone: instants."""
    beside = [Point(text, 0) for text in ("infinity", "-infinity")]
    near = moments_near(bounds, precision)
    return [*beside, *(Point(moment.isoformat(), chunk_of(moment, bounds)) for moment in near)]


def wall_clock_points(bounds: Sequence[datetime], precision: int, zone: ZoneInfo) -> list[Point]:
    """Give points of a column without a zone: wall clocks of `zone`, also those that came twice or never."""
    local = [bound.astimezone(zone).replace(tzinfo=None, fold=0) for bound in bounds]
    near = moments_near(local, precision)
    return [
        Point(moment.isoformat(), chunk_of(instant_of_wall_clock(moment, zone), bounds)) for moment in near
    ]


def instant_of_wall_clock(moment: datetime, zone: ZoneInfo) -> datetime:
    """Say by the rule which instant a wall clock tells: the first of two; of one that never came, the end of the gap."""
    first, second = (moment.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first.astimezone(zone).replace(tzinfo=None, fold=0) == moment:
        return first
    # In a gap the later offset gives an instant before it, the earlier one an instant after it.
    before, after = second, first
    while after - before > timedelta(microseconds=1):
        middle = before + (after - before) // 2
        changed = middle.astimezone(zone).utcoffset() != second.astimezone(zone).utcoffset()
        before, after = (before, middle) if changed else (middle, after)
    return after
