"""Opening PostgreSQL connections, and turning the driver's exceptions into ours: once, here."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from dpone_contract.errors import (
    ChunkFailedError,
    ConnectionFailedError,
    DatabaseFailedError,
    DponeError,
    LedgerMissingError,
    TableMissingError,
)
from dpone_runtime.adapters.postgres.sqlstates import advice, is_transient
from dpone_runtime.connections import ResolvedConnection

CONNECT_TIMEOUT_SECONDS = 15

DATA_LOCK_WAIT_MS = 60_000
"""How long a data transaction waits for each lock on a table or row; then its attempt fails and is made again."""

# Keepalives under a minute on both ends, so that neither side waits long for a peer that vanished.
_KEEPALIVES = {"keepalives": 1, "keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4}
# Of sessions that only ever send small statements: what the peer does not acknowledge for so long is lost, well before a
# lease is. A copy may rightly wait longer, where the other side's disk is slow.
_UNACKNOWLEDGED_MS = 40_000
_SMALL_TALK = ("ledger", "fence")
# From the first quote to the last: a value may hold quotes itself.
_VALUE_IN_MESSAGE = re.compile(r':? ?".*"|: 0x.*$', re.DOTALL)

# Without a handler Python writes the driver's warnings to stderr, with host, user and database: what it warns of is an
# error that we raise ourselves.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

PgConnection = psycopg.Connection[tuple[object, ...]]


def connect(connection: ResolvedConnection, purpose: str, *, again: bool = False) -> PgConnection:
    """Open an autocommitting session named `dpone <purpose>`; nothing is prepared, so that poolers work.

    `again`: the same login has succeeded before in this run, so that a refusal may pass by itself.

    Errors: ConnectionFailedError with the server's own reason.
    """
    parameters = {
        "application_name": f"dpone {purpose}"[:63],
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "client_encoding": "UTF8",
        **_KEEPALIVES,
    }
    if purpose in _SMALL_TALK:
        parameters["tcp_user_timeout"] = _UNACKNOWLEDGED_MS
    try:
        return psycopg.connect(
            connection.dsn,
            autocommit=True,
            prepare_threshold=None,
            **parameters,  # type: ignore[arg-type]  # libpq's own keywords, which psycopg takes as text or number
        )
    except psycopg.Error as error:
        raise ConnectionFailedError(
            f"cannot connect as {connection.name}: {_reason(error)}",
            where=f"connection {connection.name} ({connection.shown})",
            next_step=f"check host, port, database, user and password in {connection.origin}",
            transient=again,
        ) from None  # libpq's text names every address that it tried


def session_settings(connection: PgConnection, lock_wait_ms: int, idle_ms: int) -> dict[str, str]:
    """Give the settings of one transaction: no statement timeout, bounded waits for locks, bounded idle time.

    They are set locally, so that a transaction-pooling proxy can hand the server session on unchanged.
    """
    settings = {
        "statement_timeout": "0",
        "lock_timeout": str(lock_wait_ms),
        "idle_in_transaction_session_timeout": str(idle_ms),
        "synchronous_commit": "on",
        "row_security": "off",
        "xmloption": "content",
        "tcp_keepalives_idle": "20",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "4",
    }
    if connection.info.server_version >= 140000:
        settings["client_connection_check_interval"] = "10000"
    if connection.info.server_version >= 170000:
        settings["transaction_timeout"] = "0"
    return settings


@contextmanager
def translated(doing: str, where: str | None = None) -> Iterator[None]:
    """Turn the driver's exceptions inside the block into ours, which then name the place."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, doing, where) from error


def translate(error: psycopg.Error, doing: str, where: str | None = None) -> DponeError:
    """Give our error for one of the driver's: the server's message and SQLSTATE, never a value or a statement."""
    state = error.sqlstate
    if state is None:
        return DatabaseFailedError(
            f"the connection broke while {doing}: {_reason(error)}",
            where=where,
            next_step="run it again; committed chunks are skipped",
            transient=is_transient(error),
        )
    text = f"{safe_message(error)} (SQLSTATE {state}) while {doing}"
    if isinstance(error, (errors.UndefinedTable, errors.InvalidSchemaName)):
        return TableMissingError(
            text, where=where, next_step="check schema and name in the manifest; case matters"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return DatabaseFailedError(
            text, where=where, next_step="grant what the message names to this user", sqlstate=state
        )
    if state[:2] in ("22", "23", "44", "P0"):
        return ChunkFailedError(
            text,
            where=where,
            next_step="mend the rows or the constraint, then run it again; committed chunks are skipped",
        )
    return DatabaseFailedError(
        text, where=where, next_step=advice(error), transient=is_transient(error), sqlstate=state
    )


def ledger_denied(error: psycopg.Error, schema: str, where: str) -> LedgerMissingError:
    """Give the error of a ledger of which something is missing and may not be created."""
    return LedgerMissingError(
        f"the ledger in schema {schema} is not there, or not whole, and cannot be created: {safe_message(error)}",
        where=where,
        next_step="let a role that may create them run what `dpone state ddl MANIFEST` prints, and grant this user "
        "USAGE on the schema and SELECT, INSERT, UPDATE on its tables",
    )


def ledger_gone(schema: str, where: str) -> LedgerMissingError:
    """Give the error of a ledger whose tables were dropped while a command was at work with it."""
    return LedgerMissingError(
        f"the ledger in schema {schema} is gone",
        where=where,
        next_step="find out who dropped it; a ledger of the same schema is restored, or the load begun again",
    )


def safe_message(error: psycopg.Error) -> str:
    """Give the server's primary message without the row values that some of them quote.

    A trigger or function words its own refusal, and may put a row into it: then the place where to read it is named.
    """
    message = error.diag.message_primary or type(error).__name__
    state = error.sqlstate or ""
    if state[:2] == "P0" or (state[:2] == "23" and not _words_are_the_servers(error)):
        return "a trigger or function refused a row; its own words are in the server's log"
    if state[:2] == "22":
        message = _VALUE_IN_MESSAGE.sub("", message)
    return message


def _words_are_the_servers(error: psycopg.Error) -> bool:
    """Whether the server itself refused a row; a row that no partition takes breaks no constraint that has a name."""
    diag = error.diag
    named = diag.constraint_name or diag.column_name or diag.datatype_name
    return bool(named) or diag.source_function == "ExecFindPartition"


def _reason(error: psycopg.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    found = [
        re.sub(r"^.*?(FATAL|ERROR):\s*", "", line) for line in lines if "FATAL" in line or "ERROR" in line
    ]
    # The first line says what happened; what libpq adds to it are guesses.
    return found[-1] if found else lines[0]
