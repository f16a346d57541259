"""Ctrl-C and SIGTERM: the first asks the run to stop, a second ends it at once.

Before chunks are at work the first ends it too, by an exception; while they are, it is only noted, so that they may finish.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from dpone_contract.errors import ExitCode, InterruptedRunError
from dpone_runtime.adapters.lanes.containment import die_with_parent


class Interruption:
    """Whether the run was told to stop."""

    def __init__(self) -> None:
        self._requested = False
        self._cooperative = False

    def requested(self) -> bool:
        """Whether a signal has come."""
        return self._requested

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take both signals while the block runs, and give them back after it."""
        previous = {number: signal.signal(number, self._take) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextmanager
    def cooperative(self) -> Iterator[None]:
        """Only note the first signal while the block runs."""
        self._cooperative = True
        try:
            yield
        finally:
            self._cooperative = False

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self._requested:
            typer.echo("stopped at once; leases of chunks at work lapse within 90 s", err=True)
            # Lanes die with this process; nothing that would still run could do better than the ledger does.
            os._exit(ExitCode.OWNERSHIP_OR_INFRASTRUCTURE)
        self._requested = True
        if not self._cooperative:
            name = signal.Signals(number).name
            raise InterruptedRunError(
                f"told to stop by {name} before any chunk was at work; nothing was moved",
                next_step="run it again when you are ready",
            )


def die_with_airflow(parent: str) -> None:
    """Stop when the Airflow process that started this run is gone, however it ended; `parent` is its process id."""
    if parent.isascii() and parent.isdigit():
        die_with_parent(int(parent), signal.SIGTERM)
