"""The one function that says which rows a chunk covers; extraction, slice replacement and verification all use it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from zoneinfo import ZoneInfo

from psycopg import sql

from dpone_contract.chunk_plan import Chunk
from dpone_contract.errors import ColumnsDifferError
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.identifiers import quoted, quoted_table
from dpone_runtime.ports.connectors import Column

_WALL_CLOCK = "timestamp without time zone"
_INSTANT = "timestamp with time zone"


@dataclass(frozen=True)
class ChunkedTable:
    """One end of a load: the table, the columns in the order of the copy, and how it is cut into chunks."""

    table: TableName
    columns: tuple[str, ...]
    chunk_column: Column
    timezone: str

    @property
    def name(self) -> str:
        """The table's quoted name."""
        return quoted_table(self.table)

    @property
    def column_list(self) -> str:
        """The quoted columns."""
        return ", ".join(map(quoted, self.columns))

    def predicate(self, chunk: Chunk) -> str:
        """Say in SQL which rows a chunk covers."""
        return chunk_predicate(self.chunk_column, self.timezone, chunk)


def chunk_predicate(column: Column, timezone: str, chunk: Chunk) -> str:
    """Give `column >= lower AND column < upper` with the bounds as typed literals of the column's kind.

    A date column compares days; a column without a zone compares wall clocks; a column with one compares instants,
    midnight being taken in `timezone`. The session's time zone never matters.

    Errors: ColumnsDifferError for a column that days cannot be compared with.
    Source: the design, chunks.
    """
    lower, upper = (
        _literal(column, timezone, date.fromisoformat(text)) for text in (chunk.lower, chunk.upper)
    )
    name = sql.Identifier(column.name).as_string(None)
    below = "<=" if chunk.upper_inclusive else "<"
    return f"{name} >= {lower} AND {name} {below} {upper}"


def require_chunk_column(column: Column | None, table: str, name: str) -> Column:
    """Require that a table has a column that date chunks can be cut along.

    Errors: ColumnsDifferError naming column and type.
    """
    if column is None:
        raise ColumnsDifferError(
            f"table {table} has no column {name!r}, which the chunks are cut along",
            next_step="mend chunk.column; case matters",
        )
    _literal(column, "UTC", date(2000, 1, 1))
    return column


def _literal(column: Column, timezone: str, day: date) -> str:
    base = _without_precision(column.type)
    if base == "date":
        return f"{sql.Literal(day.isoformat()).as_string(None)}::date"
    if base == _WALL_CLOCK:
        return f"{sql.Literal(f'{day.isoformat()} 00:00:00').as_string(None)}::timestamp"
    if base == _INSTANT:
        midnight = datetime.combine(day, time(), ZoneInfo(timezone))
        return f"{sql.Literal(midnight.isoformat(sep=' ')).as_string(None)}::timestamptz"
    raise ColumnsDifferError(
        f"column {column.name} has type {column.type}, which a date window cannot be compared with",
        next_step="cut the chunks along a column of type date, timestamp or timestamptz",
    )


def _without_precision(type_name: str) -> str:
    head, _, rest = type_name.partition("(")
    return (head.strip() + rest.partition(")")[2]).strip()
