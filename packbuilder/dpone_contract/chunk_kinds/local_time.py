"""Wall clocks and instants: the one rule for local times that come twice or never.

A local time that comes twice is the first of the two. One that never comes, since clocks were put forward, is moved forward
by as much.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dpone_contract.errors import PlanInvalidError

_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.(?P<fraction>[0-9]+))?)?"
    r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2}(?::[0-9]{2})?)?)?)?"
)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)


def require_zone(name: str) -> ZoneInfo:
    """Find a time zone.

    Errors: PlanInvalidError.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PlanInvalidError(
            f"chunk.timezone {name!r} is not an IANA time zone", next_step="for example UTC or Europe/Berlin"
        ) from error


def parse_moment(value: str | int | None, name: str) -> datetime:
    """Read an ISO 8601 date and time to the microsecond: aware where it has an offset, else naive; a date is midnight.

    Errors: PlanInvalidError.
    """
    if value is None:
        raise PlanInvalidError(
            f"chunk.{name} is missing",
            next_step=f'add {name}: "YYYY-MM-DDThh:mm:ss", with an offset or without',
        )
    text = str(value)
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise PlanInvalidError(
            f"chunk.{name} {text!r} is not a timestamp",
            next_step='write "YYYY-MM-DDThh:mm:ss", with an offset or without',
        )
    if (found["fraction"] or "")[6:].strip("0"):
        raise PlanInvalidError(
            f"chunk.{name} {text!r} is finer than a microsecond", next_step="write at most six decimals"
        )
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise PlanInvalidError(
            f"chunk.{name} {text!r} is no time of the calendar: {error}", next_step="name a time that exists"
        ) from error


def instant_of(moment: datetime, zone: ZoneInfo) -> datetime:
    """Give the instant of an aware moment, or of a naive one on a zone's wall clock, in UTC.

    Errors: OverflowError beyond the years 1 to 9999.
    """
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).astimezone(UTC)


def instant_text(instant: datetime, zone: ZoneInfo) -> str:
    """Give the canonical text of an instant: local time and its offset, a fraction only where there is one."""
    return instant.astimezone(zone).isoformat()


def wall_clock(instant: datetime, zone: ZoneInfo) -> datetime:
    """Give the wall clock from which on a column without a zone belongs to an instant and what follows it.

    It never goes back while instants go forward, so that chunks stay adjacent. At the instant at which clocks are put
    forward it is where the gap begins: times that never came belong to what follows. Within an hour that comes a second time
    it is the end of that hour: such times belong to the first.
    """
    local = instant.astimezone(zone)
    before = _offset(instant - _MICROSECOND, zone) if instant > _EARLIEST else _offset(instant, zone)
    if before < _offset(instant, zone):
        return (instant + before).replace(tzinfo=None)
    if not local.fold:
        return local.replace(tzinfo=None)
    first_pass = _offset(local.replace(fold=0), zone)
    low, high = instant - (first_pass - _offset(instant, zone)), instant
    while high - low > _MICROSECOND:
        middle = low + (high - low) // 2
        low, high = (middle, high) if _offset(middle, zone) == first_pass else (low, middle)
    return (high + first_pass).replace(tzinfo=None)


def day_that_begins_at(moment: datetime, timezone: str, name: str) -> date:
    """Give the day, in a time zone, that a moment is the beginning of.

    Errors: PlanInvalidError for a moment at another time of the day.
    """
    zone = require_zone(timezone)
    instant = read_instant(moment, zone, name)
    day = wall_clock(instant, zone).date()
    if wall_clock(instant, zone).time() != time():
        raise PlanInvalidError(
            f"chunk.{name} {moment.isoformat()} is not midnight in {timezone}, so it names no day",
            next_step="set chunk.timezone to the zone in which days begin, or use kind: timestamp",
        )
    return day


def read_instant(moment: datetime, zone: ZoneInfo, name: str) -> datetime:
    """Give the instant of an authored bound, in UTC.

    Errors: PlanInvalidError where either clock leaves the years 1 to 9999.
    """
    try:
        instant = instant_of(moment, zone)
        instant.astimezone(zone)
    except OverflowError as error:
        raise PlanInvalidError(
            f"chunk.{name} {moment.isoformat()} is outside the years 1 to 9999", next_step="use a nearer time"
        ) from error
    return instant


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()
