"""The locks of a run whose ledger is a file: one session that makes it the target's only run, and ends what others left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
from psycopg import errors

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import CampaignBusyError
from dpone_runtime.adapters.postgres.batches import lock_key, protocol_queries, run_batch
from dpone_runtime.adapters.postgres.completion import local_chunk_key, local_data_key, local_token_key
from dpone_runtime.adapters.postgres.connect import PgConnection, connect, translate
from dpone_runtime.adapters.postgres.session import PostgresFence, PostgresSession
from dpone_runtime.adapters.sql.other_campaigns import campaigns_on_target, require_same_table
from dpone_runtime.adapters.sql.session import LockTimeoutError
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.domain.campaign import TableIdentity
from dpone_runtime.domain.local_run import LocalRun
from dpone_runtime.ports.ledger import OtherCampaign

TAKE_WAIT = timedelta(seconds=2)
"""How long the target may be held by somebody who only opens a campaign."""

LEFTOVER_WAIT = timedelta(seconds=15)
"""How long sessions that were told to end may take."""


class PostgresTargetLocks:
    """`TargetLocks` over sessions of the target's connection. `audit_schema` is only where messages say that they look."""

    def __init__(self, connection: ResolvedConnection, audit_schema: str) -> None:
        self._resolved = connection
        self._audit_schema = audit_schema
        self._opened: PostgresSession | None = None
        self._queries = protocol_queries()

    @property
    def _session(self) -> PostgresSession:
        if self._opened is None:
            self._opened = PostgresSession(self._resolved, self._audit_schema)
        return self._opened

    @contextmanager
    def fence(self, run_key: RunKey, run: LocalRun) -> Iterator[PostgresFence]:
        connection = connect(self._resolved, "fence")
        try:
            self._session.require_own_session(connection)
            self._take(connection, run_key, run)
            self._end_leftovers(run_key, run)
            held = self._queries.statement("fence_held", lock=local_token_key(run))
            yield PostgresFence(connection, held)
        finally:
            connection.close()

    def _take(self, connection: PgConnection, run_key: RunKey, run: LocalRun) -> None:
        """Take the target and the run's own token for as long as the session lasts.

        The target's lock is the one that every opening of a campaign takes for a moment, so that no ledger beside the target
        opens one while this run is at work.
        """
        query = self._queries.statement
        statements = (
            *self._session.begin_statements(TAKE_WAIT),
            query("session_lock", lock=lock_key("target", run.relation)),
            query("session_lock", lock=local_token_key(run)),
            query("commit"),
        )
        where = f"connection {self._resolved.name}"
        try:
            run_batch(connection, statements)
        except errors.LockNotAvailable as error:
            raise CampaignBusyError(
                "the target is held by another run over a local_file ledger, perhaps of another folder or machine",
                where=f"campaign {run_key}, {where}",
                next_step="wait until that run has ended, then run this again; nothing needs to be deleted",
                run_key=run_key,
            ) from error
        except psycopg.Error as error:
            raise translate(error, "taking the target for a run", where) from error

    def _end_leftovers(self, run_key: RunKey, run: LocalRun) -> None:
        """End the data transactions that an earlier run has left: no run but this one is alive on the target."""
        query, lock = self._queries.statement, local_data_key(run.relation)
        try:
            self._session.batch(
                (
                    *self._session.begin_statements(LEFTOVER_WAIT),
                    query("chunk_lock_holders", lock=lock),
                    # Alone with it for a moment: then every one of them has come to its end.
                    query("lock", lock=lock),
                    query("commit"),
                )
            )
        except LockTimeoutError as error:
            raise CampaignBusyError(
                f"sessions of an earlier run are still at work on the target after {LEFTOVER_WAIT.seconds} s",
                where=f"campaign {run_key}, connection {self._resolved.name}",
                next_step="end them in pg_stat_activity, then run this again",
                run_key=run_key,
            ) from error

    def end_holders(self, relation: str, run_key: RunKey, chunk_index: int) -> int:
        lock = local_chunk_key(relation, run_key, chunk_index)
        return len(self._session.batch((self._queries.statement("chunk_lock_holders", lock=lock),))[0])

    def campaigns_on(self, target: TableIdentity) -> tuple[OtherCampaign, ...]:
        found = self._session.batch((self._queries.statement("find_ledgers"),))[0]
        return campaigns_on_target(self._session, target, tuple(row[0] for row in found), None, over=False)

    def require_same_table(self, run_key: RunKey, target: TableIdentity) -> None:
        names = self._session.batch((self._queries.statement("relations_of_name", name=target.name),))[0]
        require_same_table(run_key, target, {row[0] for row in names})

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
