"""What of a source is loaded: `columns` and `exclude_columns` of its manifest, and the filter `where`, proved before use."""

from __future__ import annotations

from dataclasses import replace

import psycopg

from dpone_contract.errors import ColumnsDifferError, ManifestInvalidError
from dpone_contract.manifest import SourceOptions
from dpone_runtime.adapters.postgres.batches import run_batch
from dpone_runtime.adapters.postgres.catalog import PgTable
from dpone_runtime.adapters.postgres.connect import PgConnection, safe_message, translate
from dpone_runtime.adapters.postgres.identifiers import quoted_table
from dpone_runtime.adapters.sql.queries import Statement


def select_columns(table: PgTable, options: SourceOptions, chunk_column: str) -> PgTable:
    """Give the table with the columns that are loaded, in the table's own order.

    Errors: ColumnsDifferError for a column that is not there, and where the one that the chunks are cut along is left out.
    """
    named, excluded = options.columns, options.exclude_columns or ()
    for key, names in (("columns", named or ()), ("exclude_columns", excluded)):
        missing = [name for name in names if table.shape.column(name) is None]
        if missing:
            raise ColumnsDifferError(
                f"source table {options.table} has no column {', '.join(map(repr, missing))}",
                where=f"source.{key}",
                next_step=f"mend source.{key}; case matters",
            )
    kept = tuple(
        column
        for column in table.shape.columns
        if (named is None or column.name in named) and column.name not in excluded
    )
    if table.shape.column(chunk_column) is not None and chunk_column not in (one.name for one in kept):
        raise ColumnsDifferError(
            f"column {chunk_column!r}, which the chunks are cut along, is not among the columns that are loaded",
            where="source.exclude_columns" if chunk_column in excluded else "source.columns",
            next_step="load it too: the target's slices are found by it",
        )
    return replace(table, shape=replace(table.shape, columns=kept))


def filtered(predicate: str, where: str | None) -> str:
    """Join a chunk's predicate and a filter; a comment at the filter's end ends with its line."""
    return predicate if where is None else f"{predicate} AND (\n{where}\n)"


def require_filter(connection: PgConnection, options: SourceOptions) -> None:
    """Require that a filter is one condition over the source, by letting the server plan it.

    It has to be so without brackets as well as within: brackets that do not match, a further clause and a second statement
    are refused by the one or the other.

    Errors: ManifestInvalidError with the server's reason.
    """
    if options.where is None:
        return
    rows = f"EXPLAIN SELECT FROM {quoted_table(options.table)} WHERE"
    for text in (f"{rows}\n{options.where}\n", f"{rows} {filtered('true', options.where)}"):
        try:
            run_batch(connection, (Statement("filter", text.replace("%", "%%"), {}),))
        except psycopg.Error as error:
            state = error.sqlstate or ""
            # 08P01: the filter has a parameter, and nobody gives it a value.
            if (state[:2] not in ("42", "22", "0A") and state != "08P01") or state == "42501":
                raise translate(error, f"looking at the filter of {options.table}") from error
            raise ManifestInvalidError(
                f"the filter cannot be used on {options.table}: {safe_message(error)}",
                where="source.where",
                next_step="write one SQL condition over the columns of the source",
            ) from error
