"""The one place that quotes names for PostgreSQL, and text for its DDL."""

from __future__ import annotations

from psycopg import sql

from dpone_contract.errors import ManifestInvalidError
from dpone_contract.manifest import TableName

LONGEST_NAME_BYTES = 63


def quoted(*names: str) -> str:
    """Quote a name, or a qualified one, so that any characters and any case survive."""
    return sql.Identifier(*names).as_string(None)


def literal(text: str) -> str:
    """Quote text as a literal."""
    return sql.Literal(text).as_string(None).strip()


def quoted_table(table: TableName) -> str:
    """Quote a table's qualified name."""
    return quoted(table.schema_, table.name)


def ledger_tables(schema: str) -> dict[str, str]:
    """Give the names that stand in the ledger's queries."""
    return {
        "schema": quoted(schema),
        "campaigns": quoted(schema, "__dpone__backfill_campaigns"),
        "chunks": quoted(schema, "__dpone__backfill_chunks"),
        "tallies": quoted(schema, "__dpone__backfill_tallies"),
        "events": quoted(schema, "__dpone__backfill_events"),
    }


def require_names_fit(where: str, *names: str) -> None:
    """Require names that the server keeps whole: it would cut a longer one off and find, or make, another table.

    Errors: ManifestInvalidError.
    """
    for name in names:
        if len(name.encode()) > LONGEST_NAME_BYTES:
            raise ManifestInvalidError(
                f"the name {name!r} is longer than the {LONGEST_NAME_BYTES} bytes that Postgres keeps",
                where=where,
                next_step="write the name as the database has it",
            )
