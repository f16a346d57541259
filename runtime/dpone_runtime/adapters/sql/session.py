"""The edge between the ledger and a driver: one session that runs batches of named statements."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from dpone_runtime.adapters.sql.queries import Queries, Statement
from dpone_runtime.adapters.sql.rows import Row
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.publication import ShadowContent, Swap
from dpone_runtime.ports.ledger import Fence


class LockTimeoutError(Exception):
    """A lock was not free within the session's bound; the transaction is rolled back."""


class SqlSession(Protocol):
    """One autocommitting connection of one dialect.

    `batch` sends its statements together and gives each one's rows. When it raises, the transaction, if any, has been
    rolled back. A batch that ends in `commit` returns only after one clear answer to it.
    """

    queries: Queries

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in order; the first error ends them all."""

    def begin_statements(self, lock_wait: timedelta) -> tuple[Statement, ...]:
        """Give what opens a protocol transaction: bounded lock waits, bounded idle time, no other timeout."""

    def lock_value(self, purpose: str, *scope: object) -> object:
        """Give a lock's name in the dialect's own form."""

    def queries_for_schema(self, schema: str) -> Queries:
        """Give the same queries over another audit schema."""

    def create_ledger(self) -> None:
        """Create schema and tables, what is missing of them, under the database-wide DDL lock, rechecked inside it."""

    def ledger_tables(self) -> frozenset[str]:
        """Say which of the ledger's tables are there, such as `chunks`."""

    def fence(self, lock: object, held_by: str) -> AbstractContextManager[Fence]:
        """Hold a session lock on a connection of its own; CampaignBusyError when it is taken."""

    def build_missing_index(self, swap: Swap) -> str | None:
        """Build one index that the live table has and its shadow has not yet, in the transaction under way; give its name.

        None where none is missing. Errors: LockTimeoutError; PublicationRefusedError for other tables of their names.
        """

    def hold_shadow(self, swap: Swap) -> ShadowContent:
        """Keep others from writing to a shadow for the length of the transaction under way, and say what it holds.

        Errors: LockTimeoutError; PublicationRefusedError for another table of its name.
        """

    def swap_tables(self, swap: Swap) -> None:
        """Hold both tables, require them to be what they were, and exchange their names, in the transaction under way.

        Errors: PublicationBusyError naming who holds them, and the transaction goes on as before; PublicationRefusedError.
        """

    def capabilities(self) -> StateCapabilities:
        """Say what this dialect's ledger can promise."""

    def close(self) -> None:
        """End the session."""
