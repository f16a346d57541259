"""The one function that says which rows a chunk covers; extraction, slice replacement and verification all use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import assert_never
from zoneinfo import ZoneInfo

from psycopg import sql

from dpone_contract.chunk_kinds.local_time import wall_clock
from dpone_contract.chunk_kinds.timestamps import instant_from_text
from dpone_contract.chunk_options import ChunkKind, NullPolicy
from dpone_contract.chunk_plan import Chunk, ChunkPlan
from dpone_contract.errors import ColumnsDifferError, located
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.copy_format import CopyFormat
from dpone_runtime.adapters.postgres.identifiers import quoted, quoted_table
from dpone_runtime.domain.campaign import Window
from dpone_runtime.ports.connectors import Column

_WALL_CLOCK = "timestamp without time zone"
_INSTANT = "timestamp with time zone"
_LOOKED_AT = 100
_FITTING = {
    ChunkKind.DATE: "date, timestamp or timestamptz",
    ChunkKind.TIMESTAMP: "timestamp, timestamptz or date",
    ChunkKind.INTEGER: "smallint, integer, bigint or numeric",
    ChunkKind.UUID: "uuid",
}


@dataclass(frozen=True)
class ChunkedTable:
    """One end of a load: the table, the columns in the order of the copy, and how it is cut into chunks."""

    table: TableName
    columns: tuple[str, ...]
    chunk_column: Column
    kind: ChunkKind
    timezone: str
    casts: Mapping[str, str] = field(default_factory=dict)
    """What the SELECT of a source casts columns to, so that its COPY writes the target's types."""
    where: str | None = None
    """Which rows of a source are loaded; a target's slice is deleted whole."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The target's types of a source's columns, where they are not the source's own."""
    format: CopyFormat = CopyFormat.BINARY
    """How rows travel, on both sides alike."""

    @property
    def name(self) -> str:
        """The table's quoted name."""
        return quoted_table(self.table)

    @property
    def column_list(self) -> str:
        """The quoted columns."""
        return ", ".join(map(quoted, self.columns))

    @property
    def select_list(self) -> str:
        """The quoted columns with their casts."""
        return ", ".join(
            f"{quoted(name)}::{self.casts[name]}" if name in self.casts else quoted(name)
            for name in self.columns
        )

    def compared(self, name: str, alias: str = "") -> str:
        """Give a column's value as the target holds it; `alias` names the table where there are several."""
        value = f"{alias}.{quoted(name)}" if alias else quoted(name)
        for casts in (self.casts, self.types):
            if name in casts:
                # In brackets: what follows a cast, AT TIME ZONE for one, belongs to it.
                value = f"({value}::{casts[name]})"
        return value

    def predicate(self, chunk: Chunk) -> str:
        """Say in SQL which rows a chunk covers."""
        return chunk_predicate(self.chunk_column, self.kind, self.timezone, chunk)


def chunk_predicate(column: Column, kind: ChunkKind, timezone: str, chunk: Chunk) -> str:
    """Give `column >= lower AND column < upper` with the bounds as typed literals, or `column IS NULL`.

    Days and instants are compared with a column that has a zone as instants, and with one that has none as wall clocks of
    `timezone`; numbers and uuids as themselves. Neither the session's time zone nor its DateStyle matters.

    Errors: ColumnsDifferError for a column that the chunk's bounds cannot be compared with.
    Source: the design, chunks.
    """
    name = sql.Identifier(column.name).as_string(None)
    if chunk.covers_null:
        return f"{name} IS NULL"
    lower, upper = (_literal(column, kind, timezone, text) for text in (chunk.lower, chunk.upper))
    below = "<=" if chunk.upper_inclusive else "<"
    return f"{name} >= {lower} AND {name} {below} {upper}"


def uncovered_predicates(column: Column, plan: ChunkPlan) -> tuple[str, str, str]:
    """Say in SQL which rows no chunk of a plan covers: without a value, below the first bound, above the last.

    Errors: as `chunk_predicate`.
    """
    spec, name = plan.spec, sql.Identifier(column.name).as_string(None)
    lower, end = (_literal(column, spec.kind, spec.timezone, text) for text in (plan.lower, plan.end))
    above = ">" if plan.chunk(plan.ranges_total).upper_inclusive else ">="
    null = "false" if spec.nulls is NullPolicy.INCLUDE else f"{name} IS NULL"
    return null, f"{name} < {lower}", f"{name} {above} {end}"


def require_chunk_column(column: Column | None, table: str, plan: ChunkPlan) -> Column:
    """Require that a table has a column that a plan's bounds can be compared with.

    Errors: ColumnsDifferError naming column and type.
    """
    spec = plan.spec
    if column is None:
        raise ColumnsDifferError(
            f"table {table} has no column {spec.column!r}, which the chunks are cut along",
            where=f"sink.strategy.backfill.chunk.column, table {table}",
            next_step="mend chunk.column; case matters",
        )
    # A few bounds stand for all: a step in hours soon leaves midnight, one in days never does.
    with located(f"column {column.name} of table {table}"):
        for index in {*range(min(_LOOKED_AT, plan.ranges_total)), plan.ranges_total}:
            _literal(column, spec.kind, spec.timezone, spec.bound(index))
    return column


def covered_window(column: Column, plan: ChunkPlan) -> Window:
    """Give the slice of a table that a plan writes, as overlaps are found by it.

    Days along a column with a zone are instants there: the days of two zones are not the same. Rows without a value may be
    anybody's.
    """
    spec, lower, end, kind = plan.spec, plan.lower, plan.end, plan.spec.kind
    if kind is ChunkKind.DATE and _without_precision(column.type) == _INSTANT:
        kind = ChunkKind.TIMESTAMP
        lower, end = (
            datetime.combine(date.fromisoformat(day), time(), ZoneInfo(spec.timezone)).isoformat()
            for day in (lower, end)
        )
    return Window(spec.column, kind.value, lower, end, everything=spec.nulls is NullPolicy.INCLUDE)


def _literal(column: Column, kind: ChunkKind, timezone: str, text: str) -> str:
    match kind:
        case ChunkKind.DATE:
            found = _day_literal(column, timezone, date.fromisoformat(text))
        case ChunkKind.TIMESTAMP:
            found = _instant_literal(column, timezone, text)
        case ChunkKind.INTEGER:
            found = _integer_literal(column, text)
        case ChunkKind.UUID:
            found = _typed(text, "uuid") if column.type == "uuid" else None
        case _:
            assert_never(kind)
    if found is None:
        raise ColumnsDifferError(
            f"column {column.name} has type {column.type}, which a window of kind {kind.value} cannot be compared with",
            next_step=f"cut the chunks along a column of type {_FITTING[kind]}, or set chunk.kind",
        )
    return found


def _day_literal(column: Column, timezone: str, day: date) -> str | None:
    base = _without_precision(column.type)
    if base == "date":
        return _typed(day.isoformat(), "date")
    if base == _WALL_CLOCK:
        return _typed(f"{day.isoformat()} 00:00:00", "timestamp")
    if base == _INSTANT:
        return _typed(datetime.combine(day, time(), ZoneInfo(timezone)).isoformat(sep=" "), "timestamptz")
    return None


def _instant_literal(column: Column, timezone: str, text: str) -> str | None:
    base = _without_precision(column.type)
    if base == _INSTANT:
        return _typed(text.replace("T", " "), "timestamptz")
    if base not in (_WALL_CLOCK, "date"):
        return None
    local = wall_clock(instant_from_text(text), ZoneInfo(timezone))
    if base == _WALL_CLOCK:
        return _typed(local.isoformat(sep=" "), "timestamp")
    if local.time() != time():
        raise ColumnsDifferError(
            f"column {column.name} has type date, but the bound {text} is not midnight in {timezone}",
            next_step="set chunk.timezone to the zone in which days begin, and use a step of days or more",
        )
    return _typed(local.date().isoformat(), "date")


def _integer_literal(column: Column, text: str) -> str | None:
    base = _without_precision(column.type)
    if base == "numeric":
        return _typed(text, "numeric")
    # Of bigint whatever the column has: indexes of the narrower types serve it, and no bound overflows them.
    return _typed(text, "bigint") if base in ("smallint", "integer", "bigint") else None


def _typed(text: str, type_name: str) -> str:
    return f"{sql.Literal(text).as_string(None)}::{type_name}"


def _without_precision(type_name: str) -> str:
    head, _, rest = type_name.partition("(")
    return (head.strip() + rest.partition(")")[2]).strip()
