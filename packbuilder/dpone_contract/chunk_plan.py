"""The plan of a campaign: numbered half-open chunks, made one at a time, and the hashes that name them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NewType

from dpone_contract.canonical import Fingerprint, canonical_json
from dpone_contract.chunk_kinds.labels import range_label, window_text
from dpone_contract.chunk_options import ChunkKind
from dpone_contract.chunk_spec import ChunkSpec, chunks_total
from dpone_contract.errors import PlanInvalidError

RunKey = NewType("RunKey", str)

NULL_BOUND = "NULL"
"""Stands in both bounds of the chunk of rows that have no value in the column; no bound of any kind reads so."""

_BACKFILL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One part of the window: `[lower, upper)`, or up to and with `upper` where `upper_inclusive`.

    `index` counts from one. Bounds are text in the one canonical form of their kind.
    """

    index: int
    lower: str
    upper: str
    upper_inclusive: bool
    idempotency_key: str

    @property
    def covers_null(self) -> bool:
        """Whether this is the chunk of rows that have no value in the column."""
        return self.lower == NULL_BOUND

    @property
    def window(self) -> str:
        """The range as it is shown."""
        if self.covers_null:
            return NULL_BOUND
        return window_text(self.lower, self.upper, upper_inclusive=self.upper_inclusive)


@dataclass(frozen=True)
class ChunkPlan:
    """All chunks of one campaign, computed on demand: memory does not grow with their number.

    The ranges come first, in order; the chunk of NULL, where it is wanted, is the last.
    """

    spec: ChunkSpec
    run_key: RunKey
    chunks_total: int
    ranges_total: int

    def chunk(self, index: int) -> Chunk:
        """Give chunk `index`, counted from one.

        Errors: PlanInvalidError when the plan has no such chunk.
        """
        if not 1 <= index <= self.chunks_total:
            raise PlanInvalidError(
                f"chunk {index} is not in the plan", next_step=f"use 1..{self.chunks_total}"
            )
        return next(self.chunks(index, index))

    def chunks(self, first: int = 1, last: int | None = None) -> Iterator[Chunk]:
        """Give the chunks `first` to `last` in order, both inclusive.

        Errors: PlanInvalidError for a chunk that can hold nothing.
        """
        last = self.chunks_total if last is None else last
        spec, key, last_range = self.spec, self.run_key, min(last, self.ranges_total)
        if first <= last_range:
            lower = spec.bound(first - 1)
            for index in range(first, last_range):
                upper = spec.bound(index)
                yield _chunk(key, index, lower, upper, False)
                lower = upper
            at_end = spec.last_inclusive and last_range == self.ranges_total
            yield _chunk(key, last_range, lower, spec.bound(last_range), at_end)
        if last > self.ranges_total:
            yield _chunk(key, last, NULL_BOUND, NULL_BOUND, True)

    @property
    def lower(self) -> str:
        """The first bound of the whole window."""
        return self.spec.bound(0)

    @property
    def upper(self) -> str:
        """The last bound of the whole window."""
        return self.spec.bound(self.ranges_total)

    @property
    def window(self) -> str:
        """The whole window as it is shown."""
        found = window_text(self.lower, self.upper, upper_inclusive=self.spec.last_inclusive)
        return found if self.ranges_total == self.chunks_total else f"{found} and {NULL_BOUND}"

    @property
    def end(self) -> str:
        """The first value after the window; of uuids, which may end with the last there is, that one."""
        if self.spec.kind is ChunkKind.INTEGER and self.spec.last_inclusive:
            return str(int(self.upper) + 1)
        return self.upper

    def label(self, first: int, last: int) -> str:
        """Name a range of chunks for a person, in less than 250 characters."""
        if first > self.ranges_total:
            return NULL_BOUND
        last_range = min(last, self.ranges_total)
        found = range_label(
            self.spec.kind,
            self.spec.bound(first - 1),
            self.spec.bound(last_range),
            upper_inclusive=self.spec.last_inclusive and last_range == self.ranges_total,
        )
        return found if last == last_range else f"{found} and {NULL_BOUND}"


def plan_chunks(spec: ChunkSpec, run_key: RunKey) -> ChunkPlan:
    """Plan a window. Nothing is generated until a chunk is asked for.

    Source: the design, chunks (lazy planning).
    """
    return ChunkPlan(spec, run_key, chunks_total(spec), spec.count())


def plan_hash(plan: ChunkPlan) -> Fingerprint:
    """Hash every chunk in order, one canonical JSON line a chunk, in constant memory.

    Source: the design, identities. The line's bytes are those of `canonical_json`; a property test says so.
    """
    digest = hashlib.sha256()
    for chunk in plan.chunks():
        digest.update(plan_line(chunk))
    return Fingerprint("sha256:" + digest.hexdigest())


def plan_line(chunk: Chunk) -> bytes:
    """Give the line that stands for a chunk in the plan hash. Bounds and keys hold nothing that JSON would escape."""
    inclusive = "true" if chunk.upper_inclusive else "false"
    return (
        f'{{"idempotency_key":"{chunk.idempotency_key}","index":{chunk.index},"lower":"{chunk.lower}",'
        f'"upper":"{chunk.upper}","upper_inclusive":{inclusive}}}\n'
    ).encode()


def backfill_run_key(
    dataset: str, spec: ChunkSpec, inner_mode: str, backfill_id: str | None = None
) -> RunKey:
    """Name a campaign: the authored `backfill_id`, else a digest of dataset (`schema.table`), window and inner mode.

    Errors: PlanInvalidError for a `backfill_id` that cannot name a file and a row.
    """
    if backfill_id is not None:
        if not _BACKFILL_ID.fullmatch(backfill_id):
            raise PlanInvalidError(
                f"backfill_id {backfill_id!r} cannot be used as a name",
                next_step="use 1..128 letters, digits, dots, dashes and underscores, a letter or digit first",
            )
        return RunKey(backfill_id)
    named = canonical_json({"dataset": dataset, "chunk": spec.to_document(), "inner_mode": inner_mode})
    readable = re.sub(r"[^a-z0-9]+", "_", dataset.lower()).strip("_")[:48] or "backfill"
    return RunKey(f"{readable}-{hashlib.sha256(named).hexdigest()[:24]}")


def _chunk(run_key: RunKey, index: int, lower: str, upper: str, upper_inclusive: bool) -> Chunk:
    if lower == upper and not upper_inclusive:
        raise PlanInvalidError(
            f"chunk {index} would be empty: the time zone leaves out the day that begins at {lower}",
            next_step="use a larger step, chunk.boundaries, or another chunk.timezone",
        )
    inclusive = "true" if upper_inclusive else "false"
    named = f'{{"index":{index},"lower":"{lower}","run_key":"{run_key}","upper":"{upper}","upper_inclusive":{inclusive}}}'
    return Chunk(index, lower, upper, upper_inclusive, "sha256:" + hashlib.sha256(named.encode()).hexdigest())
