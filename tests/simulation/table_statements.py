"""Statements about whole tables, executed over the simulated database: locks, names, counts, and what people do by hand."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tests.simulation.database import Session, Waiting
from tests.simulation.reading import ReadingStatements, Rows, Values
from tests.simulation.tables import BY_HAND, LockNotAvailableError, TargetRow, UndefinedTableError

PAUSE = 1.0
A_DAY_OF_NO_CAMPAIGN = 1


class TableStatements(ReadingStatements):
    """What locks, names and counts tables. A table is found by its name again after every wait, as LOCK TABLE does."""

    def query_lock_table(self, session: Session, values: Values) -> Rows | Waiting:
        if values["mode"] in self.weakening.table_locks:
            return []
        return _lock_table(session, values["table"], values["mode"])

    def query_lock_both(self, session: Session, values: Values) -> Waiting:
        """SAVEPOINT, LOCK TABLE of two tables, and ROLLBACK TO SAVEPOINT where one was not free: False, and the transaction goes on."""
        mode, relations = "ACCESS EXCLUSIVE", []
        try:
            for table in values["tables"]:
                yield from _lock_table(session, table, mode)
                relations.append(required(session, table))
        except LockNotAvailableError:
            for relation in relations:
                session.database.table_locks.give_back(session, relation, mode)
            return [(False,)]
        return [(True,)]

    def query_pause(self, session: Session, _values: Values) -> Waiting:
        until = session.database.elapsed + PAUSE
        yield lambda: session.database.elapsed >= until
        return []

    def query_seen_columns(self, session: Session, values: Values) -> Rows:
        return self.query_find_table(session, {"table": f"{values['schema']}.{values['name']}"})

    def query_find_table(self, session: Session, values: Values) -> Rows:
        relation = session.relation(values["table"])
        return [] if relation is None else [(relation,)]

    def query_count_table(self, session: Session, values: Values) -> Rows:
        """How many rows, and how many keys twice."""
        relation = required(session, values["table"])
        keys = Counter(
            (row.day, row.part)
            for row in session.database.committed.rows.values()
            if row.relation == relation
        )
        return [(keys.total(), sum(count > 1 for count in keys.values()))]

    def query_create_table(self, session: Session, values: Values) -> Rows:
        session.database.tables_made += 1
        session.changes().names[values["table"]] = str(session.database.tables_made)
        return []

    def query_rename_table(self, session: Session, values: Values) -> Rows:
        relation = required(session, values["table"])
        session.changes().names |= {values["table"]: None, values["new"]: relation}
        return []

    def query_drop_table(self, session: Session, values: Values) -> Rows:
        session.changes().names[values["table"]] = None
        return []

    def query_replace_by_hand(self, session: Session, values: Values) -> Rows:
        """Put an empty table in the place of one, which is kept under another name."""
        relation = required(session, values["table"])
        self.query_rename_table(session, {**values, "new": f"{values['table']} kept {relation}"})
        self.query_create_table(session, values)
        session.changes().by_hand = True
        return []

    def query_insert_by_hand(self, session: Session, values: Values) -> Rows:
        database = session.database
        database.rows_written += 1
        relation, day = required(session, values["table"]), A_DAY_OF_NO_CAMPAIGN
        owner = f"{BY_HAND} {database.rows_written}"
        row = TargetRow(relation, day, database.rows_written, BY_HAND, 0, 0, 0, owner)
        session.changes().inserted[database.rows_written] = row
        return []


def required(session: Session, table: str) -> str:
    """Give the relation of a name.

    Errors: UndefinedTableError.
    """
    relation = session.relation(table)
    if relation is None:
        raise UndefinedTableError(table)
    return relation


def _lock_table(session: Session, table: str, mode: str) -> Waiting:
    locks = session.database.table_locks
    while not locks.free(session, relation := required(session, table), mode):
        yield partial(locks.free, session, relation, mode)
    locks.take(session, relation, mode)
    return []
