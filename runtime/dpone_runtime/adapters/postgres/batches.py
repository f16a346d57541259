"""Batches of named statements on one connection, the queries that they come from, and the keys of advisory locks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from dpone_runtime.adapters.postgres.connect import PgConnection
from dpone_runtime.adapters.postgres.identifiers import ledger_tables
from dpone_runtime.adapters.sql.queries import Queries, Statement, load_blocks
from dpone_runtime.adapters.sql.rows import Row


def postgres_queries(schema: str) -> Queries:
    """Read the ledger's queries over one audit schema."""
    return Queries(load_blocks(__package__, "ledger.sql", "schema.sql"), ledger_tables(schema))


def protocol_queries() -> Queries:
    """Read the queries that name no table of a ledger; those that do cannot be sent from these."""
    return Queries(load_blocks(__package__, "ledger.sql", "local_run.sql"), {})


def lock_key(purpose: str, *scope: object) -> int:
    """Give the signed 64-bit key of an advisory lock: a digest of its purpose and scope."""
    named = "\x1f".join(("dpone", purpose, *map(str, scope)))
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:8], "big", signed=True)


def settings_statement(settings: dict[str, str]) -> Statement:
    """Give one statement that sets all settings for the current transaction."""
    calls = ", ".join(f"set_config('{name}', %({name})s, true)" for name in settings)
    return Statement("settings", f"SELECT {calls}", settings)


def run_batch(connection: PgConnection, statements: Sequence[Statement]) -> list[psycopg.Cursor[Row]]:
    """Send statements together, give their cursors; the first error ends the batch."""
    with connection.pipeline():
        cursors: list[psycopg.Cursor[Any]] = [
            # In binary, so that no setting of the server's, such as DateStyle, says how times are written.
            connection.execute(*sent(statement), binary=True)
            for statement in statements
        ]
    if connection.info.transaction_status == TransactionStatus.INTRANS:
        # psycopg ends a pipeline with Sync and then Flush, and the server (18) stops its idle timer at Flush without
        # starting it again: a frozen process would hold its locks for ever. An empty query starts it again.
        connection.execute(b"")
    return cursors


def sent(statement: Statement) -> tuple[bytes, dict[str, object]]:
    """Give a statement as the driver takes it."""
    return statement.text.encode(), dict(statement.values)
