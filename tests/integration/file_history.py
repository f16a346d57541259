"""The small campaign to break, its ledger in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone_contract.environment import STATE_DIR
from dpone_runtime.adapters.local_file.ledger import LocalFileLedger
from dpone_runtime.adapters.local_file.lines import Line, decode
from dpone_runtime.adapters.postgres.target_locks import PostgresTargetLocks
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.state_directory import JOURNAL_SUFFIX
from tests.integration.campaigns import FIRST_DAY, History, day, manifest_text

BESIDE = "state: { backend: audit_schema, schema: dpone_audit, require_distributed_lock: true }"
IN_A_FILE = "state: { backend: local_file }"


def in_a_file(text: str) -> str:
    """Give a manifest of these tests with its ledger in a folder."""
    assert BESIDE in text
    return text.replace(BESIDE, IN_A_FILE)


class FileHistory(History):
    """A history whose manifests keep their ledger in `state`, a folder that the environment names."""

    def __init__(self, uri: str, folder: Path) -> None:
        super().__init__(uri, folder)
        self.state = folder / "state"
        self.environ[STATE_DIR] = str(self.state)

    def manifest(self, text: str | None = None, *, file: str = "history.yaml") -> str:
        return super().manifest(in_a_file(text or manifest_text(3)), file=file)

    @contextmanager
    def ledger(self) -> Iterator[LocalFileLedger]:
        """Open the ledger as another process does."""
        locks = PostgresTargetLocks(
            ResolvedConnection("target_db", self.uri, "test", "DPONE_CONN_TARGET_DB"), "dpone_audit"
        )
        ledger = LocalFileLedger(self.state, locks)
        try:
            yield ledger
        finally:
            ledger.close()

    @property
    def journal(self) -> Path:
        """The journal of the one campaign."""
        (path,) = self.state.glob(f"*{JOURNAL_SUFFIX}")
        return path

    @property
    def summary(self) -> Path:
        """The summary of the one campaign."""
        return self.journal.with_name(self.journal.name.replace(JOURNAL_SUFFIX, ".json"))

    def lines(self) -> list[Line]:
        """Every whole line of the journal but the first."""
        return [decode(text) for text in self.journal.read_bytes().splitlines(keepends=True)[1:]]

    def records(self) -> tuple[ChunkRecord, ...]:
        """Give the row of each chunk that was ever claimed."""
        with self.ledger() as ledger:
            run_key = self.lines()[0].campaign.run_key  # type: ignore[union-attr]  # it begins with the campaign
            return ledger.read_chunks(run_key, 1, 1000)

    def chunks(self) -> dict[int, tuple[str, int]]:
        return {record.chunk_index: (record.status.value, record.attempt) for record in self.records()}

    def events(self, chunk_index: int | None) -> list[str]:
        found = (line.event for line in self.lines())
        return [event.kind.value for event in found if event and event.chunk_index == chunk_index]

    def require_loaded(self, chunks_total: int) -> None:
        """Require the first days to be in the target exactly once, and each chunk to be committed once a round."""
        window = f"day BETWEEN '{FIRST_DAY}' AND '{day(chunks_total)}'"
        assert self.content("source.history", window) == self.content("target.history", window)
        expected = [(index, "committed") for index in range(1, chunks_total + 1)]
        assert expected == [(record.chunk_index, record.status.value) for record in self.records()]
        for record in self.records():
            commits = [
                line.event
                for line in self.lines()
                if line.event
                and line.event.chunk_index == record.chunk_index
                and (line.event.kind.value, line.event.round) == ("committed", record.round)
            ]
            assert [(record.attempt, record.owner)] == [(event.attempt, event.owner) for event in commits]
