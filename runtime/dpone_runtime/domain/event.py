"""Events: the append-only history that every transition writes in its own transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dpone_contract.chunk_plan import RunKey


class EventKind(StrEnum):
    """What happened."""

    OPENED = "opened"
    RESUMED = "resumed"
    ROUND_BEGUN = "round_begun"
    CANCEL_REQUESTED = "cancel_requested"
    HALTED = "halted"
    CLOSED = "closed"
    COMPLETED = "completed"
    PUBLISHED = "published"
    """The campaign's shadow became its target, in the transaction that wrote this: `detail` is the receipt, as JSON."""
    CLAIMED = "claimed"
    RELEASED = "released"
    FAILED = "failed"
    COMMITTED = "committed"
    CARRIED = "carried"
    """A committed chunk was taken over into a new round that loads others only."""
    VERIFICATION_BEGUN = "verification_begun"
    VERIFIED = "verified"
    DIFFERS = "differs"
    VERIFICATION_ENDED = "verification_ended"


@dataclass(frozen=True)
class Event:
    """One line of history; `chunk_index` is None for the campaign's own."""

    run_key: RunKey
    kind: EventKind
    round: int
    revision: int
    chunk_index: int | None = None
    attempt: int | None = None
    owner: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class PastEvent:
    """An event as the ledger keeps it; ids grow with time."""

    event_id: int
    at: datetime
    event: Event
