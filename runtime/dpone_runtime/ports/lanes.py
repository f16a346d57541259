"""Lanes: long-lived workers with connections of their own, each loading one chunk at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NewType, Protocol

from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest

LaneId = NewType("LaneId", int)


class LaneEventKind(StrEnum):
    """What a lane, or its end, tells the coordinator."""

    OPENED = "opened"
    PROGRESS = "progress"
    COMMITTED = "committed"
    FAILED = "failed"
    BUSY = "busy"
    LEASE_LOST = "lease_lost"
    COMMIT_UNKNOWN = "commit_unknown"
    BROKEN = "broken"
    GONE = "gone"


@dataclass(frozen=True)
class LaneEvent:
    """One message. BROKEN: the lane could not open; GONE: its process has ended, whatever else it said before.

    `rows_extracted`, `rows_loaded`, `bytes_moved` and the digest, if there is one, come with COMMITTED, `bytes_moved` alone with PROGRESS; `code`,
    `message`, `where` and `next_step` with failures.
    """

    lane: LaneId
    kind: LaneEventKind
    chunk_index: int | None = None
    rows_extracted: int = 0
    rows_loaded: int = 0
    bytes_moved: int = 0
    content_digest: str | None = None
    code: str | None = None
    message: str = ""
    where: str | None = None
    next_step: str | None = None


def receipt_of(event: LaneEvent) -> LoadReceipt:
    """Give what a COMMITTED event tells of its chunk."""
    return LoadReceipt(event.rows_extracted, event.rows_loaded, event.bytes_moved, event.content_digest)


class ChunkLoader(Protocol):
    """What a lane opens: everything that loads one chunk after another."""

    def load(self, request: LoadRequest, progress: Callable[[int], None]) -> LoadReceipt:
        """Load one chunk in one target transaction; `progress` is told the bytes of each block.

        Errors: those of `Source.read` and `Sink.load`.
        """

    def close(self) -> None:
        """End its sessions."""


class LanePool(Protocol):
    """The coordinator's lanes. Not thread-safe: one coordinator, one thread."""

    def start(self) -> LaneId:
        """Begin a lane; it is ready once its OPENED event was polled. Fails before any claim when it cannot be."""

    def send(self, lane: LaneId, request: LoadRequest) -> None:
        """Give a ready, idle lane a chunk. Whatever becomes of the write, an event tells how the chunk ended."""

    def poll(self, timeout: timedelta) -> tuple[LaneEvent, ...]:
        """Wait for messages and process ends, and give all that are there as one observation.

        A lane's last messages come before its GONE. A lane silent for too long is ended and reported GONE.
        """

    def end(self, lanes: tuple[LaneId, ...], grace: timedelta) -> None:
        """End lanes and whatever they started, all within one shared deadline; returns when they are gone."""

    def close(self, grace: timedelta) -> None:
        """Ask every lane to finish, end those that do not."""
