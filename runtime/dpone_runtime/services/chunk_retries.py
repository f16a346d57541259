"""Chunks of one run that failed for a reason which may pass by itself: when each is due again, and what is told of them.

A chunk that waits here has no lease: its row says `failed`, and whoever comes first may claim it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from dpone_runtime.domain.retry_rule import RetryRule
from dpone_runtime.services.run_report import Failure


@dataclass(frozen=True)
class _Waiting:
    failure: Failure
    due_at: timedelta


class ChunkRetries:
    """Keeps nothing of a chunk that never failed, so that memory does not grow with their number."""

    def __init__(self, rule: RetryRule, clock: Callable[[], timedelta]) -> None:
        self._rule = rule
        self._clock = clock
        self._failed = Counter[int]()
        self._waiting: dict[int, _Waiting] = {}

    @property
    def waiting(self) -> bool:
        """Whether some chunk is still to be tried again."""
        return bool(self._waiting)

    def worded(self, chunk_index: int, message: str) -> str:
        """Give the message of one more failed try, which says how many there were where it was not the first."""
        tries = self._failed[chunk_index] + 1
        return message if tries == 1 else f"{message} (tried {tries} times)"

    def wait(self, chunk_index: int) -> timedelta | None:
        """Give how long a chunk that failed once more would wait for its next try, or None where it has had them all."""
        return self._rule.wait_after(self._failed[chunk_index] + 1)

    def count(self, chunk_index: int) -> None:
        """Count a failed try, once the ledger knows of it."""
        self._failed[chunk_index] += 1

    def postpone(self, failure: Failure, wait: timedelta) -> None:
        """Keep a failed chunk for its next try."""
        self._waiting[failure.chunk_index] = _Waiting(failure, self._clock() + wait)

    def take_due(self) -> int | None:
        """Give the chunk that has waited longest beyond its time, or None while none is due."""
        due = [found for found in self._waiting.values() if found.due_at <= self._clock()]
        if not due:
            return None
        first = min(due, key=lambda found: found.due_at).failure.chunk_index
        del self._waiting[first]
        return first

    def give_up(self) -> tuple[Failure, ...]:
        """Wait no longer: give the last failure of each chunk that was to be tried again."""
        given_up = tuple(found.failure for found in self._waiting.values())
        self._waiting.clear()
        return given_up
