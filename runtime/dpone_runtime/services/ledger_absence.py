"""A ledger that does not answer for a while: its server restarts, or somebody has ended its session. A run bears that for so long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from dpone_contract.errors import DponeError
from dpone_runtime.services.run_report import RunObserver

LEDGER_WAIT = timedelta(seconds=30)
"""Less than a lease has left at its worst, so that none lapses for this alone."""


class LedgerAbsence:
    """A context that swallows what may pass by itself, up to the wait; whoever asked has to ask the ledger again.

    It counts from the first block that failed to the first that succeeds again.
    """

    def __init__(self, observer: RunObserver, clock: Callable[[], timedelta]) -> None:
        self._observer = observer
        self._clock = clock
        self._since: timedelta | None = None

    @property
    def lasts(self) -> bool:
        """Whether the ledger did not answer when it was last asked."""
        return self._since is not None

    def __enter__(self) -> None:
        """Begin to ask."""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        if error is None:
            self._since = None
        return isinstance(error, DponeError) and error.transient and self._borne(error)

    def _borne(self, error: DponeError) -> bool:
        now = self._clock()
        if self._since is None:
            self._since = now
            self._observer.waiting(
                f"the ledger does not answer; asking again for up to {LEDGER_WAIT.seconds} s: {error.message}"
            )
        return now - self._since < LEDGER_WAIT
