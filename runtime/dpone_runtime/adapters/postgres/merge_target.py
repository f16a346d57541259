"""Whether rows of a target can be told apart and ordered, and whether it can be merged into: columns, index, privileges."""

from __future__ import annotations

from psycopg import errors

from dpone_contract.errors import ColumnsDifferError, DatabaseFailedError, TableUnsuitableError
from dpone_runtime.adapters.postgres.catalog import PgTable, catalog_queries
from dpone_runtime.adapters.postgres.connect import PgConnection, translated
from dpone_runtime.adapters.postgres.merge import MergeKey
from dpone_runtime.adapters.postgres.session import run_batch
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.ports.connectors import Column


def require_key_columns(
    connection: PgConnection, table: str, columns: tuple[Column, ...], key: MergeKey
) -> None:
    """Require that `columns`, which are loaded into a table, have those of a key, and that the server can order these.

    Errors: ColumnsDifferError naming column and type.
    """
    loaded = {column.name: column for column in columns}
    wanted = [*(("unique_key", name) for name in key.columns)]
    wanted += [("version_column", key.version)] if key.version else []
    for option, name in wanted:
        if name not in loaded:
            raise ColumnsDifferError(
                f"{name} of {option} is no column that is loaded into {table}",
                where=f"sink.strategy.{option}",
                next_step=f"mend {option}; case matters",
            )
        if not _has_order(connection, loaded[name].type):
            purpose = "tell rows apart" if option == "unique_key" else "tell the newer of two rows"
            raise ColumnsDifferError(
                f"{name} of {option} is {loaded[name].type}, a type without an order: it cannot {purpose}",
                where=f"sink.strategy.{option}",
                next_step="name a column of another type, or load from a view that casts it",
            )


def _has_order(connection: PgConnection, type_name: str) -> bool:
    """Ask the server whether it can sort values of a type; nothing is read."""
    text = f"EXPLAIN SELECT FROM (SELECT NULL::{type_name} AS value) one ORDER BY value"
    with translated(f"looking at the type {type_name}"):
        try:
            run_batch(connection, (Statement("order", text.replace("%", "%%"), {}),))
        except errors.UndefinedFunction:
            return False
    return True


def require_merge_target(
    connection: PgConnection, target: PgTable, key: MergeKey, columns: tuple[str, ...]
) -> None:
    """Require that rows of a target are told apart by `key`, and that this user may stage them.

    `columns` are those that are loaded.

    Errors: those of `require_key_columns`; TableUnsuitableError without a unique index on exactly the key's columns;
    DatabaseFailedError for a missing privilege.
    """
    name = target.shape.identity.name
    loaded = tuple(column for column in target.shape.columns if column.name in columns)
    require_key_columns(connection, name, loaded, key)
    queries = catalog_queries()
    with translated(f"reading the catalog about {name}"):
        indexes, rights = run_batch(
            connection,
            (
                queries.statement("unique_keys", relation=target.relation),
                queries.statement("may_stage"),
            ),
        )
        keys = [set(row[0]) for row in indexes.fetchall()]
        may_stage = rights.fetchone() == (True,)
    if set(key.columns) not in keys:
        raise TableUnsuitableError(
            f"target {name} has no unique index on exactly unique_key ({', '.join(key.columns)}), or only one that is "
            "partial, deferrable or of expressions: an upsert could not tell rows apart",
            where="sink.strategy.unique_key",
            next_step="create such an index, or name the columns of one that exists",
        )
    if not may_stage:
        raise DatabaseFailedError(
            f"this user may not create temporary tables beside {name}, in which a merge is staged",
            next_step="GRANT TEMPORARY on the database",
        )
