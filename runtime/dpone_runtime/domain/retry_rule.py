"""How often one run tries a chunk that failed for a reason which may pass by itself, and how long it waits in between."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class RetryRule:
    """`tries` attempts of one chunk in one run, the first included; each wait is `factor` times the one before it."""

    tries: int = 3
    first_wait: timedelta = timedelta(seconds=1)
    factor: int = 4

    def wait_after(self, failed_tries: int) -> timedelta | None:
        """Give the wait before the next try, or None where there is none; `failed_tries` counts from one."""
        if failed_tries >= self.tries:
            return None
        return self.first_wait * int(self.factor ** (failed_tries - 1))


THREE_TRIES = RetryRule()
"""What a run goes by unless it is told otherwise."""
