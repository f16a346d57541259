"""An observer of runs that nobody listens to."""

from __future__ import annotations

from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.services.run_report import Failure, RunReport


class SilentObserver:
    """`RunObserver` to whom nothing matters."""

    def committed(self, record: ChunkRecord, rows: int, bytes_moved: int) -> None:
        """Nothing."""

    def failed(self, failure: Failure) -> None:
        """Nothing."""

    def moved(self, chunk_index: int, bytes_moved: int) -> None:
        """Nothing."""

    def waiting(self, reason: str) -> None:
        """Nothing."""

    def tick(self, running: int, report: RunReport) -> None:
        """Nothing."""
