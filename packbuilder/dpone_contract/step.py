"""Steps of a chunk window and the calendar arithmetic that turns them into bounds."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from functools import cached_property
from typing import assert_never

from dpone_contract.errors import PlanInvalidError

_STEP = re.compile(r"([0-9]{1,9})(h|d|w|mo|y)")


class StepUnit(StrEnum):
    """What a step counts."""

    HOURS = "h"
    DAYS = "d"
    WEEKS = "w"
    MONTHS = "mo"
    YEARS = "y"


@dataclass(frozen=True)
class Step:
    """A positive number of units."""

    count: int
    unit: StepUnit

    def __str__(self) -> str:
        return f"{self.count}{self.unit.value}"

    @cached_property
    def hours(self) -> int | None:
        """The step in elapsed hours, or None for a step that follows the calendar."""
        return self.count if self.unit is StepUnit.HOURS else None

    @cached_property
    def days(self) -> int | None:
        """The step in whole days, or None where its length depends on the calendar."""
        match self.unit:
            case StepUnit.DAYS:
                return self.count
            case StepUnit.WEEKS:
                return self.count * 7
            case StepUnit.HOURS | StepUnit.MONTHS | StepUnit.YEARS:
                return None
            case _:
                assert_never(self.unit)

    @cached_property
    def months(self) -> int | None:
        """The step in whole months, or None for a step of days or hours."""
        match self.unit:
            case StepUnit.MONTHS:
                return self.count
            case StepUnit.YEARS:
                return self.count * 12
            case StepUnit.HOURS | StepUnit.DAYS | StepUnit.WEEKS:
                return None
            case _:
                assert_never(self.unit)


def parse_step(text: str) -> Step:
    """Read `Nh`, `Nd`, `Nw`, `Nmo` or `Ny`.

    Errors: PlanInvalidError when it is none of these, or zero.
    """
    found = _STEP.fullmatch(text.strip())
    if found is None:
        raise PlanInvalidError(
            f"step {text!r} is not a step", next_step="write Nh, Nd, Nw, Nmo or Ny, for example 1d"
        )
    step = Step(int(found.group(1)), StepUnit(found.group(2)))
    if step.count == 0:
        raise PlanInvalidError(f"step {text!r} never ends", next_step="use a step of at least 1")
    return step


def date_bound(anchor: date, step: Step, index: int) -> date:
    """Give bound `index` of a window that begins at `anchor`: anchor + index steps, months clamped to their last day.

    Months and years are always counted from the anchor, so that 01-31 gives 02-28 and then 03-31.

    Errors: OverflowError beyond the year 9999.
    Source: the design, chunks (anchored month and year steps).
    """
    if (days := step.days) is not None:
        return anchor + timedelta(days=days * index)
    if (months := step.months) is None:
        raise PlanInvalidError("a step in hours does not fit date chunks", next_step="use Nd, Nw, Nmo or Ny")
    years, month = divmod(anchor.year * 12 + anchor.month - 1 + months * index, 12)
    if years > date.max.year:
        raise OverflowError("beyond the year 9999")
    return date(years, month + 1, min(anchor.day, calendar.monthrange(years, month + 1)[1]))


def count_date_bounds(anchor: date, end: date, step: Step) -> int:
    """Count the chunks that cover `[anchor, end)`, by arithmetic: no bound is generated but the last ones."""
    if (days := step.days) is not None:
        return -(-(end - anchor).days // days)
    months = step.months or 1
    estimate = ((end.year - anchor.year) * 12 + end.month - anchor.month) // months
    # Whole steps within the months between the two: never one too many, at most one too few.
    return estimate if _reaches(anchor, step, estimate, end) else estimate + 1


def _reaches(anchor: date, step: Step, index: int, end: date) -> bool:
    try:
        return date_bound(anchor, step, index) >= end
    except OverflowError:
        return True
