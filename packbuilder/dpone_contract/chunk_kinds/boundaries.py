"""Windows whose bounds are all written down: how an uneven spread of rows is handled without looking at them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from dpone_contract.chunk_kinds.dates import read_day
from dpone_contract.chunk_kinds.integers import FIRST_BIGINT, LAST_BIGINT, read_integer
from dpone_contract.chunk_kinds.local_time import instant_text, parse_moment, read_instant, require_zone
from dpone_contract.chunk_kinds.timestamps import require_alike
from dpone_contract.chunk_kinds.uuids import LAST_UUID, read_uuid
from dpone_contract.chunk_options import ChunkKind, ChunkOptions, NullPolicy, refuse_keys, refuse_zone
from dpone_contract.errors import PlanInvalidError

_NAME = "boundaries"


@dataclass(frozen=True)
class BoundaryChunks:
    """A window cut at authored bounds, in the canonical form of its kind, ascending; the last is where the window ends."""

    column: str
    kind: ChunkKind
    bounds: tuple[str, ...]
    last_inclusive: bool
    timezone: str = "UTC"
    nulls: NullPolicy = NullPolicy.FAIL

    @property
    def cut(self) -> str:
        return "boundaries"

    def count(self) -> int:
        return len(self.bounds) - 1

    def bound(self, index: int) -> str:
        return self.bounds[index]

    def to_document(self) -> dict[str, object]:
        return {
            "column": self.column,
            "kind": self.kind.value,
            "boundaries": list(self.bounds),
            "last_inclusive": self.last_inclusive,
            "timezone": self.timezone,
            "nulls": self.nulls.value,
        }


def build_boundary_chunks(kind: ChunkKind, options: ChunkOptions) -> BoundaryChunks:
    """Read at least two ascending bounds of one kind. The last one is not included, unless it is the greatest there is.

    Errors: PlanInvalidError.
    """
    refuse_keys(
        options,
        ("from_", "to", "step", "buckets"),
        "does not go together with chunk.boundaries",
        "keep one of the two",
    )
    values = options.boundaries or ()
    if len(values) < 2:
        raise PlanInvalidError(
            "chunk.boundaries need at least two bounds", next_step="name where the window begins and ends"
        )
    if any("{{" in str(value) for value in values):
        raise PlanInvalidError(
            "chunk.boundaries hold a token", next_step="tokens stand in chunk.from and chunk.to only"
        )
    texts, order, last_inclusive = _read_bounds(kind, values, options)
    for earlier, later in pairwise(range(len(values))):
        if not order[earlier] < order[later]:  # type: ignore[operator]  # all of one type
            raise PlanInvalidError(
                f"chunk.boundaries must ascend, but {values[later]} follows {values[earlier]}",
                next_step="order them, each once",
            )
    return BoundaryChunks(options.column, kind, texts, last_inclusive, options.timezone, options.nulls)


def _read_bounds(
    kind: ChunkKind, values: tuple[str | int, ...], options: ChunkOptions
) -> tuple[tuple[str, ...], tuple[object, ...], bool]:
    """Give the bounds as canonical texts, as values that compare, and whether the last one is included."""
    match kind:
        case ChunkKind.DATE:
            days = tuple(read_day(value, _NAME) for value in values)
            return tuple(map(str, days)), days, False
        case ChunkKind.TIMESTAMP:
            moments = [parse_moment(value, _NAME) for value in values]
            require_alike(moments, _NAME)
            zone = require_zone(options.timezone)
            instants = tuple(read_instant(moment, zone, _NAME) for moment in moments)
            return tuple(instant_text(instant, zone) for instant in instants), instants, False
        case ChunkKind.INTEGER:
            refuse_zone(options, kind)
            return _integers(tuple(read_integer(value, _NAME) for value in values))
        case ChunkKind.UUID:
            refuse_zone(options, kind)
            uuids = tuple(read_uuid(value, _NAME) for value in values)
            return uuids, uuids, uuids[-1] == LAST_UUID
        case _:
            assert_never(kind)


def _integers(numbers: tuple[int, ...]) -> tuple[tuple[str, ...], tuple[object, ...], bool]:
    """The bound after the last bigint may end a window; as text it is that bigint, included."""
    whole = numbers[-1] == LAST_BIGINT + 1
    for number in numbers[:-1] if whole else numbers:
        if not FIRST_BIGINT <= number <= LAST_BIGINT:
            raise PlanInvalidError(
                f"chunk.boundaries: {number} is beyond the range of a bigint",
                next_step=f"use {FIRST_BIGINT}..{LAST_BIGINT}; {LAST_BIGINT + 1} may end the window",
            )
    return tuple(str(min(number, LAST_BIGINT)) for number in numbers), numbers, whole
