"""The indexes of a shadow: some are there from the start, the others are built once everything is loaded, which is faster.

From the start are those that say what may be loaded, unique ones and those of constraints, so that a chunk fails by its own rows;
and those that begin with the chunk column, by which a slice is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import run_batch, settings_statement
from dpone_runtime.adapters.postgres.connect import PgConnection
from dpone_runtime.adapters.postgres.identifiers import LONGEST_NAME_BYTES, literal, quoted, quoted_table
from dpone_runtime.adapters.postgres.table_contract import publication_queries
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.domain.publication import name_beside


@dataclass(frozen=True)
class FoundIndex:
    """An index: `meaning` is everything but its name, `definition` what follows its table in the statement that makes it."""

    name: str
    meaning: str
    definition: str
    restricts: bool
    """Whether it keeps rows out: it is unique, or a constraint's."""
    first_column: str | None
    tablespace: str | None
    comment: str | None

    def deferred(self, column: str) -> bool:
        """Whether it may wait until a table that is cut along a column is loaded."""
        return not self.restricts and self.first_column != column


def indexes_of(connection: PgConnection, relation: int) -> tuple[FoundIndex, ...]:
    """Describe the indexes of a table."""
    query = publication_queries().statement("indexes", relation=relation)
    return tuple(
        FoundIndex(
            str(name),
            str(meaning),
            str(definition),
            bool(restricts),
            None if column is None else str(column),
            None if tablespace is None else str(tablespace),
            None if comment is None else str(comment),
        )
        for name, meaning, definition, restricts, column, tablespace, comment in run_batch(
            connection, (query,)
        )[0].fetchall()
    )


def paired_indexes(
    connection: PgConnection, live: int, shadow: int
) -> Iterator[tuple[FoundIndex, FoundIndex | None]]:
    """Give each index of a live table with the shadow's that is like it, where it has one; both by object id."""
    found: dict[str, list[FoundIndex]] = defaultdict(list)
    for index in indexes_of(connection, shadow):
        found[index.meaning].append(index)
    for index in indexes_of(connection, live):
        like = found[index.meaning]
        yield index, like.pop(0) if like else None


def drop_deferred(connection: PgConnection, shadow: TableName, relation: int, column: str) -> None:
    """Drop what may wait from a shadow that is empty; it is cut along a column."""
    for index in indexes_of(connection, relation):
        if index.deferred(column):
            _run(connection, f"DROP INDEX {quoted(shadow.schema_, index.name)}")


def next_missing(connection: PgConnection, live: int, shadow: int) -> FoundIndex | None:
    """Give an index of the live table that the shadow has nothing like."""
    pairs = paired_indexes(connection, live, shadow)
    return next((index for index, like in pairs if like is None), None)


def build_index(connection: PgConnection, shadow: TableName, index: FoundIndex) -> None:
    """Build an index of a live table on its shadow.

    Errors: psycopg.Error.
    """
    name = name_beside(index.name, "shadow", (shadow.name,), LONGEST_NAME_BYTES)
    run_batch(connection, (settings_statement({"default_tablespace": index.tablespace or ""}),))
    _run(connection, f"CREATE INDEX {quoted(name)} ON {quoted_table(shadow)} {index.definition}")
    if index.comment is not None:
        _run(connection, f"COMMENT ON INDEX {quoted(shadow.schema_, name)} IS {literal(index.comment)}")


def _run(connection: PgConnection, text: str) -> None:
    run_batch(connection, (Statement("index", text.replace("%", "%%"), {}),))
