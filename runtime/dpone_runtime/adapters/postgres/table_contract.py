"""What makes up a table, line by line, and what hangs on it: whether another table can take its place without a difference."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dpone_contract.canonical import fingerprint
from dpone_contract.errors import PublicationRefusedError
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import run_batch, settings_statement
from dpone_runtime.adapters.postgres.connect import PgConnection
from dpone_runtime.adapters.sql.queries import Queries, load_blocks

_SHOWN = 5
_WORDING = {
    "search_path": "pg_catalog, pg_temp",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",
}
"""What says how the server words expressions, types and times. The next run may be another user's, with other settings."""


@dataclass(frozen=True)
class FoundTable:
    """A table under its name: its object id and comment, its owner, and what this user may do there."""

    name: TableName
    relation: int
    comment: str | None
    is_owner: bool
    owner: str
    may_create: bool
    owner_may_create: bool


def publication_queries() -> Queries:
    """Read the queries of a publication."""
    return Queries(load_blocks(__package__, "publication.sql"), {})


def table_of_name(connection: PgConnection, table: TableName) -> FoundTable | None:
    """Find a table, None where there is none of this name."""
    query = publication_queries().statement("table_of_name", schema=table.schema_, name=table.name)
    row = run_batch(connection, (query,))[0].fetchone()
    if row is None:
        return None
    comment = None if row[1] is None else str(row[1])
    return FoundTable(table, int(str(row[0])), comment, bool(row[2]), str(row[3]), bool(row[4]), bool(row[5]))


Contract = tuple[tuple[str, str], ...]
"""Everything that makes up a table but its rows and its name, as pairs of what it is and how, in order."""


def table_contract(connection: PgConnection, relation: int) -> Contract:
    """Read what makes up a table, in words that no setting of a session changes.

    Source: the backfill guide, the object contract of a swap.
    """
    query = publication_queries().statement
    before, _, found = run_batch(
        connection,
        (
            query("settings", names=list(_WORDING)),
            settings_statement(_WORDING),
            query("table_contract", relation=relation),
        ),
    )
    # Whatever is worded or read later in this transaction, by others' event triggers too, is so as the session has it.
    told = {str(name): str(value) for name, value in before.fetchall()}
    run_batch(connection, (settings_statement(told),))
    return tuple((str(row[0]), str(row[1])) for row in found.fetchall())


def contract_digest(contract: Contract) -> str:
    """Fingerprint what makes up a table."""
    return fingerprint([list(line) for line in contract])


def differences(live: Contract, shadow: Contract, *, indexed: bool = True) -> tuple[str, ...]:
    """Say in words what two tables do not share; the table's comment is given to the shadow by the swap alone.

    Unless it is `indexed`, the shadow may lack indexes that keep no row out: they are built once it is loaded.
    """
    waiting = () if indexed else ("index",)
    one, two = (Counter(line for line in contract if line[0] != "comment") for contract in (live, shadow))
    return (
        *(
            f"{what} {how} is the live table's alone"
            for what, how in sorted(one - two)
            if what not in waiting
        ),
        *(f"{what} {how} is the shadow's alone" for what, how in sorted(two - one)),
    )


def require_no_surfaces(connection: PgConnection, table: FoundTable) -> None:
    """Require that nothing hangs on a table which another one could not be given, or which would stay with it when it is renamed.

    Errors: PublicationRefusedError naming all of it.
    """
    query = publication_queries().statement("table_surfaces", relation=table.relation)
    found = [
        str(what) if name is None else f"{what} {name}"
        for what, name in run_batch(connection, (query,))[0].fetchall()
    ]
    if found:
        raise PublicationRefusedError(
            f"{table.name} cannot be exchanged by a swap: {shortened(found)}",
            where=f"table {table.name}",
            next_step="take this away and bring it back after the publication, exchange the tables by a migration of your own, or load "
            "with publication.mode: direct",
        )


def shortened(told: list[str] | tuple[str, ...]) -> str:
    """Give the first few of a list in one line."""
    more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return "; ".join(told[:_SHOWN]) + more
