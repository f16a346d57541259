"""Local times that come twice or never: one rule, and a wall clock that never goes back while instants go forward."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpone_contract.chunk_kinds.local_time import (
    day_that_begins_at,
    instant_of,
    instant_text,
    parse_moment,
    wall_clock,
)
from dpone_contract.errors import PlanInvalidError

BERLIN, SAO_PAULO = ZoneInfo("Europe/Berlin"), ZoneInfo("America/Sao_Paulo")
# Among them changes of half an hour, of two hours, of a whole day forward (Apia) and back (Sitka, Kwajalein), and seconds.
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Amsterdam",
    "America/Sao_Paulo",
    "America/Havana",
    "America/Sitka",
    "America/Caracas",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Africa/Monrovia",
    "Africa/Casablanca",
    "Asia/Tehran",
    "Pacific/Apia",
    "Pacific/Kwajalein",
)
INSTANTS = st.datetimes(datetime(1800, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


def change_near(zone: ZoneInfo, instant: datetime, days: int) -> datetime | None:
    """Give an instant within some days at which a zone's offset changes, to the microsecond."""
    low, high = instant, instant + timedelta(days=days)
    if low.astimezone(zone).utcoffset() == high.astimezone(zone).utcoffset():
        return None
    while high - low > timedelta(microseconds=1):
        middle = low + (high - low) // 2
        same = middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset()
        low, high = (middle, high) if same else (low, middle)
    return high


@st.composite
def instants_near_a_change(draw: st.DrawFn) -> tuple[ZoneInfo, list[datetime]]:
    zone = ZoneInfo(draw(st.sampled_from(ZONES)))
    near = draw(INSTANTS)
    change = change_near(zone, near, draw(st.sampled_from([1, 30, 200, 4000]))) or near
    distances = st.integers(-1, 1) | st.integers(-(10**11), 10**11) | st.integers(-(10**10), 10**10)
    found = draw(st.lists(distances, min_size=2, max_size=12))
    return zone, sorted(change + timedelta(microseconds=by) for by in [0, *found])


@given(instants_near_a_change())
def test_a_wall_clock_never_goes_back(window):
    zone, instants = window
    clocks = [wall_clock(instant, zone) for instant in instants]
    assert sorted(clocks) == clocks


@given(instants_near_a_change())
def test_a_wall_clock_that_is_told_once_is_the_local_time(window):
    zone, instants = window
    for instant in instants:
        local = instant.astimezone(zone)
        naive = local.replace(tzinfo=None, fold=0)
        unique = local.replace(fold=0).utcoffset() == local.replace(fold=1).utcoffset()
        just_after_a_gap = (instant - timedelta(microseconds=1)).astimezone(
            zone
        ).utcoffset() < local.utcoffset()
        if unique and not just_after_a_gap:
            assert (naive, instant) == (wall_clock(instant, zone), instant_of(naive, zone))


@pytest.mark.parametrize(
    "zone, instant, clock",
    [
        (BERLIN, "2013-03-31T00:59:59.999999", "2013-03-31T01:59:59.999999"),
        # What never came belongs to what follows the change.
        (BERLIN, "2013-03-31T01:00:00", "2013-03-31T02:00:00"),
        (BERLIN, "2013-03-31T01:00:00.000001", "2013-03-31T03:00:00.000001"),
        (SAO_PAULO, "2013-10-20T03:00:00", "2013-10-20T00:00:00"),
        # What comes twice belongs to the first pass, which the second pass ends.
        (BERLIN, "2013-10-27T00:30:00", "2013-10-27T02:30:00"),
        (BERLIN, "2013-10-27T01:00:00", "2013-10-27T03:00:00"),
        (BERLIN, "2013-10-27T01:59:59.999999", "2013-10-27T03:00:00"),
        (BERLIN, "2013-10-27T02:00:00", "2013-10-27T03:00:00"),
    ],
)
def test_the_wall_clock_at_a_change(zone, instant, clock):
    found = wall_clock(datetime.fromisoformat(instant).replace(tzinfo=UTC), zone)
    assert datetime.fromisoformat(clock) == found


@given(INSTANTS, st.sampled_from(ZONES))
def test_an_instant_has_one_text_that_is_read_as_itself(instant, zone):
    text = instant_text(instant, ZoneInfo(zone))
    assert instant == parse_moment(text, "from")
    other = instant.astimezone(ZoneInfo("Asia/Kathmandu"))
    assert text == instant_text(instant_of(other, ZoneInfo("UTC")), ZoneInfo(zone))


@given(st.dates(datetime(1950, 1, 1).date(), datetime(2037, 1, 1).date()), st.sampled_from(ZONES))  # noqa: DTZ001
def test_a_day_is_known_by_its_beginning(day, zone):
    begins = instant_of(datetime.combine(day, time()), ZoneInfo(zone))
    # After a day that a zone left out, the instant is the beginning of the one left out.
    assume(begins != instant_of(datetime.combine(day - timedelta(days=1), time()), ZoneInfo(zone)))
    following = begins + timedelta(microseconds=1)
    assert day == day_that_begins_at(begins, zone, "from")
    with pytest.raises(PlanInvalidError, match="is not midnight"):
        day_that_begins_at(following, zone, "from")
