"""Months and years are counted from the anchor, and chunks are counted without making them."""

from datetime import date, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpone_contract.errors import PlanInvalidError
from dpone_contract.step import Step, StepUnit, count_date_bounds, date_bound, parse_step

DAYS = st.dates(date(1, 1, 1), date(9999, 12, 30))
STEPS = st.builds(
    Step,
    st.integers(1, 40),
    st.sampled_from([StepUnit.DAYS, StepUnit.WEEKS, StepUnit.MONTHS, StepUnit.YEARS]),
)


def bounds(anchor, step, count):
    return [
        date_bound(date.fromisoformat(anchor), parse_step(step), index).isoformat() for index in range(count)
    ]


@pytest.mark.parametrize(
    "anchor, step, expected",
    [
        ("2013-01-31", "1mo", ["2013-01-31", "2013-02-28", "2013-03-31", "2013-04-30", "2013-05-31"]),
        ("2012-01-31", "1mo", ["2012-01-31", "2012-02-29", "2012-03-31"]),
        ("2011-11-30", "3mo", ["2011-11-30", "2012-02-29", "2012-05-30"]),
        ("2012-02-29", "1y", ["2012-02-29", "2013-02-28", "2014-02-28", "2015-02-28", "2016-02-29"]),
        ("1896-02-29", "4y", ["1896-02-29", "1900-02-28", "1904-02-29"]),
        ("2013-12-15", "1mo", ["2013-12-15", "2014-01-15", "2014-02-15"]),
        ("2013-01-31", "12mo", ["2013-01-31", "2014-01-31"]),
        ("2012-02-28", "1d", ["2012-02-28", "2012-02-29", "2012-03-01"]),
        ("2013-02-28", "1w", ["2013-02-28", "2013-03-07", "2013-03-14"]),
    ],
)
def test_a_bound_is_anchor_and_whole_steps(anchor, step, expected):
    assert expected == bounds(anchor, step, len(expected))


@given(DAYS, STEPS, st.integers(0, 200))
def test_bounds_rise_and_months_keep_the_anchors_day_where_they_can(anchor, step, index):
    try:
        lower, upper = date_bound(anchor, step, index), date_bound(anchor, step, index + 1)
    except OverflowError:
        return
    assert lower < upper
    if step.months is not None:
        assert upper.day == anchor.day or (upper + timedelta(days=1)).day == 1
        assert upper.day <= anchor.day


@given(DAYS, st.integers(1, 3000), STEPS)
@example(date(2012, 2, 29), 366, Step(1, StepUnit.YEARS))
@example(date(2013, 1, 31), 28, Step(1, StepUnit.MONTHS))
@example(date(2013, 1, 31), 29, Step(1, StepUnit.MONTHS))
@example(date(9999, 11, 30), 31, Step(1, StepUnit.MONTHS))
@example(date(9999, 12, 30), 1, Step(40, StepUnit.YEARS))
def test_the_count_is_that_of_counting_one_by_one(anchor, length, step):
    end = (
        min(anchor + timedelta(days=length), date.max)
        if date.max - anchor > timedelta(days=length)
        else date.max
    )

    def reached(index):
        try:
            return date_bound(anchor, step, index) >= end
        except OverflowError:
            return True

    counted = next(index for index in range(length + 1) if reached(index))
    assert counted == count_date_bounds(anchor, end, step)


@pytest.mark.parametrize("index", [120_000, 10**9])
@pytest.mark.parametrize("step", ["1d", "1w", "1mo", "1y"])
def test_a_bound_beyond_the_calendar_is_an_overflow(step, index):
    with pytest.raises(OverflowError):
        date_bound(date(9000, 1, 1), parse_step(step) if step != "1d" else Step(365, StepUnit.DAYS), index)


@given(st.integers(1, 999_999_999), st.sampled_from(list(StepUnit)))
def test_a_step_is_read_as_it_is_written(count, unit):
    step = Step(count, unit)
    assert step == parse_step(str(step))
    assert step == parse_step(f"  {step} ")


@pytest.mark.parametrize(
    "text",
    ["", "1", "d", "-1d", "1.5d", "1 d", "1D", "1dd", "1m", "1q", "9999999999d", "\uff11d", "1d; drop"],
)
def test_what_is_no_step_is_refused_with_the_steps_there_are(text):
    with pytest.raises(PlanInvalidError, match="is not a step") as caught:
        parse_step(text)
    assert caught.value.next_step == "write Nh, Nd, Nw, Nmo or Ny, for example 1d"


@pytest.mark.parametrize("text", ["0d", "0h", "000mo"])
def test_a_step_of_nothing_is_refused(text):
    with pytest.raises(PlanInvalidError, match="never ends") as caught:
        parse_step(text)
    assert caught.value.next_step == "use a step of at least 1"


def test_a_step_in_hours_does_not_fit_days():
    with pytest.raises(PlanInvalidError, match="does not fit date chunks") as caught:
        date_bound(date(2013, 1, 1), parse_step("1h"), 1)
    assert caught.value.next_step == "use Nd, Nw, Nmo or Ny"
