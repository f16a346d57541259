"""What a server's refusal asks for: another try a little later, or somebody's hand; by its SQLSTATE, in one place."""

from __future__ import annotations

import psycopg

_BUSY = ("40001", "40P01", "55P03", "53300")
"""Serialization failure (on a standby: a conflict with recovery), deadlock, lock timeout, too many connections."""

_AWAY = ("57P01", "57P02", "57P03")
"""The server shuts down, has crashed, starts up; or an administrator has ended the session."""

_AGAIN = "run it again; committed chunks are skipped"
_ADVICE = {
    "42704": f"create what the message names beside the target, or leave its column out, then {_AGAIN}",
    "40P01": f"keep other sessions from changing rows of this slice in another order, then {_AGAIN}",
    "55P03": "look in pg_locks and pg_stat_activity for the session that holds the table, let it end, then "
    + _AGAIN,
    "53300": f"raise max_connections, or run fewer lanes at once, then {_AGAIN}",
    "53100": f"the server's disk is full: free space there, or move the table to another tablespace, then {_AGAIN}",
    "53200": f"the server has no memory left: lower what others use there, or load smaller chunks, then {_AGAIN}",
    "54000": "a row is larger than the server can write as text (1 GB): leave the column out, or compare by counts "
    f"(verify: counts, --method counts), then {_AGAIN}",
    "53400": f"raise the limit that the message names for this user, or load smaller chunks, then {_AGAIN}",
}
_RECOVERY_ADVICE = (
    "the source is a standby that had to replay changes: set hot_standby_feedback = on there, or raise "
    f"max_standby_streaming_delay beyond the time of a chunk, or load smaller chunks; then {_AGAIN}"
)


def is_transient(error: psycopg.Error) -> bool:
    """Whether the same attempt, made again a little later, may succeed without anybody having mended anything.

    A connection that breaks has no SQLSTATE, and comes as an OperationalError. 08P01 is a statement that the protocol refuses,
    whenever it is sent.

    Source: the design, committing a chunk: what is tried again is the attempt, never a statement.
    """
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    if state == "08P01":
        return False
    return state[:2] == "08" or state in (*_BUSY, *_AWAY) or is_recovery_conflict(error)


def is_recovery_conflict(error: psycopg.Error) -> bool:
    """Whether a standby ended the statement, or its session, because it replays what removes rows that it may read.

    Its message is in the server's language, the name of the function that raised it is not.
    """
    return "RecoveryConflict" in (error.diag.source_function or "") or "conflict with recovery" in (
        error.diag.message_primary or ""
    )


def advice(error: psycopg.Error) -> str:
    """Say what to do about an error."""
    if is_recovery_conflict(error):
        return _RECOVERY_ADVICE
    return _ADVICE.get(error.sqlstate or "", _AGAIN)
