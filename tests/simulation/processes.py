"""Processes that run the real, synchronous services: each in a greenlet that gives way wherever it waits for somebody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from greenlet import getcurrent, greenlet

from dpone_contract.errors import DponeError
from tests.simulation.database import EVER, Database, Session


class KilledError(BaseException):
    """Raised where a killed process waits: it unwinds, and whatever it calls on the way raises this again."""


@dataclass(frozen=True)
class Clocks:
    """A process's own clock goes at `rate` from `offset` seconds on; its wall clock is off by `skew` seconds."""

    rate: float = 1.0
    offset: float = 0.0
    skew: float = 0.0


RIGHT = Clocks()


class Process:
    """One process. `act` is its main function.

    The hub is whoever calls `step`; `act` runs until it waits, and its own exceptions never leave it.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        act: Callable[[Process], object],
        clocks: Clocks = RIGHT,
    ) -> None:
        self.database = database
        self.name = name
        self.frozen_at: float | None = None
        self.dead = False
        self.ended = False
        self.stop_requested = False
        self.result: object = None
        self.refusal: DponeError | None = None
        self.crash: BaseException | None = None
        self.sessions: list[Session] = []
        self.clocks = clocks
        self._act = act
        self._greenlet = greenlet(self._main)
        self._hub: greenlet | None = None
        self._condition: Callable[[], bool] | None = None
        self._until = EVER

    # The scheduler's side.

    def at_work(self) -> bool:
        """Whether it has neither ended nor is stopped."""
        return not self.dead and not self.ended and self.frozen_at is None

    def ready(self) -> bool:
        """Whether a step would do something."""
        if self.dead or self.ended or self.frozen_at is not None:
            return False
        return self._condition is None or self._condition() or self.database.elapsed >= self._until

    def timer(self) -> float:
        """When the process becomes ready though nobody does anything."""
        return self._until if self.at_work() else EVER

    def step(self) -> None:
        """Run until the process waits again, or ends."""
        self._hub = getcurrent()
        self._greenlet.switch()

    def kill(self, *, host_vanished: bool = False) -> None:
        """End the process at the place where it waits; its sessions lose their client."""
        if self.dead or self.ended:
            return
        self.dead = True
        if self._greenlet:
            self._hub = getcurrent()
            self._greenlet.throw(KilledError)
        self.leave_sessions(host_vanished=host_vanished)

    def die(self) -> None:
        """End in the middle of what it does; only the process itself may call this."""
        self.dead = True
        self.leave_sessions()
        raise KilledError

    def leave_sessions(self, *, host_vanished: bool = False) -> None:
        """Hang up on every session."""
        for session in self.sessions:
            session.hang_up(host_vanished=host_vanished)

    def _main(self) -> None:
        try:
            self.result = self._act(self)
        except KilledError:
            return
        except DponeError as error:
            self.refusal = error
        except Exception as error:  # noqa: BLE001  # whatever it is, the scheduler reports it as a fault of ours
            self.crash = error
        self.ended = True
        self.leave_sessions()

    # The process's own side.

    def wait(self, condition: Callable[[], bool], timeout: timedelta | None = None) -> None:
        """Give way until a condition holds, or until the process's own clock has moved by `timeout`."""
        self.require_alive()
        self._condition = condition
        self._until = (
            EVER if timeout is None else self.database.elapsed + timeout.total_seconds() / self.clocks.rate
        )
        assert self._hub is not None
        self._hub.switch()
        self._condition, self._until = None, EVER
        self.require_alive()

    def require_alive(self) -> None:
        """Let nothing happen in the name of a dead process."""
        if self.dead:
            raise KilledError

    def clock(self) -> timedelta:
        """Its own elapsed time, which nobody else shares."""
        self.require_alive()
        return timedelta(seconds=self.clocks.offset + self.clocks.rate * self.database.elapsed)

    def connect(self, purpose: str) -> Session:
        """Open a session of this process."""
        self.require_alive()
        session = self.database.connect(f"{self.name}/{purpose}", self.clocks.skew)
        self.sessions.append(session)
        return session
