"""The ledger in a folder as the suite drives it: two ledgers over the same files, locks in a real target's database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from dpone_runtime.adapters.local_file.ledger import LocalFileLedger
from dpone_runtime.adapters.local_file.lines import decode
from dpone_runtime.adapters.postgres.batches import protocol_queries, run_batch
from dpone_runtime.adapters.postgres.completion import local_chunk_key
from dpone_runtime.adapters.postgres.connect import connect
from dpone_runtime.adapters.postgres.target_locks import PostgresTargetLocks
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.domain.event import Event
from dpone_runtime.domain.local_run import new_local_run
from dpone_runtime.ports.connectors import LoadReceipt
from dpone_runtime.state_directory import JOURNAL_SUFFIX
from tests.campaign_factories import TARGET
from tests.conformance.ledger_suite import Hold, LedgerBackend


def resolved(uri: str) -> ResolvedConnection:
    """A connection as the environment would give it."""
    return ResolvedConnection("target", uri, "test", "DPONE_CONN_TARGET")


def ledger_over(
    folder: Path, uri: str, relation: str = TARGET.relation, **arguments: object
) -> LocalFileLedger:
    """A ledger of a run of its own over a folder."""
    locks = PostgresTargetLocks(resolved(uri), "dpone_audit")
    return LocalFileLedger(folder, locks, new_local_run(relation), **arguments)


def events_of(folder: Path) -> list[Event]:
    """Give the events of every journal of a folder in order of time."""
    lines = [
        decode(text)
        for path in folder.glob(f"*{JOURNAL_SUFFIX}")
        for text in path.read_bytes().splitlines(keepends=True)[1:]
    ]
    return [line.event for line in sorted(lines, key=lambda line: line.at) if line.event is not None]


class SessionHold(Hold):
    """A sink's session in a transaction with a chunk's lock."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self._connection = connection

    def ended(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False


class LocalFileBackend(LedgerBackend):
    """Two runs' ledgers over one folder."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder, self.uri = folder, uri
        self.ledger, self.second = ledger_over(folder, uri), ledger_over(folder, uri)
        self._elsewhere = ledger_over(folder, uri, "9")
        self._sinks: list[psycopg.Connection[tuple[object, ...]]] = []
        self.ledger.ensure_schema()

    def close(self) -> None:
        """End every session."""
        for ledger in (self.ledger, self.second, self._elsewhere):
            ledger.close()
        for connection in self._sinks:
            connection.close()

    def on_another_target(self):
        """A run has its whole target, so that one of another campaign needs another target."""
        return self._elsewhere

    def expire_lease(self, record):
        """Renew it to an end that is over."""
        past = ledger_over(self.folder, self.uri, lease_ttl=timedelta(seconds=-1))
        found = past.read_chunk(record.run_key, record.chunk_index)
        assert past.renew(found)
        past.close()

    def pass_time(self):
        """The machine's clock moves by itself."""

    def complete(self, request, rows_extracted, rows_loaded):
        self.ledger.record_commit(request, LoadReceipt(rows_extracted, rows_loaded, 0))

    def hold_chunk(self, record):
        sink = connect(resolved(self.uri), "sink")
        self._sinks.append(sink)
        query = protocol_queries().statement
        key = local_chunk_key(TARGET.relation, record.run_key, record.chunk_index)
        run_batch(sink, (query("begin"), query("lock", lock=key)))
        return SessionHold(sink)

    def events(self):
        return events_of(self.folder)


@pytest.fixture
def local_file_backend(shared_database: str, tmp_path: Path) -> Iterator[LocalFileBackend]:
    """An empty folder."""
    backend = LocalFileBackend(tmp_path / "not there" / "yet", shared_database)
    try:
        yield backend
    finally:
        backend.close()
