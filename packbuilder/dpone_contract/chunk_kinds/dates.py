"""Windows of calendar days, cut by a calendar step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from dpone_contract.chunk_kinds.local_time import day_that_begins_at, parse_moment
from dpone_contract.chunk_options import ChunkKind, ChunkOptions, NullPolicy, refuse_keys
from dpone_contract.errors import PlanInvalidError
from dpone_contract.step import Step, count_date_bounds, date_bound, parse_step

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")


@dataclass(frozen=True)
class DateChunks:
    """A window of calendar days, `first` and `last` both inclusive, cut by a calendar step anchored at `first`."""

    column: str
    first: date
    last: date
    step: Step
    timezone: str = "UTC"
    nulls: NullPolicy = NullPolicy.FAIL

    @property
    def kind(self) -> ChunkKind:
        return ChunkKind.DATE

    @property
    def cut(self) -> str:
        return str(self.step)

    @property
    def last_inclusive(self) -> bool:
        return False

    @property
    def end(self) -> date:
        """The first day after the window."""
        return self.last + timedelta(days=1)

    def count(self) -> int:
        return count_date_bounds(self.first, self.end, self.step)

    def bound(self, index: int) -> str:
        try:
            found = date_bound(self.first, self.step, index)
        except OverflowError:
            return self.end.isoformat()
        return min(found, self.end).isoformat()

    def to_document(self) -> dict[str, object]:
        return {
            "column": self.column,
            "kind": self.kind.value,
            "from": self.first.isoformat(),
            "to": self.last.isoformat(),
            "step": str(self.step),
            "timezone": self.timezone,
            "nulls": self.nulls.value,
        }


def build_date_chunks(options: ChunkOptions) -> DateChunks:
    """Read a window of days. Its last day is included, unless both bounds are instants at midnight: `to` is then not.

    Errors: PlanInvalidError.
    """
    refuse_keys(options, ("buckets",), "belongs to chunks of kind uuid", "remove chunk.buckets")
    first, last = _read_days(options)
    spec = DateChunks(
        column=options.column,
        first=first,
        last=last,
        step=_read_step(options.step),
        timezone=options.timezone,
        nulls=options.nulls,
    )
    if spec.last < spec.first:
        raise PlanInvalidError(
            f"the window holds no chunk: it ends on {spec.last} before it begins on {spec.first}",
            next_step="put the earlier day into chunk.from; both days are included, but an instant in chunk.to is not",
        )
    if spec.last == date.max:
        raise PlanInvalidError("chunk.to is the last day there is", next_step="use 9999-12-30 at the latest")
    return spec


def read_day(value: str | int | None, name: str) -> date:
    """Read a calendar day, `YYYY-MM-DD`.

    Errors: PlanInvalidError.
    """
    if value is None:
        raise PlanInvalidError(f"chunk.{name} is missing", next_step=f'add {name}: "YYYY-MM-DD"')
    text = str(value)
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError as error:
        raise PlanInvalidError(
            f"chunk.{name} {text!r} is no day of the calendar: {error}", next_step="name a day that exists"
        ) from error
    if _MOMENT.match(text):
        raise PlanInvalidError(
            f"chunk.{name} {text!r} is an instant, but the window's kind is date and another bound is a day",
            next_step="use {{ ds }} or a date without a time in all bounds, or instants in both from and to",
        )
    raise PlanInvalidError(f"chunk.{name} {text!r} is not a date", next_step='write "YYYY-MM-DD"')


def _read_days(options: ChunkOptions) -> tuple[date, date]:
    """Give first and last day, both inclusive."""
    bounds = {"from": str(options.from_), "to": str(options.to)}
    if not all(_MOMENT.match(text) for text in bounds.values()):
        return read_day(options.from_, "from"), read_day(options.to, "to")
    moments = {name: parse_moment(text, name) for name, text in bounds.items()}
    first, end = (day_that_begins_at(moments[name], options.timezone, name) for name in bounds)
    if first == end == date.min:
        raise PlanInvalidError("the window holds no chunk", next_step="use a later instant in chunk.to")
    return first, end - timedelta(days=1)


def _read_step(value: str | int | None) -> Step:
    if value is None:
        raise PlanInvalidError("chunk.step is missing", next_step="add for example step: 1d")
    if isinstance(value, int):
        raise PlanInvalidError(
            f"step {value} needs a unit in a date window", next_step=f"write step: {max(1, value)}d"
        )
    step = parse_step(value)
    if step.days is None and step.months is None:
        raise PlanInvalidError(
            f"step {value} does not fit date chunks", next_step="use Nd, Nw, Nmo or Ny, or kind: timestamp"
        )
    return step
