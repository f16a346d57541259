"""Whether a table can be loaded into as an inner mode does it: its kind, what hangs on it, and this user's privileges."""

from __future__ import annotations

from dpone_contract.errors import DatabaseFailedError, TableUnsuitableError
from dpone_contract.manifest import InnerMode
from dpone_runtime.adapters.postgres.catalog import PgTable, require_usage

_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
}
_COMMANDS = {
    InnerMode.PARTITION_REPLACE: ("SELECT", "INSERT", "DELETE"),
    InnerMode.REPLACE: ("SELECT", "INSERT", "DELETE"),
    InnerMode.FULL_REFRESH: ("INSERT", "DELETE"),
    InnerMode.INCREMENTAL_APPEND: ("INSERT",),
    InnerMode.INCREMENTAL_MERGE: ("SELECT", "INSERT", "UPDATE"),
}
"""What each mode does to its target. A predicate, a staging table of its columns and a conflict read it."""


def needed_privileges(mode: InnerMode, *, compares: bool = False, watched: bool = False) -> tuple[str, ...]:
    """Give the privileges on the target that a mode needs.

    `compares`: contents are compared before the commit; `watched`: what is left of a slice is looked for, since triggers may
    have kept it.
    """
    commands = _COMMANDS[mode]
    reads = compares or (watched and "DELETE" in commands)
    return ("SELECT", *commands) if reads and "SELECT" not in commands else commands


def require_target_fits(
    found: PgTable, mode: InnerMode, *, compares: bool = False, writes: bool = True
) -> None:
    """Require a table in which exactly-once holds: ordinary or partitioned, logged, without filtering row security.

    Unless it `writes`, this user needs to read it and no more.

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
    reason = _unfit(found, mode)
    if reason is not None:
        what, next_step = reason
        raise TableUnsuitableError(f"target {name} {what}", where="sink.table", next_step=next_step)
    require_usage(found, "sink")
    needed: tuple[str, ...] = ("SELECT",)
    what_for = "a verification"
    if writes:
        needed = needed_privileges(mode, compares=compares, watched=bool(found.delete_triggers))
        what_for = mode.value
    missing = [privilege for privilege in needed if privilege not in found.privileges]
    if missing:
        raise DatabaseFailedError(
            f"this user lacks {', '.join(missing)} on target table {name}, which {what_for} needs",
            where="sink.table",
            next_step=f"GRANT {', '.join(needed)} ON {name}",
        )


def _unfit(found: PgTable, mode: InnerMode) -> tuple[str, str] | None:
    """Say what else keeps rows from being there exactly once, and the way out, or give None."""
    deletes = "DELETE" in _COMMANDS[mode]
    if found.row_security:
        return "hides rows from this user by row security", "connect as its owner or as a role with BYPASSRLS"
    if found.has_children:
        return (
            "has tables that inherit from it: their rows would be deleted with the slice",
            "load into a table without them, or into a partitioned one",
        )
    if deletes and "DELETE" in found.rules:
        return (
            "has a rule on DELETE: the slice might not be deleted",
            "drop the rule, or use a trigger on INSERT",
        )
    rewritten = sorted(found.rules & {"INSERT", "UPDATE"})
    if mode is InnerMode.INCREMENTAL_MERGE and rewritten:
        return (
            f"has a rule on {' and '.join(rewritten)}: the server merges into no such table",
            "drop the rule",
        )
    if found.unfit_partition:
        return f"has the partition {found.unfit_partition}, which is foreign or not logged", "detach it"
    return None
