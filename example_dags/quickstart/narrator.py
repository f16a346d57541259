"""How the demo speaks: numbered parts, the commands that it runs with what they print, and proofs that hold or do not."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape


class CommandFailedError(RuntimeError):
    """A command of the demo ended with another exit code than expected; the message holds what it printed."""


@dataclass
class Narrator:
    """Writes to stdout; on a terminal with colour. Keeps the time of each part and every proof."""

    parts: int
    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    proofs: list[tuple[str, bool]] = field(default_factory=list)
    timings: list[tuple[str, float]] = field(default_factory=list)
    _part: int = 0
    _began: float = field(default_factory=time.monotonic)

    def part(self, title: str) -> None:
        """Begin a part; the time of the one before ends here."""
        self._part += 1
        self.console.print()
        self.console.rule(f"[bold]{self._part}/{self.parts}  {title}", align="left")
        self.timings.append((title, time.monotonic()))

    def seconds(self) -> list[tuple[str, float]]:
        """Give each part's title and length in seconds, then the whole."""
        now = time.monotonic()
        ends = [began for _, began in self.timings[1:]] + [now]
        lengths = [(title, end - began) for (title, began), end in zip(self.timings, ends, strict=True)]
        return [*lengths, ("all together", now - self._began)]

    def say(self, text: str) -> None:
        """Write a line."""
        self.console.print(text)

    def detail(self, text: str, *, style: str = "dim") -> None:
        """Write lines that belong to the one before."""
        for line in text.rstrip().splitlines():
            self.console.print(f"    [{style}]{escape(line)}[/]")

    def prove(self, fact: str, holds: bool, found: str = "") -> None:
        """Write a proof; one that does not hold makes the demo fail."""
        self.proofs.append((fact, holds))
        mark = "[green]holds[/] " if holds else "[bold red]FAILS[/] "
        self.console.print(f"  {mark} {escape(fact)}" + (f" [dim]({escape(found)})[/]" if found else ""))

    def run(
        self,
        command: Sequence[str],
        *,
        shown: str,
        environment: Mapping[str, str],
        folder: Path,
        quiet: bool = False,
    ) -> str:
        """Run a command as a user would type it (`shown`), write what it prints, give its stdout.

        Errors: CommandFailedError.
        """
        self.console.print(f"  [bold cyan]$ {escape(shown)}[/]")
        done = subprocess.run(
            command, env=dict(environment), cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CommandFailedError(
                f"`{shown}` ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        if not quiet:
            self.detail(done.stdout)
        return done.stdout
