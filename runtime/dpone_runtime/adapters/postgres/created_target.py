"""The table that is created where a target is missing: its DDL, and the types that it needs and never makes itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpone_contract.errors import ColumnsDifferError
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import lock_key, run_batch
from dpone_runtime.adapters.postgres.catalog import PgTable, find_table, find_types, require_table
from dpone_runtime.adapters.postgres.connect import PgConnection, translated
from dpone_runtime.adapters.postgres.identifiers import ledger_tables, literal, quoted, quoted_table
from dpone_runtime.adapters.postgres.merge import MergeKey
from dpone_runtime.adapters.postgres.merge_target import require_key_columns
from dpone_runtime.adapters.postgres.type_differences import differences, refusals_of
from dpone_runtime.adapters.sql.queries import Queries, Statement, load_blocks
from dpone_runtime.ports.connectors import Column, TableShape
from dpone_runtime.ports.type_structure import TypeKind, TypeStructure


def created_shape(source: TableShape) -> TableShape:
    """Give the shape that a created target has: the source's columns, of which the target computes none."""
    return replace(source, columns=tuple(replace(column, generated=False) for column in source.columns))


def plan_target(
    connection: PgConnection, source: TableShape, target: TableName, key: MergeKey, chunk_column: str
) -> tuple[str, ...]:
    """Give the DDL of a missing target, with the types of the source that its database has under the same names.

    Errors: those of `create_target_statements` and `require_key_columns`; DatabaseFailedError.
    """
    names = {made.name for column in source.columns for made in column.structure.made()}
    known = find_types(connection, sorted(names))
    statements = create_target_statements(source, target, key.columns, chunk_column, known)
    require_key_columns(connection, str(target), source.columns, key)
    return statements


def create_target_statements(
    source: TableShape,
    target: TableName,
    unique_key: tuple[str, ...],
    chunk_column: str,
    known: Mapping[str, TypeStructure],
) -> tuple[str, ...]:
    """Give the DDL of a missing target: the source's columns and its NOT NULL, the key as primary key.

    An index on the chunk column follows where the key does not begin with it. `known` are the types of the target's database.

    Errors: ColumnsDifferError for a key column that the source lacks, and for types that cannot be kept or that are not known
    or not the same, with the statements that make them.
    """
    for name in unique_key:
        if source.column(name) is None:
            raise ColumnsDifferError(
                f"unique_key column {name!r} is not in {source.identity.name}",
                where="sink.strategy.unique_key",
                next_step="name columns of the source in unique_key; case matters",
            )
    _require_types(source, known)
    lines = []
    for column in source.columns:
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


def _require_types(source: TableShape, known: Mapping[str, TypeStructure]) -> None:
    where = f"source.table {source.identity.name}"
    problems = [
        problem for column in source.columns for problem in refusals_of(column.name, column.structure)
    ]
    if problems:
        raise ColumnsDifferError(
            f"the target cannot be created: {'; '.join(problems)}",
            where=where,
            next_step="create the target yourself, or load from a view that casts or leaves out this column",
        )
    missing = [column for column in source.columns if _named(column).name not in known and _is_made(column)]
    if missing:
        told = ", ".join(f"{column.name} {_named(column).name}" for column in missing)
        raise ColumnsDifferError(
            f"the target cannot be created: its database lacks the type of {told}",
            where=where,
            next_step=f"run there first: {' '.join(_type_statements(missing, known))}",
        )
    for column in filter(_is_made, source.columns):
        named = _named(column)
        problems.extend(
            differences(column.name, named, replace(known[named.name], modifiers=named.modifiers))
        )
    if problems:
        raise ColumnsDifferError(
            f"the target cannot be created with types of the same names: {'; '.join(problems)}",
            where=where,
            next_step="alter the type there, or create the target with another one",
        )


def _named(column: Column) -> TypeStructure:
    """Give the type that a column is declared with, of an array its element's."""
    found = column.structure
    while found.kind is TypeKind.ARRAY:
        found = found.parts[0].type
    return found


def _is_made(column: Column) -> bool:
    return not _named(column).builtin


def _type_statements(columns: list[Column], known: Mapping[str, TypeStructure]) -> tuple[str, ...]:
    """Give what makes the types of columns that are not known, each once and after those that it is made of."""
    made = {made.name: made for column in columns for made in column.structure.made()}
    # A multirange comes with its range.
    told = (
        structure
        for name, structure in made.items()
        if name not in known
        and (structure.kind is not TypeKind.MULTIRANGE or structure.parts[0].type.name in known)
    )
    return tuple(dict.fromkeys(map(_type_statement, told)))


def _type_statement(made: TypeStructure) -> str:
    if made.extension:
        return f"CREATE EXTENSION {quoted(made.extension)};"
    match made.kind:
        case TypeKind.ENUM:
            what = f"AS ENUM ({', '.join(map(literal, made.labels))})"
        case TypeKind.COMPOSITE:
            what = f"AS ({', '.join(f'{quoted(part.name)} {part.type.full_name}' for part in made.parts)})"
        case TypeKind.RANGE:
            what = f"AS RANGE (subtype = {made.parts[0].type.full_name})"
        case _:
            return f"/* the type {made.name}, as the source's database has it */"
    return f"CREATE TYPE {made.name} {what};"


def ddl_lock() -> Statement:
    """Give the statement that keeps other runs from making anything in this database until the transaction ends."""
    queries = Queries(load_blocks(__package__, "schema.sql"), ledger_tables("public"))
    return queries.statement("ddl_lock", lock=lock_key("ddl"))


def create_target(connection: PgConnection, target: TableName, statements: tuple[str, ...]) -> PgTable:
    """Create a missing target under the database-wide DDL lock, looking again inside it.

    Errors: DatabaseFailedError, TableMissingError.
    """
    with translated(f"creating {target}", f"table {target}"), connection.transaction():
        run_batch(connection, (ddl_lock(),))
        if find_table(connection, target) is None:
            schema = connection.execute(
                "SELECT to_regnamespace(quote_ident(%s))", (target.schema_,)
            ).fetchone()
            needed = statements[1:] if schema is not None and schema[0] is not None else statements
            for text in needed:
                run_batch(connection, (Statement("create", text.replace("%", "%%"), {}),))
    return require_table(connection, target, "sink")
