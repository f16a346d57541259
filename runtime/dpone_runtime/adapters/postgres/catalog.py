"""Tables as their server describes them: identity, columns, and fitness as a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpone_contract.errors import (
    DatabaseFailedError,
    TableMissingError,
    TableUnsuitableError,
)
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import run_batch
from dpone_runtime.adapters.postgres.connect import PgConnection, translated
from dpone_runtime.adapters.postgres.identifiers import quoted, quoted_table
from dpone_runtime.adapters.postgres.type_trees import read_types
from dpone_runtime.adapters.sql.queries import Queries, load_blocks
from dpone_runtime.domain.campaign import TableIdentity
from dpone_runtime.ports.connectors import Column, TableShape
from dpone_runtime.ports.type_structure import TypeStructure


@dataclass(frozen=True)
class PgTable:
    """A described table: `shape.identity.relation` is the root of its partition tree, `relation` its own object id."""

    shape: TableShape
    relation: int
    kind: str
    persistence: str
    row_security: bool
    privileges: frozenset[str]
    """SELECT, INSERT, UPDATE, DELETE on the table, and USAGE of its schema: those that this user has."""
    has_children: bool = False
    rules: frozenset[str] = frozenset()
    """The commands that some rule rewrites."""
    unfit_partition: str | None = None
    """One that is foreign or not logged."""
    delete_triggers: tuple[str, ...] = ()
    """Those of partitions included."""


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
        types = read_types(connection, queries.statement("describe_types", relation=row[0], names=[]))
        shape = TableShape(
            TableIdentity(str(identity[0]), str(identity[1]), str(row[4]), str(table)),
            tuple(_column(column, types) for column in columns.fetchall()),
        )
    relation, kind, persistence, row_security, _, privileges, has_children, rules, unfit, triggers = row
    return PgTable(
        shape,
        relation,
        kind,
        persistence,
        row_security,
        frozenset(privileges),
        has_children,
        frozenset(rules),
        unfit,
        tuple(triggers),
    )


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
    require_usage(found, side)
    if "SELECT" not in found.privileges:
        raise DatabaseFailedError(
            f"this user may not read {side} table {table}",
            where=f"{side}.table",
            next_step=f"GRANT SELECT ON {quoted_table(table)}",
        )
    return found


def require_usage(found: PgTable, side: str) -> None:
    """Require that this user may use the schema that a table is in; the catalog shows it to everybody.

    Errors: DatabaseFailedError.
    """
    if "USAGE" not in found.privileges:
        schema = found.shape.identity.name.partition(".")[0]
        raise DatabaseFailedError(
            f"this user may not use the schema of {side} table {found.shape.identity.name}",
            where=f"{side}.table",
            next_step=f"GRANT USAGE ON SCHEMA {quoted(schema)}",
        )


def has_leading_index(connection: PgConnection, table: PgTable, column: str) -> bool:
    """Whether some index of a table begins with a column; views have none."""
    statement = catalog_queries().statement("leading_index", relation=table.relation, column=column)
    name = table.shape.identity.name
    with translated(f"reading the catalog about {name}", f"table {name}"):
        found = run_batch(connection, (statement,))[0].fetchone()
    return found is not None and bool(found[0])


def find_types(connection: PgConnection, names: Sequence[str]) -> dict[str, TypeStructure]:
    """Describe those of some types, by quoted and qualified name, that this database has.

    Errors: DatabaseFailedError.
    """
    if not names:
        return {}
    statement = catalog_queries().statement("describe_types", relation=0, names=list(names))
    with translated("reading the catalog about types"):
        return dict(read_types(connection, statement).values())


def _column(row: Sequence[Any], types: Mapping[int, tuple[str, TypeStructure]]) -> Column:
    number, name, *facts = row
    return Column(name, types[number][1], *facts)
