"""What a mutation takes away from the protocol: conditions of queries by their SQL text, locks by purpose, endings, the clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weakening:
    """What is missing. Nothing is, in the protocol as it stands.

    `conditions` are pairs of a query's name and one of its conditions, word for word as in `ledger.sql`; `locks` are purposes,
    and `shared_locks` those whose sharing alone is left out.
    """

    conditions: frozenset[tuple[str, str]] = frozenset()
    locks: frozenset[str] = frozenset()
    shared_locks: frozenset[str] = frozenset()
    endings: bool = False
    """No holder of a chunk's lock is ever ended."""
    own_clock: bool = False
    """Every session takes the time from its client."""
    tallies: bool = False
    """No commit is counted."""
    table_locks: frozenset[str] = frozenset()
    """Modes in which no table is locked."""
    fence: bool = False
    """Any number of runs hold one fence."""


SOUND = Weakening()
