"""What a person sees of a run on stderr: a bar on a terminal, a line every few seconds in a log, nothing when quiet."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from datetime import timedelta

import typer

from dpone_contract.chunk_plan import ChunkPlan
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.services.run_report import Failure, RunReport

LINE_EVERY = timedelta(seconds=5)
_REDRAW_EVERY = timedelta(milliseconds=200)


class Progress:
    """`RunObserver` that writes lines, or redraws one line where stderr is a terminal.

    `write` takes one finished line, `redraw` replaces the current one.
    """

    def __init__(
        self,
        plan: ChunkPlan,
        clock: Callable[[], timedelta],
        *,
        quiet: bool,
        terminal: bool,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._quiet = quiet
        self._terminal = terminal
        self._began = clock()
        self._told_at = clock()
        self._drawn = False
        self._in_flight: dict[int, int] = {}

    def say(self, text: str) -> None:
        """Write one line, above the bar where there is one."""
        if not self._quiet:
            self._clear()
            typer.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Write one line, also when quiet."""
        self._clear()
        typer.echo(text, err=True)

    def committed(self, record: ChunkRecord, rows: int, bytes_moved: int) -> None:  # noqa: ARG002  # the port's
        self._in_flight.pop(record.chunk_index, None)

    def failed(self, failure: Failure) -> None:
        self._in_flight.pop(failure.chunk_index, None)
        self.warn(
            f"chunk {failure.chunk_index} ({self._plan.label(failure.chunk_index, failure.chunk_index)}) failed, "
            f"attempt {failure.attempt}: {failure.code}: {failure.message}"
        )

    def moved(self, chunk_index: int, bytes_moved: int) -> None:
        self._in_flight[chunk_index] = self._in_flight.get(chunk_index, 0) + bytes_moved

    def waiting(self, reason: str) -> None:
        self.say(reason)

    def tick(self, running: int, report: RunReport) -> None:
        self.draw(lambda: self.line(running, report))

    def elapsed(self) -> timedelta:
        """Give the time since the beginning."""
        return self._clock() - self._began

    def draw(self, line: Callable[[], str]) -> None:
        """Show a line of progress, where it is time for the next one."""
        if self._quiet:
            return
        every = _REDRAW_EVERY if self._terminal else LINE_EVERY
        now = self._clock()
        if now - self._told_at < every:
            return
        self._told_at = now
        text = line()
        if self._terminal:
            # A line that wraps could not be taken back.
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[2K{text[:width]}")
            sys.stderr.flush()
            self._drawn = True
        else:
            typer.echo(text, err=True)

    def line(self, running: int, report: RunReport) -> str:
        """Give the state in one line: chunks, rows, rates, what is left."""
        elapsed = max((self._clock() - self._began).total_seconds(), 0.001)
        done = report.skipped + report.committed
        parts = [f"{done}/{report.selected} chunks", f"{running} at work"]
        if report.failures:
            parts.append(f"{len(report.failures)} failed")
        moved = report.bytes_moved + sum(self._in_flight.values())
        parts += [f"{report.rows_loaded:,} rows", f"{moved / elapsed / 1e6:.1f} MB/s"]
        if report.committed:
            left = (report.selected - done) * elapsed / report.committed
            parts.append(f"{report.rows_loaded / elapsed:,.0f} rows/s")
            parts.append(f"about {_span(left)} left")
        share = done / report.selected if report.selected else 1.0
        bar = "#" * int(share * 10)
        return f"[{bar:<10}] {share:4.0%}  " + " | ".join(parts)

    def finish(self) -> None:
        """Leave no half-drawn line behind."""
        self._clear()

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._drawn = False


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
