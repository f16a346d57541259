"""Tables as their server describes them: identity, columns, fitness as a target, and the target made where it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpone_contract.errors import (
    ColumnsDifferError,
    DatabaseFailedError,
    TableMissingError,
    TableUnsuitableError,
)
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.connect import PgConnection, translated
from dpone_runtime.adapters.postgres.identifiers import ledger_tables, quoted, quoted_table
from dpone_runtime.adapters.postgres.matched_columns import refusal_of
from dpone_runtime.adapters.postgres.session import lock_key, run_batch
from dpone_runtime.adapters.sql.queries import Queries, Statement, load_blocks
from dpone_runtime.domain.campaign import TableIdentity
from dpone_runtime.ports.connectors import Column, TableShape

_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
}


@dataclass(frozen=True)
class PgTable:
    """A described table: `shape.identity.relation` is the root of its partition tree, `relation` its own object id."""

    shape: TableShape
    relation: int
    kind: str
    persistence: str
    row_security: bool
    may_read: bool
    may_write: bool
    has_children: bool = False
    has_delete_rule: bool = False
    unfit_partition: str | None = None
    """One that is foreign or not logged."""


def catalog_queries() -> Queries:
    """Read the queries over the server's catalog."""
    return Queries(load_blocks(__package__, "catalog.sql"), {})


def find_table(connection: PgConnection, table: TableName) -> PgTable | None:
    """Describe a table, or give None where there is none of this name."""
    queries = catalog_queries()
    with translated(f"reading the catalog about {table}", f"table {table}"):
        found, server = run_batch(
            connection,
            (
                queries.statement("describe_table", schema=table.schema_, name=table.name),
                queries.statement("server_identity"),
            ),
        )
        row, identity = found.fetchone(), server.fetchone()
        if row is None or identity is None:
            return None
        columns = run_batch(connection, (queries.statement("describe_columns", relation=row[0]),))[0]
        shape = TableShape(
            TableIdentity(str(identity[0]), str(identity[1]), str(row[4]), str(table)),
            tuple(_column(column) for column in columns.fetchall()),
        )
    return PgTable(shape, *row[:4], *row[5:])


def require_table(connection: PgConnection, table: TableName, side: str) -> PgTable:
    """Describe a table that has to be there and readable.

    Errors: TableMissingError, with names that look like it; DatabaseFailedError for a missing privilege.
    """
    found = find_table(connection, table)
    if found is None:
        statement = catalog_queries().statement("relation_names", schema=table.schema_, name=table.name)
        with translated(f"reading the catalog about {table}", f"table {table}"):
            near = [str(row[0]) for row in run_batch(connection, (statement,))[0].fetchall()]
        hint = f"there is {', '.join(near[:5])}" if near else "check schema, name and this user's privileges"
        raise TableMissingError(
            f"{side} table {table} does not exist, or this user cannot see it",
            where=f"{side}.table",
            next_step=f"{hint}; case matters",
        )
    if found.row_security:
        raise TableUnsuitableError(
            f"row security hides rows of {side} table {table} from this user",
            where=f"{side}.table",
            next_step="connect as its owner or as a role with BYPASSRLS",
        )
    if not found.may_read:
        raise DatabaseFailedError(
            f"this user may not read {side} table {table}",
            where=f"{side}.table",
            next_step=f"GRANT SELECT ON {quoted_table(table)}",
        )
    return found


def require_target_kind(found: PgTable) -> None:
    """Require a table in which exactly-once holds: ordinary or partitioned, logged, without filtering row security.

    Errors: TableUnsuitableError naming what it is; DatabaseFailedError for a missing privilege.
    """
    name = found.shape.identity.name
    if found.kind not in ("r", "p"):
        raise TableUnsuitableError(
            f"target {name} is {_KINDS.get(found.kind, 'no table')}",
            where="sink.table",
            next_step="load into an ordinary table",
        )
    if found.persistence != "p":
        what = "unlogged" if found.persistence == "u" else "temporary"
        raise TableUnsuitableError(
            f"target {name} is {what}: a crash would empty it while the ledger says committed",
            where="sink.table",
            next_step=f"ALTER TABLE {name} SET LOGGED",
        )
    reason = _unfit(found)
    if reason is not None:
        what, next_step = reason
        raise TableUnsuitableError(f"target {name} {what}", where="sink.table", next_step=next_step)
    if not found.may_write:
        raise DatabaseFailedError(
            f"this user may not write target table {name}",
            where="sink.table",
            next_step=f"GRANT SELECT, INSERT, DELETE ON {name}",
        )


def _unfit(found: PgTable) -> tuple[str, str] | None:
    """Say what else keeps a slice from being replaced, and the way out, or give None."""
    if found.row_security:
        return "hides rows from this user by row security", "connect as its owner or as a role with BYPASSRLS"
    if found.has_children:
        return (
            "has tables that inherit from it: their rows would be deleted with the slice",
            "load into a table without them, or into a partitioned one",
        )
    if found.has_delete_rule:
        return (
            "has a rule on DELETE: the slice might not be deleted",
            "drop the rule, or use a trigger on INSERT",
        )
    if found.unfit_partition:
        return f"has the partition {found.unfit_partition}, which is foreign or not logged", "detach it"
    return None


def has_leading_index(connection: PgConnection, table: PgTable, column: str) -> bool:
    """Whether some index of a table begins with a column; views have none."""
    statement = catalog_queries().statement("leading_index", relation=table.relation, column=column)
    name = table.shape.identity.name
    with translated(f"reading the catalog about {name}", f"table {name}"):
        found = run_batch(connection, (statement,))[0].fetchone()
    return found is not None and bool(found[0])


def _column(row: Sequence[Any]) -> Column:
    *leading, labels, binary, composite, collation = row
    name, type_name, nullable, builtin, generated, has_default, expression = leading
    return Column(
        name,
        type_name,
        nullable,
        builtin,
        generated,
        has_default,
        expression or "",
        tuple(labels),
        binary,
        composite,
        collation or "",
    )


def create_target_statements(
    source: TableShape, target: TableName, unique_key: tuple[str, ...], chunk_column: str
) -> tuple[str, ...]:
    """Give the DDL of a missing target: the source's columns and its NOT NULL, the key as primary key.

    An index on the chunk column follows where the key does not begin with it.

    Errors: ColumnsDifferError for a key column that the source lacks or a type that cannot be declared.
    """
    for name in unique_key:
        if source.column(name) is None:
            raise ColumnsDifferError(
                f"unique_key column {name!r} is not in {source.identity.name}",
                where="sink.strategy.unique_key",
                next_step="name columns of the source in unique_key; case matters",
            )
    lines = []
    for column in source.columns:
        refusal = "is an enum" if column.labels else refusal_of(column)
        if refusal is not None:
            raise ColumnsDifferError(
                f"the target cannot be created: {column.name} {refusal}",
                where=f"source.table {source.identity.name}",
                next_step="create the target yourself, or load from a view that casts or leaves out this column",
            )
        required = not column.nullable or column.name in unique_key
        collation = f" COLLATE {quoted('pg_catalog', column.collation)}" if column.collation else ""
        lines.append(f"  {quoted(column.name)} {column.type}{collation}" + (" NOT NULL" if required else ""))
    if unique_key:
        lines.append(f"  PRIMARY KEY ({', '.join(map(quoted, unique_key))})")
    body = ",\n".join(lines)
    return (
        f"CREATE SCHEMA IF NOT EXISTS {quoted(target.schema_)}",
        f"CREATE TABLE IF NOT EXISTS {quoted_table(target)} (\n{body}\n)",
        # Without it every chunk's deletion of its slice would read the whole table.
        *(
            (f"CREATE INDEX ON {quoted_table(target)} ({quoted(chunk_column)})",)
            if unique_key[:1] != (chunk_column,)
            else ()
        ),
    )


def create_target(connection: PgConnection, target: TableName, statements: tuple[str, ...]) -> PgTable:
    """Create a missing target under the database-wide DDL lock, looking again inside it.

    Errors: DatabaseFailedError, TableMissingError.
    """
    queries = Queries(load_blocks(__package__, "schema.sql"), ledger_tables("public"))
    with translated(f"creating {target}", f"table {target}"), connection.transaction():
        run_batch(connection, (queries.statement("ddl_lock", lock=lock_key("ddl")),))
        if find_table(connection, target) is None:
            schema = connection.execute(
                "SELECT to_regnamespace(quote_ident(%s))", (target.schema_,)
            ).fetchone()
            needed = statements[1:] if schema is not None and schema[0] is not None else statements
            for text in needed:
                run_batch(connection, (Statement("create", text.replace("%", "%%"), {}),))
    return require_table(connection, target, "sink")
