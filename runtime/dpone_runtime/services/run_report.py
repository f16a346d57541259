"""What a run of chunks comes to: its counters and failures, and whom it tells of them on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from dpone_runtime.domain.chunk_record import ChunkRecord


@dataclass(frozen=True)
class Failure:
    """A chunk that did not commit, and why; `infrastructure` tells ownership and machinery from data."""

    chunk_index: int
    attempt: int
    code: str
    message: str
    next_step: str | None
    infrastructure: bool


@dataclass
class RunReport:
    """Counters of one run. `left` counts selected chunks that were never begun.

    `stopped`: the ledger lets no chunk begin. `ending`: a failure lets this run begin none.
    """

    selected: int = 0
    skipped: int = 0
    committed: int = 0
    left: int = 0
    rows_extracted: int = 0
    rows_loaded: int = 0
    bytes_moved: int = 0
    failures: list[Failure] = field(default_factory=list)
    stopped: bool = False
    ending: bool = False
    interrupted: bool = False


class RunObserver(Protocol):
    """Whom the coordinator tells what happens; progress and logs are theirs."""

    def committed(self, record: ChunkRecord, rows: int, bytes_moved: int) -> None:
        """A chunk's rows are in the target."""

    def failed(self, failure: Failure) -> None:
        """A chunk did not commit."""

    def moved(self, chunk_index: int, bytes_moved: int) -> None:
        """Bytes of a chunk on their way to the target, not committed yet."""

    def waiting(self, reason: str) -> None:
        """Nothing can be done at this moment, and why."""

    def tick(self, running: int, report: RunReport) -> None:
        """Called at least twice a second."""
