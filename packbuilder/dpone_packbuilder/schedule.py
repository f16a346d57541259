"""Whether a schedule or a start date is one that Airflow would take; neither is evaluated here."""

from __future__ import annotations

import re
from datetime import date, datetime
from difflib import get_close_matches

PRESETS = (
    "@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly",
)  # fmt: skip
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ("l",)),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_PART = re.compile(r"^(?P<range>\*|[a-z0-9]+(-[a-z0-9]+)?)(/(?P<every>[0-9]+))?$")
_NTH_DAY = re.compile(r"^(?P<day>[0-7]|[a-z]{3})#[1-5]$|^l(?P<last>[0-7])$")


def find_schedule_problem(schedule: str) -> tuple[str, str] | None:
    """Give what is wrong with a preset or cron line and how to mend it, or None."""
    if schedule.startswith("@"):
        if schedule in PRESETS:
            return None
        close = get_close_matches(schedule, PRESETS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "use one of: " + ", ".join(PRESETS)
        return f"schedule {schedule!r} is not a preset", hint
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        problem = f"schedule {schedule!r} has {len(fields)} fields, a cron line has {len(_FIELDS)}"
        return problem, 'write for example "0 3 * * *" or "@daily", or null for a DAG that is started by hand'
    for text, (name, lowest, highest, names) in zip(fields, _FIELDS, strict=True):
        if not all(_is_part(part, name, lowest, highest, names) for part in text.lower().split(",")):
            return (
                f"schedule {schedule!r}: {text!r} does not fit the field {name}",
                f"use {lowest}..{highest}, * or */n",
            )
    return None


def is_date_or_instant(text: str) -> bool:
    """Whether a text is an ISO date, or an ISO instant."""
    if not re.match(r"^\d{4}-\d{2}-\d{2}([T ]|$)", text):
        return False
    try:
        date.fromisoformat(text[:10])
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_part(part: str, name: str, lowest: int, highest: int, names: tuple[str, ...]) -> bool:
    if name == "day of week" and (nth := _NTH_DAY.match(part)):
        day = nth["day"]
        return day is None or day.isdigit() or day in names
    found = _PART.match(part)
    if found is None or found["every"] == "0":
        return False
    ends = [] if found["range"] == "*" else found["range"].split("-")
    numbers = [_number(end, lowest, names) for end in ends]
    return all(number is not None and lowest <= number <= highest for number in numbers)


def _number(text: str, lowest: int, names: tuple[str, ...]) -> int | None:
    if text.isdigit():
        return int(text)
    return names.index(text) + lowest if text in names else None
