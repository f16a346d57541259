"""A story: what happens at which step of a schedule, or after which statement, and the chances that every teller takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from dpone_contract.manifest import InnerMode
from tests.simulation.decisions import Decision, Setup, Start
from tests.simulation.processes import Clocks


@dataclass(frozen=True)
class Trigger:
    """A decision that is made `delay` steps after a session whose name begins with `by` has begun a statement."""

    by: str
    statement: str
    delay: int
    decision: Decision


@dataclass
class Story:
    """The setup, and what happens at which step, or after which statement."""

    setup: Setup
    length: int
    agenda: list[tuple[int, Decision]] = field(default_factory=list)
    triggers: list[Trigger] = field(default_factory=list)
    fault_rate: float = 0.02
    faults: tuple[str, ...] = ()
    calm: float = 1.0
    """By what the rate of faults is less than in other stories: where much has to go well before it matters what goes wrong."""

    def at(self, step: int, what: str, actor: str = "", seconds: float = 0.0) -> None:
        """Put a decision on the agenda."""
        self.agenda.append((step, Decision(what, actor, seconds)))

    def after(
        self, by: str, statement: str, delay: int, what: str, actor: str = "", seconds: float = 0.0
    ) -> None:
        """Have a decision follow a statement."""
        self.triggers.append(Trigger(by, statement, delay, Decision(what, actor, seconds)))

    def start_after(self, by: str, statement: str, delay: int, start: Start) -> None:
        """Have a process start after a statement."""
        self.triggers.append(Trigger(by, statement, delay, Decision("start", start.name, start=start)))

    def start(self, step: int, start: Start) -> None:
        """Have a process start at a step."""
        self.agenda.append((step, Decision("start", start.name, start=start)))


def clocks(chance: Random) -> Clocks:
    """An own clock for each process, and a wall clock that may be minutes off."""
    return Clocks(
        rate=chance.choice((0.5, 1.0, 1.0, 1.5)),
        offset=chance.choice((0.0, 1e6)),
        skew=chance.choice((-300.0, -20.0, 0.0, 20.0, 300.0)),
    )


def mode(chance: Random) -> InnerMode:
    """Replace or append."""
    return chance.choice((InnerMode.PARTITION_REPLACE, InnerMode.INCREMENTAL_APPEND))
