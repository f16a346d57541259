"""Whoever uses the same tables and is no run: readers, writers, and somebody who puts another table in the place of one."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from dpone_contract.errors import DatabaseFailedError
from dpone_runtime.adapters.sql.session import LockTimeoutError
from tests.simulation.exchange import named, settings
from tests.simulation.processes import Process
from tests.simulation.session import QUERIES, asked

_WAIT = timedelta(seconds=60)


class Deed(StrEnum):
    """What a stranger does to a table."""

    READ = "read"
    WRITE = "write"
    REPLACE = "replace"


_MODES = {Deed.READ: "ACCESS SHARE", Deed.WRITE: "ROW EXCLUSIVE", Deed.REPLACE: "ACCESS EXCLUSIVE"}
_IDLE_MS = {Deed.READ: 120_000, Deed.WRITE: 30_000, Deed.REPLACE: 30_000}
_STATEMENTS = {Deed.WRITE: "insert_by_hand", Deed.REPLACE: "replace_by_hand"}


def do_by_hand(process: Process, deed: Deed, table: str, held: timedelta) -> None:
    """Do it in one transaction, which holds the table for a while.

    Errors: TableMissingError, DatabaseFailedError.
    """
    server = process.connect("by hand")
    try:
        taking = named("lock_table", table=table, mode=_MODES[deed])
        asked(server, (QUERIES.statement("begin"), settings(_WAIT, _IDLE_MS[deed]), taking), process.wait)
        if deed in _STATEMENTS:
            asked(server, (named(_STATEMENTS[deed], table=table),), process.wait)
        process.wait(lambda: False, held)
        asked(server, (QUERIES.statement("commit"),), process.wait)
    except LockTimeoutError as error:
        raise DatabaseFailedError("a table is held by others", next_step="do it again") from error
