"""Which chunk a run tries next: those that nobody has tried yet, in order, then those that others hold, until it gives up."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import timedelta

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import ChunkBusyError
from dpone_runtime.domain.claim import ClaimVerdict
from dpone_runtime.domain.lease import BUSY_WAIT
from dpone_runtime.services.run_report import RunObserver

LOOK_AGAIN = timedelta(seconds=2)


class ChunkQueue:
    """The chunks of one run that are still to be claimed."""

    def __init__(self, indexes: Iterator[int], run_key: RunKey, observer: RunObserver) -> None:
        self._untried = indexes
        self._next = next(indexes, None)
        self._run_key = run_key
        self._observer = observer
        self._busy: deque[int] = deque()
        self._look_at = timedelta()
        self._busy_since: timedelta | None = None
        self._waited_for = ""

    @property
    def left(self) -> bool:
        """Whether any chunk is still to be claimed."""
        return self._next is not None or bool(self._busy)

    def take(self, now: timedelta, *, at_work: bool) -> int | None:
        """Give the chunk to try next; None while there is nothing to do but wait. `at_work`: this run's own chunks move.

        Errors: ChunkBusyError after the longest useful wait.
        """
        if now < self._look_at:
            return None
        waited = now - self._busy_since if self._busy_since is not None else timedelta()
        if waited > BUSY_WAIT and self._busy and not at_work:
            raise ChunkBusyError(
                f"{len(self._busy)} chunks are still held by other runs after {BUSY_WAIT.seconds} s, "
                f"the first is chunk {self._busy[0]}",
                where=f"campaign {self._run_key}, chunk {self._busy[0]}",
                next_step="see with `dpone backfill status MANIFEST` who is at work, then run this again",
                chunk_index=self._busy[0],
            )
        if self._next is not None:
            index, self._next = self._next, next(self._untried, None)
            return index
        return self._busy.popleft() if self._busy else None

    def claimed(self) -> None:
        """A chunk could be claimed: the wait for others begins anew."""
        self._busy_since = None

    def give_back(self, index: int) -> None:
        """Try a chunk again, which this run itself has let go."""
        self._busy.appendleft(index)

    def put_back(self, index: int, verdict: ClaimVerdict, now: timedelta) -> None:
        """Look at a chunk again later: others hold it, or too many are at work."""
        self._busy.append(index)
        if self._busy_since is None:
            self._busy_since = now
            why = (
                "max_active is reached"
                if verdict is ClaimVerdict.NOT_NOW
                else f"chunk {index} is held by another run"
            )
            if why != self._waited_for:
                self._waited_for = why
                self._observer.waiting(f"{why}; looking again for up to {BUSY_WAIT.seconds} s")
        # Of busy chunks the next one may be free; where too many are at work, none is.
        if self._next is None or verdict is ClaimVerdict.NOT_NOW:
            self._look_at = now + LOOK_AGAIN
