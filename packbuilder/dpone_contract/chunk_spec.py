"""What a chunk window is: authored options and, once tokens are replaced, the specification that plans are made from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from dpone_contract.errors import NotSupportedError, PlanInvalidError
from dpone_contract.frozen import FrozenModel
from dpone_contract.step import Step, count_date_bounds, date_bound, parse_step
from dpone_contract.window_tokens import find_tokens

MAX_CHUNKS_LIMIT = 1_000_000
MAX_CHUNKS_DEFAULT = 10_000

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")
_INTEGER = re.compile(r"[+-]?[0-9]+")


class ChunkKind(StrEnum):
    """How a window is cut."""

    DATE = "date"
    TIMESTAMP = "timestamp"
    INTEGER = "integer"
    UUID = "uuid"


class NullPolicy(StrEnum):
    """What becomes of rows whose chunk column is NULL."""

    FAIL = "fail"
    INCLUDE = "include"
    IGNORE = "ignore"


class ChunkOptions(FrozenModel):
    """The authored `backfill.chunk` block."""

    column: str = Field(min_length=1, description="Column of source and target that the window is cut along.")
    kind: ChunkKind | None = Field(default=None, description="Inferred from `from` where it is left out.")
    from_: str | int | None = Field(default=None, alias="from", description="First bound, inclusive.")
    to: str | int | None = Field(default=None, description="Last bound; inclusive for dates and integers.")
    step: str | int | None = Field(default=None, description="Nh, Nd, Nw, Nmo, Ny, or an integer.")
    timezone: str = Field(default="UTC", description="IANA zone of date and timestamp bounds.")
    nulls: NullPolicy = Field(default=NullPolicy.FAIL, description="Rows whose chunk column is NULL.")
    boundaries: tuple[str | int, ...] | None = Field(default=None, description="Explicit ascending bounds.")
    buckets: int | None = Field(default=None, description="Number of ranges of a uuid keyspace.")

    @property
    def templated(self) -> bool:
        """Whether the window takes its bounds from an interval.

        Errors: PlanInvalidError for an unknown token.
        """
        texts = (str(bound) for bound in (self.from_, self.to) if bound is not None)
        # A list, since both bounds are to be read: a bad token in the second is an error too.
        return any([find_tokens(text) for text in texts])  # noqa: C419


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
    def end(self) -> date:
        """The first day after the window."""
        return self.last + timedelta(days=1)

    def count(self) -> int:
        """Give the number of chunks, by arithmetic."""
        return count_date_bounds(self.first, self.end, self.step)

    def bound(self, index: int) -> str:
        """Give bound `index` (from zero) as the text that identities and predicates are made of."""
        try:
            found = date_bound(self.first, self.step, index)
        except OverflowError:
            return self.end.isoformat()
        return min(found, self.end).isoformat()

    def to_document(self) -> dict[str, object]:
        """Give the plain values that name this window in a run key."""
        return {
            "column": self.column,
            "kind": self.kind.value,
            "from": self.first.isoformat(),
            "to": self.last.isoformat(),
            "step": str(self.step),
            "timezone": self.timezone,
            "nulls": self.nulls.value,
        }


ChunkSpec = DateChunks
"""The union of all kinds; the seam where timestamp, integer and uuid windows join."""


def infer_kind(options: ChunkOptions) -> ChunkKind:
    """Give the authored kind, else the kind that `from` looks like.

    Errors: PlanInvalidError when neither says.
    """
    if options.kind is not None:
        return options.kind
    if options.buckets is not None:
        return ChunkKind.UUID
    first = options.boundaries[0] if options.from_ is None and options.boundaries else options.from_
    if first is None:
        raise _missing_bound("from")
    if isinstance(first, int) or _INTEGER.fullmatch(first):
        return ChunkKind.INTEGER
    if _TIMESTAMP.match(first):
        return ChunkKind.TIMESTAMP
    if _DATE.fullmatch(first):
        return ChunkKind.DATE
    raise PlanInvalidError(
        f"chunk.from {first!r} is neither a date, a timestamp nor an integer",
        next_step='write a quoted ISO date such as "2013-01-31", or set chunk.kind',
    )


def chunk_spec_from_options(options: ChunkOptions, *, max_chunks: int = MAX_CHUNKS_DEFAULT) -> ChunkSpec:
    """Turn authored options without tokens into a specification whose number of chunks is within `max_chunks`.

    Errors: PlanInvalidError for an empty or reversed window, a bad zone, step or bound, too many chunks;
    NotSupportedError for a kind or rule that this release cannot plan.
    """
    kind = infer_kind(options)
    if kind is not ChunkKind.DATE:
        raise NotSupportedError(
            f"chunks of kind {kind.value} are not supported yet", next_step="use a date window (kind: date)"
        )
    for name in ("boundaries", "buckets"):
        if getattr(options, name) is not None:
            raise NotSupportedError(f"chunk.{name} is not supported yet", next_step="use from, to and step")
    if options.nulls is NullPolicy.INCLUDE:
        raise NotSupportedError(
            "chunk.nulls: include is not supported yet", next_step="use nulls: fail or nulls: ignore"
        )
    _require_zone(options.timezone)
    spec = DateChunks(
        column=options.column,
        first=_read_date(options.from_, "from"),
        last=_read_date(options.to, "to"),
        step=_read_date_step(options.step),
        timezone=options.timezone,
        nulls=options.nulls,
    )
    if spec.last < spec.first:
        raise PlanInvalidError(
            f"the window holds no chunk: it ends on {spec.last} before it begins on {spec.first}",
            next_step="put the earlier day into chunk.from; both days are included",
        )
    if spec.last == date.max:
        raise PlanInvalidError("chunk.to is the last day there is", next_step="use 9999-12-30 at the latest")
    _require_count(spec.count(), max_chunks)
    return spec


def _require_count(count: int, max_chunks: int) -> None:
    if count > max_chunks:
        raise PlanInvalidError(
            f"backfill would produce {count} chunks, above max_chunks {max_chunks}",
            next_step=f"increase chunk.step, or backfill.max_chunks (at most {MAX_CHUNKS_LIMIT})",
            chunks=count,
            max_chunks=max_chunks,
        )


def _require_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PlanInvalidError(
            f"chunk.timezone {name!r} is not an IANA time zone", next_step="for example UTC or Europe/Berlin"
        ) from error


def _missing_bound(name: str) -> PlanInvalidError:
    return PlanInvalidError(f"chunk.{name} is missing", next_step=f'add {name}: "YYYY-MM-DD"')


def _read_date(value: str | int | None, name: str) -> date:
    if value is None:
        raise _missing_bound(name)
    text = str(value)
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError as error:
        raise PlanInvalidError(
            f"chunk.{name} {text!r} is no day of the calendar: {error}", next_step="name a day that exists"
        ) from error
    if _TIMESTAMP.match(text):
        raise PlanInvalidError(
            f"chunk.{name} {text!r} is an instant, but the window's kind is date",
            next_step="use {{ ds }} or a date without a time; a date window includes its last day",
        )
    raise PlanInvalidError(f"chunk.{name} {text!r} is not a date", next_step='write "YYYY-MM-DD"')


def _read_date_step(value: str | int | None) -> Step:
    if value is None:
        raise PlanInvalidError("chunk.step is missing", next_step="add for example step: 1d")
    if isinstance(value, int):
        raise PlanInvalidError(
            f"step {value} needs a unit in a date window", next_step=f"write step: {max(1, value)}d"
        )
    step = parse_step(value)
    if step.days is None and step.months is None:
        raise PlanInvalidError(f"step {value} does not fit date chunks", next_step="use Nd, Nw, Nmo or Ny")
    return step
