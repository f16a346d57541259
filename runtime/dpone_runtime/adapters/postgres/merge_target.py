"""Whether a target can be merged into: its columns, an index that decides conflicts, and the privileges of an upsert."""

from __future__ import annotations

from dpone_contract.errors import ColumnsDifferError, DatabaseFailedError, TableUnsuitableError
from dpone_runtime.adapters.postgres.catalog import PgTable, catalog_queries
from dpone_runtime.adapters.postgres.connect import PgConnection, translated
from dpone_runtime.adapters.postgres.merge import MergeKey
from dpone_runtime.adapters.postgres.session import run_batch


def require_merge_target(
    connection: PgConnection, target: PgTable, key: MergeKey, columns: tuple[str, ...]
) -> None:
    """Require that rows of a target are told apart by `key`, and that this user may update them.

    `columns` are those that are loaded.

    Errors: ColumnsDifferError for a key or version column that is not loaded; TableUnsuitableError without a unique index on
    exactly the key's columns; DatabaseFailedError for a missing privilege.
    """
    name = target.shape.identity.name
    wanted = (*key.columns, *((key.version,) if key.version else ()))
    lacking = [column for column in wanted if column not in columns]
    if lacking:
        raise ColumnsDifferError(
            f"{', '.join(lacking)} of unique_key or version_column is no column that is loaded into {name}",
            where="sink.strategy",
            next_step="mend unique_key and version_column; case matters",
        )
    queries = catalog_queries()
    with translated(f"reading the catalog about {name}"):
        indexes, rights = run_batch(
            connection,
            (
                queries.statement("unique_keys", relation=target.relation),
                queries.statement("merge_rights", relation=target.relation),
            ),
        )
        keys = [set(row[0]) for row in indexes.fetchall()]
        may_update, may_stage = rights.fetchone() or (False, False)
    if set(key.columns) not in keys:
        raise TableUnsuitableError(
            f"target {name} has no unique index on exactly unique_key ({', '.join(key.columns)}), or only one that is "
            "partial, deferrable or of expressions: an upsert could not tell rows apart",
            where="sink.strategy.unique_key",
            next_step="create such an index, or name the columns of one that exists",
        )
    if not may_update:
        raise DatabaseFailedError(
            f"this user may not update rows of target table {name}", next_step=f"GRANT UPDATE ON {name}"
        )
    if not may_stage:
        raise DatabaseFailedError(
            f"this user may not create temporary tables beside {name}, in which a merge is staged",
            next_step="GRANT TEMPORARY on the database",
        )
