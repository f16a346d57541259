"""The statements of a publication over the simulated database: those of the real `hold_shadow` and `swap_tables`, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from dpone_contract.errors import PublicationBusyError, PublicationRefusedError
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import settings_statement
from dpone_runtime.adapters.postgres.swap import TABLES_LOCK_WAIT_MS
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.adapters.sql.rows import Row
from dpone_runtime.domain.publication import ShadowContent, Swap

Batch = Callable[[Sequence[Statement]], list[list[Row]]]
_AGAIN = "run it again"


def named(name: str, **values: object) -> Statement:
    """Give a statement about tables, under a name of the simulation's own."""
    return Statement(name, name, values)


def lock_table(table: TableName, mode: str) -> Statement:
    """Give LOCK TABLE."""
    return named("lock_table", table=str(table), mode=mode)


def settings(lock_wait: timedelta, idle_ms: int | None = None) -> Statement:
    """Set how long a transaction waits for a lock, 0 for ever, and how long it may be idle."""
    values = {"lock_timeout": str(int(lock_wait.total_seconds() * 1000))}
    if idle_ms is not None:
        values["idle_in_transaction_session_timeout"] = str(idle_ms)
    return settings_statement(values)


def build_missing_index(batch: Batch, swap: Swap) -> str | None:
    """Build the one index that a shadow lacks at first, which nobody may write to meanwhile."""
    require_relation(batch, swap.live, swap.live_relation)
    require_relation(batch, swap.shadow, swap.shadow_relation)
    index = index_of(swap.shadow_relation)
    if batch((named("find_table", table=index),))[0]:
        return None
    batch((lock_table(swap.shadow, "SHARE"),))
    batch((named("create_table", table=index),))
    return index


def index_of(relation: str) -> str:
    """Give the name of a table's index."""
    return f"index of {relation}"


def hold_shadow(batch: Batch, swap: Swap) -> ShadowContent:
    """Keep others from writing to a shadow, and count it."""
    batch((lock_table(swap.shadow, "SHARE"),))
    require_relation(batch, swap.shadow, swap.shadow_relation)
    rows, duplicates = batch((named("count_table", table=str(swap.shadow)),))[0][0]
    return ShadowContent(rows, duplicates if swap.unique_key else 0)


def swap_tables(batch: Batch, swap: Swap) -> None:
    """Hold both tables, require them to be what they were, and exchange their names."""
    _lock_both(batch, swap)
    require_relation(batch, swap.live, swap.live_relation)
    require_relation(batch, swap.shadow, swap.shadow_relation)
    if not batch((named("find_table", table=index_of(swap.shadow_relation)),))[0]:
        raise PublicationRefusedError(f"{swap.shadow} has no index", next_step=_AGAIN)
    if batch((named("find_table", table=str(swap.backup)),))[0]:
        raise PublicationRefusedError(f"there is a table {swap.backup} already", next_step=_AGAIN)
    batch((named("rename_table", table=str(swap.live), new=str(swap.backup)),))
    batch((named("rename_table", table=str(swap.shadow), new=str(swap.live)),))
    if not swap.retain_backup:
        batch((named("drop_table", table=str(swap.backup)),))


def _lock_both(batch: Batch, swap: Swap) -> None:
    batch((settings(timedelta(milliseconds=TABLES_LOCK_WAIT_MS)),))
    if not batch((named("lock_both", tables=(str(swap.shadow), str(swap.live))),))[0][0][0]:
        raise PublicationBusyError(f"{swap.live} is held by others", next_step=_AGAIN)


def require_relation(batch: Batch, table: TableName, relation: str) -> None:
    """Require a name to stand for the table that it stood for.

    Errors: PublicationRefusedError.
    """
    if batch((named("find_table", table=str(table)),))[0] != [(relation,)]:
        raise PublicationRefusedError(f"{table} is gone, or is another table", next_step=_AGAIN)
