"""What the demo asks the target's database: the ledger's rows and events, and whether a row was touched at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

LEDGER = "dpone_audit"
TARGET = "analytics.flights"


@dataclass(frozen=True)
class LedgerFacts:
    """One look at ledger and target.

    `xmins` digests which transaction wrote each row, and where it lies: equal digests mean that no row was written.
    `attempts` maps a number of attempts to how many chunks needed it.
    """

    committed: int
    committed_twice: int
    failed: tuple[int, ...]
    attempts: dict[int, int]
    events: dict[str, int]
    rows: int
    xmins: str


def read_facts(uri: str) -> LedgerFacts:
    """Read everything in one snapshot."""
    with psycopg.connect(uri) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        chunks = f"{LEDGER}.__dpone__backfill_chunks"
        events = f"{LEDGER}.__dpone__backfill_events"
        return LedgerFacts(
            committed=_number(connection, f"SELECT count(*) FROM {chunks} WHERE status = 'committed'"),
            committed_twice=_number(
                connection,
                f"SELECT count(*) FROM (SELECT chunk_index FROM {events} WHERE kind = 'committed' "
                "GROUP BY chunk_index HAVING count(*) > 1) twice",
            ),
            failed=tuple(
                row[0]
                for row in _rows(
                    connection, f"SELECT chunk_index FROM {chunks} WHERE status = 'failed' ORDER BY 1"
                )
            ),
            attempts=dict(_rows(connection, f"SELECT attempt, count(*) FROM {chunks} GROUP BY 1 ORDER BY 1")),
            events=dict(_rows(connection, f"SELECT kind, count(*) FROM {events} GROUP BY 1 ORDER BY 1")),
            rows=_number(connection, f"SELECT count(*) FROM {TARGET}"),
            xmins=str(
                _rows(
                    connection,
                    f"SELECT coalesce(sum(hashtextextended(ctid::text || xmin::text, 0)::numeric), 0) FROM {TARGET}",
                )[0][0]
            ),
        )


def _rows(connection: psycopg.Connection, text: str) -> list[tuple[Any, ...]]:
    return connection.execute(text.encode()).fetchall()


def _number(connection: psycopg.Connection, text: str) -> int:
    return int(str(_rows(connection, text)[0][0]))
