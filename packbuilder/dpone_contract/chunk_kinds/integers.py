"""Windows of whole numbers, cut by a whole number; they reach over the whole range of a bigint."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpone_contract.chunk_options import ChunkKind, ChunkOptions, NullPolicy, refuse_keys, refuse_zone
from dpone_contract.errors import PlanInvalidError

FIRST_BIGINT = -(2**63)
LAST_BIGINT = 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_EXAMPLE = "write a whole number, for example 1000"


@dataclass(frozen=True)
class IntegerChunks:
    """A window of whole numbers, `first` and `last` both inclusive, cut from `first` on.

    Bounds are half open: `last` 99 gives the bound 100. The last bigint has no successor: there the bound is itself, and
    included.
    """

    column: str
    first: int
    last: int
    step: int
    nulls: NullPolicy = NullPolicy.FAIL
    timezone: str = "UTC"

    @property
    def kind(self) -> ChunkKind:
        return ChunkKind.INTEGER

    @property
    def cut(self) -> str:
        return str(self.step)

    @property
    def last_inclusive(self) -> bool:
        return self.last == LAST_BIGINT

    def count(self) -> int:
        return -(-(self.last + 1 - self.first) // self.step)

    def bound(self, index: int) -> str:
        return str(min(self.first + index * self.step, self.last + 1, LAST_BIGINT))

    def to_document(self) -> dict[str, object]:
        return {
            "column": self.column,
            "kind": self.kind.value,
            # As text: canonical JSON holds no integer beyond 2^53.
            "from": str(self.first),
            "to": str(self.last),
            "step": str(self.step),
            "nulls": self.nulls.value,
        }


def build_integer_chunks(options: ChunkOptions) -> IntegerChunks:
    """Read a window of whole numbers.

    Errors: PlanInvalidError.
    """
    refuse_keys(options, ("buckets",), "belongs to chunks of kind uuid", "remove chunk.buckets")
    refuse_zone(options, ChunkKind.INTEGER)
    spec = IntegerChunks(
        column=options.column,
        first=read_bigint(options.from_, "from"),
        last=read_bigint(options.to, "to"),
        step=_read_step(options.step),
        nulls=options.nulls,
    )
    if spec.last < spec.first:
        raise PlanInvalidError(
            f"the window holds no chunk: it ends with {spec.last} before it begins with {spec.first}",
            next_step="put the smaller number into chunk.from; both numbers are included",
        )
    return spec


def read_integer(value: str | int | None, name: str) -> int:
    """Read a whole number of any size.

    Errors: PlanInvalidError.
    """
    if value is None:
        raise PlanInvalidError(f"chunk.{name} is missing", next_step=_EXAMPLE)
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise PlanInvalidError(
            f"chunk.{name} {value!r} is not a whole number, but the window's kind is integer",
            next_step=f"{_EXAMPLE}, or set chunk.kind",
        )
    return int(value)


def read_bigint(value: str | int | None, name: str) -> int:
    """Read a whole number that a bigint can hold.

    Errors: PlanInvalidError.
    """
    number = read_integer(value, name)
    if not FIRST_BIGINT <= number <= LAST_BIGINT:
        raise PlanInvalidError(
            f"chunk.{name} {value} is beyond the range of a bigint",
            next_step=f"use {FIRST_BIGINT}..{LAST_BIGINT}",
        )
    return number


def _read_step(value: str | int | None) -> int:
    if value is None:
        raise PlanInvalidError("chunk.step is missing", next_step="add for example step: 1000")
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise PlanInvalidError(
            f"step {value!r} does not fit integer chunks", next_step="write a whole number without a unit"
        )
    if int(value) < 1:
        raise PlanInvalidError(f"step {value} never ends", next_step="use a step of at least 1")
    return int(value)
