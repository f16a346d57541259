"""What a data transaction owes the ledger besides its rows: one that completes the chunk's row, one that only commits.

The sink asks for statements and sends them around its own, the same for both.
"""

from __future__ import annotations

from typing import Protocol

import psycopg
from psycopg import errors

from dpone_runtime.adapters.postgres.batches import lock_key, postgres_queries, protocol_queries
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.adapters.sql.tally import tally_slot
from dpone_runtime.domain.local_run import LocalRun, local_data_scope
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest


class Completion(Protocol):
    """How a data transaction stands to the ledger."""

    def lock(self, request: LoadRequest, /) -> Statement:
        """Take the chunk's lock, for as long as the transaction lasts."""

    def guard(self, request: LoadRequest, /) -> tuple[Statement, ...]:
        """Ask whether the chunk is still this attempt's: where it is not, the last statement gives no row."""

    def complete(self, request: LoadRequest, receipt: LoadReceipt, /) -> tuple[Statement, ...]:
        """Give what is sent in one batch with COMMIT, before it."""

    def refused(self, error: psycopg.Error, /) -> bool:
        """Whether an error of that batch says that the chunk is not this attempt's any more."""


class RowCompletion:
    """The ledger lives beside the target: rows and the chunk's row commit together, or neither does."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._queries = postgres_queries(schema)

    def lock(self, request: LoadRequest) -> Statement:
        key = lock_key("chunk", self._schema, request.run_key, request.chunk.index)
        return self._queries.statement("lock", lock=key)

    def guard(self, request: LoadRequest) -> tuple[Statement, ...]:
        return (self._queries.statement("guard_chunk", **_ownership(request)),)

    def complete(self, request: LoadRequest, receipt: LoadReceipt) -> tuple[Statement, ...]:
        query = self._queries.statement
        return (
            query("lock_shared", lock=lock_key("close", self._schema, request.run_key)),
            query(
                "complete_chunk",
                **_ownership(request),
                rows_extracted=receipt.rows_extracted,
                rows_loaded=receipt.rows_loaded,
                content_digest=receipt.content_digest,
                detail=f"{receipt.rows_loaded} rows",
                slot=tally_slot(request.chunk.index),
            ),
        )

    def refused(self, error: psycopg.Error) -> bool:
        return (
            isinstance(error, errors.NotNullViolation) and error.diag.table_name == "__dpone__backfill_events"
        )


class BareCommit:
    """The ledger lives elsewhere and is told of the commit afterwards: rows alone commit here.

    What takes the place of the row's guard is that the run is alive: the session that holds its fence holds its token too.
    Whoever takes the fence next ends every transaction that has passed this guard, before it does anything else.
    """

    def __init__(self, run: LocalRun) -> None:
        self._run = run
        self._queries = protocol_queries()

    def lock(self, request: LoadRequest) -> Statement:
        key = local_chunk_key(self._run.relation, request.run_key, request.chunk.index)
        return self._queries.statement("lock", lock=key)

    def guard(self, _request: LoadRequest) -> tuple[Statement, ...]:
        # In this order: a token that is there after the lock was taken proves that nobody had taken the fence before it.
        return (
            self._queries.statement("lock_shared", lock=local_data_key(self._run.relation)),
            self._queries.statement("run_alive", lock=local_token_key(self._run)),
        )

    def complete(self, _request: LoadRequest, _receipt: LoadReceipt) -> tuple[Statement, ...]:
        return ()

    def refused(self, _error: psycopg.Error) -> bool:
        return False


def local_chunk_key(relation: str, run_key: str, chunk_index: int) -> int:
    """Give the key of a chunk's lock where the ledger is a file: of its target, whichever folder the file is in."""
    return lock_key("chunk", "local_file", relation, run_key, chunk_index)


def local_data_key(relation: str) -> int:
    """Give the key that every data transaction of such a run shares."""
    return lock_key(*local_data_scope(relation))


def local_token_key(run: LocalRun) -> int:
    """Give the key by which such a run shows that it is alive."""
    return lock_key("token", "local_file", run.relation, run.token)


def _ownership(request: LoadRequest) -> dict[str, object]:
    return {
        "run_key": request.run_key,
        "chunk_index": request.chunk.index,
        "revision": request.revision,
        "owner": request.owner,
        "round": request.round,
    }
