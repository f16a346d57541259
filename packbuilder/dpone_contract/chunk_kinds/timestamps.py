"""Windows of instants: steps in hours are elapsed time, longer ones follow the calendar and the wall clock of a zone."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from dpone_contract.chunk_kinds.local_time import (
    instant_text,
    parse_moment,
    read_instant,
    require_zone,
)
from dpone_contract.chunk_options import ChunkKind, ChunkOptions, NullPolicy, refuse_keys
from dpone_contract.errors import PlanInvalidError
from dpone_contract.step import Step, date_bound, parse_step


@dataclass(frozen=True)
class TimestampChunks:
    """A window of instants `[first, end)`, both in UTC, cut by a step anchored at `first`.

    A step of days or more is added to the wall clock of `timezone`: a day has 23 or 25 hours where clocks are changed.
    """

    column: str
    first: datetime
    end: datetime
    step: Step
    timezone: str = "UTC"
    nulls: NullPolicy = NullPolicy.FAIL

    @property
    def kind(self) -> ChunkKind:
        return ChunkKind.TIMESTAMP

    @property
    def cut(self) -> str:
        return str(self.step)

    @property
    def last_inclusive(self) -> bool:
        return False

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @cached_property
    def _anchor(self) -> tuple[date, time]:
        """The day of the first bound, and the local time that the other bounds share, in its zone."""
        local = self.first.astimezone(self._zone)
        return local.date(), local.timetz().replace(fold=0)

    def count(self) -> int:
        # A step is an hour at least, but for what clocks are put forward by: a day.
        most = (self.end - self.first) // timedelta(hours=1) + 26
        return bisect_left(range(most), self.end, key=self._instant)

    def bound(self, index: int) -> str:
        return instant_text(self._instant(index), self._zone)

    def _instant(self, index: int) -> datetime:
        """Give bound `index` as an instant, at most `end`."""
        if index == 0:
            # Itself, also within an hour that comes a second time.
            return self.first
        try:
            if (hours := self.step.hours) is not None:
                return min(self.first + timedelta(hours=hours * index), self.end)
            day, clock = self._anchor
            return min(datetime.combine(date_bound(day, self.step, index), clock).astimezone(UTC), self.end)
        except OverflowError:
            return self.end

    def to_document(self) -> dict[str, object]:
        return {
            "column": self.column,
            "kind": self.kind.value,
            "from": instant_text(self.first, self._zone),
            "to": instant_text(self.end, self._zone),
            "step": str(self.step),
            "timezone": self.timezone,
            "nulls": self.nulls.value,
        }


def build_timestamp_chunks(options: ChunkOptions) -> TimestampChunks:
    """Read a window of instants; `to` is not included.

    Errors: PlanInvalidError.
    """
    refuse_keys(options, ("buckets",), "belongs to chunks of kind uuid", "remove chunk.buckets")
    bounds = {"from": options.from_, "to": options.to}
    moments = [parse_moment(value, name) for name, value in bounds.items()]
    require_alike(moments, "from and chunk.to")
    zone = require_zone(options.timezone)
    first, end = (read_instant(moment, zone, name) for moment, name in zip(moments, bounds, strict=True))
    if end <= first:
        raise PlanInvalidError(
            f"the window holds no chunk: it ends at {instant_text(end, zone)}, which is not after "
            f"{instant_text(first, zone)}, where it begins",
            next_step="put the earlier instant into chunk.from; chunk.to is not included",
        )
    return TimestampChunks(
        column=options.column,
        first=first,
        end=end,
        step=_read_step(options.step),
        timezone=options.timezone,
        nulls=options.nulls,
    )


def require_alike(moments: list[datetime], names: str) -> None:
    """Require bounds that all have an offset, or all have none.

    Errors: PlanInvalidError.
    """
    if len({moment.tzinfo is None for moment in moments}) > 1:
        raise PlanInvalidError(
            f"chunk.{names} mix times with an offset and times without",
            next_step="write all with an offset, or all without, as wall clocks in chunk.timezone",
        )


def _read_step(value: str | int | None) -> Step:
    if value is None:
        raise PlanInvalidError("chunk.step is missing", next_step="add for example step: 1d or step: 6h")
    if isinstance(value, int):
        raise PlanInvalidError(
            f"step {value} needs a unit in a window of timestamps", next_step=f"write step: {max(1, value)}h"
        )
    return parse_step(value)


def instant_from_text(text: str) -> datetime:
    """Read the canonical text of a bound back, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)
