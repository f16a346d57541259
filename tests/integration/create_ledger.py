"""A process that creates a ledger together with others: it says that it is there, waits for the word, and goes.

Started as `python -m tests.integration.create_ledger URI SCHEMA`; the word is a shared advisory lock that a test gives free.
"""

from __future__ import annotations

import sys

import psycopg

from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.connections import ResolvedConnection

WORD = 4711


def main() -> None:
    """Create the ledger once the word is given."""
    uri, schema = sys.argv[1:]
    ledger = SqlLedger(PostgresSession(ResolvedConnection("target", uri, "test", "argument"), schema), schema)
    assert not ledger.exists()
    with psycopg.connect(uri, autocommit=True, application_name="waits for the word") as waiting:
        waiting.execute("SELECT pg_advisory_lock_shared(%s)", (WORD,))
        ledger.ensure_schema()
    assert ledger.exists()
    ledger.close()


if __name__ == "__main__":
    main()
