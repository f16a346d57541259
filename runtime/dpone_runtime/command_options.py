"""Options that verbs share, as plain values: light, so that help needs nothing else."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from enum import StrEnum

from dpone_runtime.domain.verification import VerificationMethod


class OutputFormat(StrEnum):
    """How a document is written to stdout."""

    TEXT = "text"
    JSON = "json"
    MD = "md"


@dataclass(frozen=True)
class VerificationFlags:
    """How a verification is asked for: `anew` forgets earlier verdicts, `repair` loads what differs again for a `reason`."""

    method: VerificationMethod = VerificationMethod.CONTENT
    anew: bool = False
    repair: bool = False
    reason: str | None = None
    quiet: bool = False


@dataclass(frozen=True)
class RunFlags:
    """How a run of a campaign is asked for: the only plan that may run, and why where it changes what was decided."""

    plan_hash: str | None = None
    reason: str | None = None
    quiet: bool = False


@dataclass(frozen=True)
class IntervalFlags:
    """What the command line says of the interval; it goes before the environment."""

    start: str | None = None
    end: str | None = None
    execution_date: str | None = None

    def options(self) -> tuple[str, ...]:
        """Give them as a command line has them."""
        given = (
            ("interval-start", self.start),
            ("interval-end", self.end),
            ("execution-date", self.execution_date),
        )
        return tuple(f"--{name} {shlex.quote(value)}" for name, value in given if value is not None)


@dataclass(frozen=True)
class CommandLine:
    """The manifest that a verb was given, with the options that name the campaign: what another verb has to be told as well."""

    manifest: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((shlex.quote(self.manifest), *self.options))


@dataclass(frozen=True)
class Overrides:
    """Window and campaign options of the command line; None leaves the manifest as it is."""

    column: str | None = None
    from_: str | None = None
    to: str | None = None
    step: str | None = None
    kind: str | None = None
    inner_mode: str | None = None
    parallel_workers: int | None = None
    max_chunks: int | None = None
    state_dir: str | None = None
    backfill_id: str | None = None

    def options(self) -> tuple[str, ...]:
        """Give them as a command line has them, so that another command can be told the same."""
        given = [(item.name.strip("_").replace("_", "-"), getattr(self, item.name)) for item in fields(self)]
        return tuple(f"--{name} {shlex.quote(str(value))}" for name, value in given if value is not None)

    def empty(self) -> bool:
        """Whether nothing is overridden."""
        return all(getattr(self, item.name) is None for item in fields(self))


def command_line(manifest: object, overrides: Overrides, interval: IntervalFlags) -> CommandLine:
    """Give what names a campaign on a command line."""
    return CommandLine(str(manifest), (*overrides.options(), *interval.options()))
