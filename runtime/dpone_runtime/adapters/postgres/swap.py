"""The swap: two tables exchange their names, in the transaction that writes the campaign's receipt."""

from __future__ import annotations

from psycopg import Error, errors

from dpone_contract.errors import PublicationBusyError, PublicationMismatchError, PublicationRefusedError
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import run_batch, settings_statement
from dpone_runtime.adapters.postgres.connect import PgConnection, safe_message
from dpone_runtime.adapters.postgres.identifiers import LONGEST_NAME_BYTES, literal, quoted, quoted_table
from dpone_runtime.adapters.postgres.shadow import require_free_name, require_unchanged
from dpone_runtime.adapters.postgres.shadow_indexes import build_index, next_missing, paired_indexes
from dpone_runtime.adapters.postgres.table_contract import FoundTable, publication_queries, table_of_name
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.domain.publication import CANCEL_AND_BEGIN_ANOTHER, ShadowContent, Swap, name_beside

_OF_ROWS = ("22", "54", "P0")
"""Classes of SQLSTATEs by which an index refuses a row: its expression's, the limits of its size, a function's own."""

TABLES_LOCK_WAIT_MS = 2_000
"""How long the swap stands in the queue for a table at a time: whoever comes after it waits too, readers included."""


def build_missing_index(connection: PgConnection, swap: Swap) -> str | None:
    """Build one index of the live table that its shadow lacks; give its name, None where none is missing.

    Errors: psycopg.Error; PublicationRefusedError for other tables of their names, and for a live table that has changed: nothing
    is built for it; PublicationMismatchError for rows that the index does not take.
    """
    live = _require_relation(connection, swap.live, swap.live_relation)
    shadow = _require_relation(connection, swap.shadow, swap.shadow_relation)
    missing = next_missing(connection, live.relation, shadow.relation)
    if missing is None:
        return None
    require_unchanged(connection, live, shadow, swap.contract, indexed=False)
    try:
        build_index(connection, swap.shadow, missing)
    except errors.UniqueViolation as error:
        raise PublicationBusyError(
            f"another session has built index {missing.name} of {swap.shadow} meanwhile",
            where=f"table {swap.shadow}",
            next_step="run it again; no row is moved for it",
        ) from error
    except Error as error:
        if (error.sqlstate or "")[:2] not in _OF_ROWS:
            raise
        raise PublicationMismatchError(
            f"index {missing.name} of {swap.live} cannot be built on what was loaded: {safe_message(error)} (SQLSTATE {error.sqlstate}); "
            "the live table is untouched",
            where=f"table {swap.shadow}",
            next_step="mend these rows in the source and load everything again: dpone backfill restart MANIFEST --reason ... --execute, "
            f"or, where it appends, {CANCEL_AND_BEGIN_ANOTHER}",
        ) from error
    return missing.name


def hold_shadow(connection: PgConnection, swap: Swap) -> ShadowContent:
    """Keep others from writing to a shadow, and count what it holds; its statistics are gathered, so that they come with it.

    Errors: psycopg.Error; PublicationRefusedError for another table of its name.
    """
    table = quoted_table(swap.shadow)
    _run(connection, f"LOCK TABLE {table} IN SHARE MODE")
    _require_relation(connection, swap.shadow, swap.shadow_relation)
    rows = _run(connection, f"SELECT count(*) FROM {table}")[0][0]
    duplicates: object = 0
    if swap.unique_key:
        key = ", ".join(map(quoted, swap.unique_key))
        present = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in swap.unique_key)
        counted = f"SELECT FROM {table} WHERE {present} GROUP BY {key} HAVING count(*) > 1"
        duplicates = _run(connection, f"SELECT count(*) FROM ({counted}) d")[0][0]
    _run(connection, f"ANALYZE {table}")
    return ShadowContent(int(str(rows)), int(str(duplicates)))


def swap_tables(connection: PgConnection, swap: Swap) -> None:
    """Hold both tables against everybody, require them to be what they were, and exchange them with their indexes' names.

    Errors: PublicationBusyError naming who holds the live table; PublicationRefusedError; psycopg.Error.
    """
    _lock_both(connection, swap)
    live = _require_relation(connection, swap.live, swap.live_relation)
    shadow = _require_relation(connection, swap.shadow, swap.shadow_relation)
    require_unchanged(connection, live, shadow, swap.contract, indexed=True)
    require_free_name(connection, swap.backup)
    indexes = [
        (index.name, like.name)
        for index, like in paired_indexes(connection, live.relation, shadow.relation)
        if like is not None
    ]
    comment = "NULL" if live.comment is None else literal(live.comment)
    _run(connection, f"COMMENT ON TABLE {quoted_table(swap.shadow)} IS {comment}")
    for name, _ in indexes:
        aside = name_beside(name, "backup", (swap.backup.name,), LONGEST_NAME_BYTES)
        _rename(connection, "INDEX", swap.live.schema_, name, aside)
    _rename(connection, "TABLE", swap.live.schema_, swap.live.name, swap.backup.name)
    _rename(connection, "TABLE", swap.live.schema_, swap.shadow.name, swap.live.name)
    for name, shadow_index in indexes:
        _rename(connection, "INDEX", swap.live.schema_, shadow_index, name)
    if not swap.retain_backup:
        _run(connection, f"DROP TABLE {quoted_table(swap.backup)}")


def _lock_both(connection: PgConnection, swap: Swap) -> None:
    """Take both tables for itself alone, the shadow first: whoever reads that keeps nobody from the live one.

    Errors: PublicationBusyError, and the transaction is as it was before.
    """
    tables = ", ".join(map(quoted_table, (swap.shadow, swap.live)))
    _run(connection, "SAVEPOINT before_tables")
    run_batch(connection, (settings_statement({"lock_timeout": str(TABLES_LOCK_WAIT_MS)}),))
    try:
        _run(connection, f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")
    except errors.LockNotAvailable:
        _run(connection, "ROLLBACK TO SAVEPOINT before_tables")
        table, holders = _held(connection, swap)
        raise PublicationBusyError(
            f"{table} is held by others{holders}",
            where=f"table {table}",
            next_step="everything is loaded: end these sessions, or wait for them, then run this again; no row is moved for it",
        ) from None


def _held(connection: PgConnection, swap: Swap) -> tuple[TableName, str]:
    """Give the table that others hold, and who they are."""
    for table, relation in ((swap.live, swap.live_relation), (swap.shadow, swap.shadow_relation)):
        query = publication_queries().statement("table_holders", relation=int(relation))
        found = run_batch(connection, (query,))[0].fetchall()
        told = [f"{pid} ({', '.join(str(word) for word in words if word)})" for pid, *words in found]
        if told:
            return table, f", by session {'; '.join(told)}"
    return swap.live, ""


def _require_relation(connection: PgConnection, table: TableName, relation: str) -> FoundTable:
    found = table_of_name(connection, table)
    if found is None or str(found.relation) != relation:
        raise PublicationRefusedError(
            f"{table} is gone, or is another table than the one that the campaign began with",
            where=f"table {table}",
            next_step=f"restore it, or {CANCEL_AND_BEGIN_ANOTHER}",
        )
    return found


def _rename(connection: PgConnection, kind: str, schema: str, name: str, new: str) -> None:
    _run(connection, f"ALTER {kind} {quoted(schema, name)} RENAME TO {quoted(new)}")


def _run(connection: PgConnection, text: str) -> list[tuple[object, ...]]:
    cursor = run_batch(connection, (Statement("swap", text.replace("%", "%%"), {}),))[0]
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
