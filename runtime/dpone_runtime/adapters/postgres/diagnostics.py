"""What a doctor asks of a PostgreSQL server: rights, a proxy on the way, sessions that hold locks. Nothing is changed."""

from __future__ import annotations

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import SessionUnsafeError
from dpone_runtime.adapters.postgres.batches import lock_key
from dpone_runtime.adapters.postgres.completion import local_chunk_key
from dpone_runtime.adapters.postgres.connect import connect
from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.adapters.sql.queries import Queries, load_blocks
from dpone_runtime.adapters.sql.rows import Row
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.ports.diagnostics import LockingSession

SESSIONS_SHOWN = 50


class PostgresDiagnostics:
    """`TargetDiagnostics` over a session of its own."""

    def __init__(self, connection: ResolvedConnection, schema: str) -> None:
        self._resolved = connection
        self._schema = schema
        self._session = PostgresSession(connection, schema)
        self._queries = Queries(load_blocks(__package__, "diagnostics.sql"), {})

    def missing_rights(self) -> tuple[str, ...]:
        tables = self._read("missing_rights", schema=self._schema)
        missing = [f"{rights} on {self._schema}.{table}" for table, rights in tables]
        if self._read("read_only")[0][0]:
            missing.append("a server that can be written: this one is read-only")
        return tuple(missing)

    def pooled(self) -> bool:
        with connect(self._resolved, "doctor") as second:
            try:
                self._session.require_own_session(second)
            except SessionUnsafeError:
                return True
        return False

    def sessions(
        self, run_key: RunKey, relation: str | None, chunk_indexes: tuple[int, ...]
    ) -> tuple[LockingSession, ...]:
        named = self._named_locks(run_key, relation, chunk_indexes)
        return tuple(
            LockingSession(
                pid=pid,
                name=name,
                state=state,
                in_transaction=since,
                waits=waits,
                holds=(
                    *sorted({named.get(key, "a lock of another campaign") for key in keys or ()}),
                    *(f"rows of {table}" for table in sorted(tables or ())),
                ),
            )
            for pid, name, state, since, waits, keys, tables in self._read(
                "locking_sessions", count=SESSIONS_SHOWN
            )
        )

    def _named_locks(
        self, run_key: RunKey, relation: str | None, chunk_indexes: tuple[int, ...]
    ) -> dict[int, str]:
        """Give what the locks of a campaign are called by their keys; a key itself tells nothing."""
        named = {
            lock_key(purpose, self._schema, run_key): f"the {purpose} lock"
            for purpose in ("transition", "close", "fence")
        }
        for index in chunk_indexes:
            named[lock_key("chunk", self._schema, run_key, index)] = f"chunk {index}"
            if relation is not None:
                named[local_chunk_key(relation, run_key, index)] = f"chunk {index}"
        if relation is not None:
            named[lock_key("target", relation)] = "the target"
        return named

    def close(self) -> None:
        self._session.close()

    def _read(self, name: str, **values: object) -> list[Row]:
        return self._session.batch((self._queries.statement(name, **values),))[0]
