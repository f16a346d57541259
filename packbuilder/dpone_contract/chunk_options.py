"""The authored `backfill.chunk` block, and the kind of window that it asks for."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from dpone_contract.errors import PlanInvalidError
from dpone_contract.frozen import FrozenModel
from dpone_contract.window_tokens import find_tokens

MAX_CHUNKS_LIMIT = 1_000_000
MAX_CHUNKS_DEFAULT = 10_000

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def _one_form(value: str | int) -> str | int:
    """Give a number in one form, so that a quoted one is no other: as text only where canonical JSON cannot hold it."""
    if isinstance(value, str) and not _PLAIN_INTEGER.fullmatch(value):
        return value
    return int(value) if abs(int(value)) < 2**53 else str(value)


Bound = Annotated[str | int, AfterValidator(_one_form)]


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
    from_: Bound | None = Field(default=None, alias="from", description="First bound, inclusive.")
    to: Bound | None = Field(default=None, description="Last bound; inclusive for dates and integers.")
    step: Bound | None = Field(default=None, description="Nh, Nd, Nw, Nmo, Ny, or an integer.")
    timezone: str = Field(default="UTC", description="IANA zone of date and timestamp bounds.")
    nulls: NullPolicy = Field(default=NullPolicy.FAIL, description="Rows whose chunk column is NULL.")
    boundaries: tuple[Bound, ...] | None = Field(default=None, description="Explicit ascending bounds.")
    buckets: int | None = Field(default=None, description="Number of ranges of a uuid keyspace.")

    @property
    def templated(self) -> bool:
        """Whether the window takes its bounds from an interval.

        Errors: PlanInvalidError for an unknown token.
        """
        texts = (str(bound) for bound in (self.from_, self.to) if bound is not None)
        # A list, since both bounds are to be read: a bad token in the second is an error too.
        return any([find_tokens(text) for text in texts])  # noqa: C419


def infer_kind(options: ChunkOptions) -> ChunkKind:
    """Give the authored kind, else the kind that `from`, or the first of `boundaries`, looks like.

    Errors: PlanInvalidError when neither says.
    """
    if options.kind is not None:
        return options.kind
    if options.buckets is not None:
        return ChunkKind.UUID
    name, first = "from", options.from_
    if first is None and options.boundaries:
        name, first = "boundaries", options.boundaries[0]
    if first is None:
        raise PlanInvalidError("chunk.from is missing", next_step='add from: "YYYY-MM-DD"')
    if isinstance(first, int) or _INTEGER.fullmatch(first):
        return ChunkKind.INTEGER
    if _TIMESTAMP.match(first):
        return ChunkKind.TIMESTAMP
    if _DATE.fullmatch(first):
        return ChunkKind.DATE
    if name == "boundaries" and _UUID.fullmatch(first):
        return ChunkKind.UUID
    raise PlanInvalidError(
        f"chunk.{name} {first!r} is neither a date, a timestamp nor an integer",
        next_step='write a quoted ISO date such as "2013-01-31", or set chunk.kind',
    )


def refuse_keys(options: ChunkOptions, names: tuple[str, ...], why: str, next_step: str) -> None:
    """Require that none of these keys is authored; `from_` is told as `from`.

    Errors: PlanInvalidError naming the first of them.
    """
    for name in names:
        if getattr(options, name) is not None:
            raise PlanInvalidError(f"chunk.{name.rstrip('_')} {why}", next_step=next_step)


def refuse_zone(options: ChunkOptions, kind: ChunkKind) -> None:
    """Require that no time zone is named where there is no time.

    Errors: PlanInvalidError.
    """
    if options.timezone != "UTC":
        raise PlanInvalidError(
            f"chunk.timezone does not fit chunks of kind {kind.value}", next_step="remove chunk.timezone"
        )
