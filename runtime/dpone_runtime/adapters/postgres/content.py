"""The content of a slice as its server knows it: how many rows, and one digest of them all that does not depend on their order.

A row's digest is the SHA-256 of its text; a slice's is the sum of those, so that a row which stands there twice is not one that
stands there once. Values become text under settings that are the same on both sides, and a source's columns as the types of the
target, so that equal rows have equal text on any two servers.
"""

from __future__ import annotations

from dpone_runtime.adapters.postgres.batches import run_batch, settings_statement
from dpone_runtime.adapters.postgres.connect import PgConnection
from dpone_runtime.adapters.postgres.copy_format import TEXT_SETTINGS
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.ports.connectors import SliceContent


def pinned_settings(timezone: str) -> dict[str, str]:
    """Give what says how a value is written as text: instants too, whose text has the offset of a zone.

    Source: decision 11.
    """
    return {**TEXT_SETTINGS, "timezone": timezone}


_SAVEPOINT = "dpone_content"
_HALF = 2**64


def row_text(chunked: ChunkedTable, alias: str = "") -> str:
    """Give the text of one row as a SQL expression; `alias` names the table where there are several."""
    return f"ROW({', '.join(chunked.compared(name, alias) for name in chunked.columns)})::text"


def content_query(table: str, text: str, where: str | None) -> str:
    """Give the query of a content: its rows, and both halves of its digest.

    The rows of `table` are those that `where` lets through; `text` is the expression of one row.
    """
    rows = f"SELECT encode(sha256(convert_to({text}, 'UTF8')), 'hex') AS digest FROM {table}"
    # Without OFFSET the inner query would be pulled up, and every digest computed twice.
    rows += f" WHERE {where} OFFSET 0" if where else " OFFSET 0"
    halves = (f"coalesce(sum(('x' || substr(digest, {start}, 16))::bit(64)::bigint), 0)" for start in (1, 17))
    return f"SELECT count(*), {', '.join(halves)} FROM ({rows}) slice"


def count_query(table: str, where: str | None) -> str:
    """Give the query of a content without its digest."""
    return f"SELECT count(*) FROM {table}" + (f" WHERE {where}" if where else "")


def read_content(connection: PgConnection, query: str, timezone: str) -> SliceContent:
    """Run a content's query inside the current transaction, whose own settings stay as they are; text is of a zone.

    Errors: psycopg.Error as the server gives it.
    """
    batch = run_batch(
        connection,
        (
            _statement(f"SAVEPOINT {_SAVEPOINT}"),
            settings_statement(pinned_settings(timezone)),
            _statement(query),
            _statement(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}"),
            _statement(f"RELEASE SAVEPOINT {_SAVEPOINT}"),
        ),
    )
    return content_of_row(batch[2].fetchone())


def content_of_row(row: object) -> SliceContent:
    """Read the answer to either query."""
    if not isinstance(row, tuple) or not row:
        return SliceContent(0)
    if len(row) == 1:
        return SliceContent(int(row[0]))
    high, low = (int(half) % _HALF for half in row[1:])
    return SliceContent(int(row[0]), f"{high << 64 | low:032x}")


def _statement(text: str) -> Statement:
    return Statement("content", text.replace("%", "%%"), {})
