"""From authored options without tokens to the window that a plan is made of."""

from __future__ import annotations

from typing import Protocol, assert_never

from dpone_contract.chunk_kinds.boundaries import build_boundary_chunks
from dpone_contract.chunk_kinds.dates import build_date_chunks
from dpone_contract.chunk_kinds.integers import build_integer_chunks
from dpone_contract.chunk_kinds.local_time import require_zone
from dpone_contract.chunk_kinds.timestamps import build_timestamp_chunks
from dpone_contract.chunk_kinds.uuids import build_uuid_chunks
from dpone_contract.chunk_options import (
    MAX_CHUNKS_DEFAULT,
    MAX_CHUNKS_LIMIT,
    ChunkKind,
    ChunkOptions,
    NullPolicy,
    infer_kind,
)
from dpone_contract.errors import PlanInvalidError


class ChunkSpec(Protocol):
    """A window of one kind: plain values that name it, and bounds that follow from them."""

    @property
    def column(self) -> str:
        """The column that it is cut along."""

    @property
    def kind(self) -> ChunkKind:
        """How its bounds are read."""

    @property
    def timezone(self) -> str:
        """The zone whose wall clock dates and timestamps are read on."""

    @property
    def nulls(self) -> NullPolicy:
        """What becomes of rows without a value in the column."""

    @property
    def cut(self) -> str:
        """What cuts it, for people: a step, buckets or boundaries."""

    @property
    def last_inclusive(self) -> bool:
        """Whether the last bound is part of the window, since nothing comes after it."""

    def count(self) -> int:
        """Give the number of ranges, by arithmetic."""

    def bound(self, index: int) -> str:
        """Give bound `index`, from 0 to `count()`, as the text that identities and predicates are made of."""

    def to_document(self) -> dict[str, object]:
        """Give the plain values that name this window in a run key."""


def chunk_spec_from_options(options: ChunkOptions, *, max_chunks: int = MAX_CHUNKS_DEFAULT) -> ChunkSpec:
    """Turn authored options without tokens into a specification whose number of chunks is within `max_chunks`.

    Errors: PlanInvalidError for an empty or reversed window, a bad zone, step or bound, too many chunks.
    """
    kind = infer_kind(options)
    require_zone(options.timezone)
    spec = _build(kind, options)
    _require_count(chunks_total(spec), max_chunks, options)
    return spec


def chunks_total(spec: ChunkSpec) -> int:
    """Count a window's chunks, that of NULL among them."""
    return spec.count() + (spec.nulls is NullPolicy.INCLUDE)


def _build(kind: ChunkKind, options: ChunkOptions) -> ChunkSpec:
    if options.boundaries is not None:
        return build_boundary_chunks(kind, options)
    match kind:
        case ChunkKind.DATE:
            return build_date_chunks(options)
        case ChunkKind.TIMESTAMP:
            return build_timestamp_chunks(options)
        case ChunkKind.INTEGER:
            return build_integer_chunks(options)
        case ChunkKind.UUID:
            return build_uuid_chunks(options)
        case _:
            assert_never(kind)


def _require_count(count: int, max_chunks: int, options: ChunkOptions) -> None:
    if count > max_chunks:
        way_out = "increase chunk.step"
        if options.step is None:
            way_out = "write fewer chunk.boundaries" if options.boundaries else "use fewer chunk.buckets"
        raise PlanInvalidError(
            f"backfill would produce {count} chunks, above max_chunks {max_chunks}",
            next_step=f"{way_out}, or increase backfill.max_chunks (at most {MAX_CHUNKS_LIMIT})",
            chunks=count,
            max_chunks=max_chunks,
        )
