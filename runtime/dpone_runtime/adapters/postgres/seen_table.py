"""A table as a run has looked at it, and a lane's proof that it still is: the same object, its columns of the same types.

A COPY in binary form carries no types: eight bytes of a number become eight bytes of a time without a word. So each data
transaction locks its tables against changes first, and then looks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpone_contract.errors import CampaignDriftError, ColumnsDifferError
from dpone_contract.frozen import FrozenModel
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import run_batch
from dpone_runtime.adapters.postgres.catalog import catalog_queries
from dpone_runtime.adapters.postgres.connect import PgConnection, translated
from dpone_runtime.adapters.postgres.identifiers import quoted_table
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.adapters.sql.rows import Row

_LOCKABLE = ("r", "p", "v")
_OUT = "restore it and run it again, or begin a new campaign under another backfill_id; committed chunks are skipped"


class SeenTable(FrozenModel):
    """What was found under a name: the object, its kind, and the declared type of each column that is copied."""

    table: TableName
    relation: int
    kind: str
    types: dict[str, str]

    def narrowed(self, columns: Sequence[str]) -> SeenTable:
        """Give the same table with some of its columns."""
        return self.replaced(types={name: self.types[name] for name in columns if name in self.types})

    def lock(self, mode: str) -> tuple[Statement, ...]:
        """Give the statement that keeps others from changing the table for the length of the transaction.

        It is a statement of its own, and the first: a COPY that waits for a table which is being rewritten reads it as of
        before its wait, and finds it empty. Materialized views and foreign tables cannot be locked so.
        """
        if self.kind not in _LOCKABLE:
            return ()
        only = "ONLY " if mode == "ROW EXCLUSIVE" else ""
        text = f"LOCK TABLE {only}{quoted_table(self.table)} IN {mode} MODE"
        return (Statement("lock_table", text.replace("%", "%%"), {}),)

    def look(self) -> Statement:
        """Give the query whose rows `require` judges."""
        return _look(self.table)

    def require(self, side: str, rows: Sequence[Row]) -> None:
        """Require the table to be what it was.

        Errors: CampaignDriftError for another object of this name, ColumnsDifferError naming columns and types.
        """
        found = _seen(self.table, rows)
        where = f"{side} table {self.table}"
        if found is None or found.relation != self.relation:
            raise CampaignDriftError(
                f"the {side} table {self.table} was replaced by another of its name while the run was at work",
                where=where,
                next_step=_OUT,
            )
        changes = [
            f"{name} is {found.types[name]} and was {was}"
            if name in found.types
            else f"{name} ({was}) is gone"
            for name, was in self.types.items()
            if found.types.get(name) != was
        ]
        if changes:
            raise ColumnsDifferError(
                f"the {side} table {self.table} was changed while the run was at work: {'; '.join(changes)}",
                where=where,
                next_step=_OUT,
            )


def see_table(connection: PgConnection, table: TableName) -> SeenTable | None:
    """Look at a table; None where there is none of this name."""
    with translated(f"reading the catalog about {table}", f"table {table}"):
        return _seen(table, run_batch(connection, (_look(table),))[0].fetchall())


def _look(table: TableName) -> Statement:
    return catalog_queries().statement("seen_columns", schema=table.schema_, name=table.name)


def _seen(table: TableName, rows: Sequence[Row]) -> SeenTable | None:
    if not rows:
        return None
    types: Mapping[str, str] = {str(row[2]): str(row[3]) for row in rows if row[2] is not None}
    return SeenTable(table=table, relation=int(str(rows[0][0])), kind=str(rows[0][1]), types=dict(types))
