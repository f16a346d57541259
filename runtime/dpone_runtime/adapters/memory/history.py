"""The history of a `MemoryLedger`: events in order, each with its time; an event's id is its place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dpone_contract.chunk_plan import RunKey
from dpone_runtime.domain.event import Event, EventKind, PastEvent


class MemoryHistory:
    """Append-only. It has no lock of its own: the ledger's is held."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._past: list[PastEvent] = []

    def add(self, event: Event) -> None:
        """Add one line."""
        self._past.append(PastEvent(len(self._past) + 1, self._clock(), event))

    def events(self) -> list[Event]:
        """Give everything."""
        return [past.event for past in self._past]

    def of_campaign(self, run_key: RunKey) -> tuple[PastEvent, ...]:
        """Give a campaign's own events."""
        return tuple(
            past for past in self._past if past.event.run_key == run_key and past.event.chunk_index is None
        )

    def verdicts(self, run_key: RunKey, first: int, last: int, after: int) -> tuple[PastEvent, ...]:
        """Give what verifications found of chunks, later than an id."""
        return tuple(
            past
            for past in self._past
            if past.event_id > after
            and past.event.run_key == run_key
            and past.event.kind in (EventKind.VERIFIED, EventKind.DIFFERS)
            and first <= (past.event.chunk_index or 0) <= last
        )
