"""What schedules are made of: the campaigns that there may be, the processes that come, and every decision of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from dpone_contract.manifest import InnerMode
from tests.simulation.processes import RIGHT, Clocks
from tests.simulation.strangers import Deed


@dataclass(frozen=True)
class Load:
    """A campaign that may be opened: days from `begins` on, counted from 0, `days` in each of `chunks`."""

    run_key: str
    begins: int
    chunks: int
    days: int = 1
    mode: InnerMode = InnerMode.PARTITION_REPLACE
    templated: bool = False
    swaps: bool = False
    """Loaded into a shadow, which is published."""


@dataclass(frozen=True)
class Setup:
    """What there is before the first decision."""

    loads: tuple[Load, ...]
    max_active: int | None = None

    @property
    def exchanges(self) -> bool:
        """Whether any table may take the place of another."""
        return any(load.swaps for load in self.loads)


class Kind(StrEnum):
    """What a process is there for."""

    INTERNAL = "internal"
    ITEM = "item"
    CANCEL = "cancel"
    RESTART = "restart"
    STRANGER = "stranger"


@dataclass(frozen=True)
class Start:
    """A process to start, and what clocks it has."""

    name: str
    kind: Kind
    load: int
    first: int = 1
    last: int = 0
    lanes: int = 1
    reason: str | None = None
    only: frozenset[int] | None = None
    stop_after_failures: int | None = None
    failed_only: bool = False
    deed: Deed = Deed.READ
    to_shadow: bool = False
    """What a stranger does, and whether to the shadow of the load rather than to the live table."""
    held: timedelta = timedelta()
    clocks: Clocks = RIGHT


@dataclass(frozen=True)
class Decision:
    """One decision of the scheduler, about the named actor where there is one."""

    what: str
    actor: str = ""
    seconds: float = 0.0
    start: Start | None = None

    def __str__(self) -> str:
        if self.start is not None:
            told = {
                name: value
                for name, value in vars(self.start).items()
                if name != "name" and value != RIGHT and value
            }
            return f"start {self.start.name}: {', '.join(f'{name} {value}' for name, value in told.items())}"
        return f"{self.what} {self.actor or format(self.seconds, 'g') + ' s'}"
