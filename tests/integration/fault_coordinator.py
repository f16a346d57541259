"""A coordinator that meets a fault: its ledger and its lanes as the runtime gives them, watched from outside.

The runtime has no switch for this: `run_with_faults` puts both between the coordinator and the real ones.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from dpone_contract.chunk_plan import RunKey
from dpone_runtime.adapters.lanes.pool import ProcessLanePool
from dpone_runtime.adapters.postgres.batches import lock_key
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.domain.event import EventKind
from dpone_runtime.domain.publication import Swap
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import LaneEvent, LaneEventKind, LaneId
from dpone_runtime.ports.ledger import (
    CampaignLedger,
    Change,
    Decision,
    PublicationDecision,
    PublicationView,
)
from tests.integration.fault_lane import (
    END_FENCE,
    END_LEDGER,
    FREEZE,
    HOLD,
    KILL_BOTH,
    KILL_COORDINATOR,
    KILL_LANE,
    Faults,
    end_sessions,
)
from tests.waiting import wait_until

SCHEMA = "dpone_audit"
WAITS = b"""
SELECT EXISTS (SELECT FROM pg_stat_activity
                WHERE application_name = 'dpone ledger' AND wait_event = 'advisory' AND datname = current_database())
"""

_SESSIONS = {END_LEDGER: "dpone ledger", END_FENCE: "dpone fence"}
_HEARD = {
    LaneEventKind.OPENED: "lanes open",
    LaneEventKind.COMMITTED: "told",
    LaneEventKind.GONE: "end heard",
}
_WRITTEN = {
    EventKind.CLAIMED: "claimed",
    EventKind.FAILED: "failure recorded",
    EventKind.COMPLETED: "completed",
}


class WatchedRun:
    """What of one run the two watched ports have in common."""

    def __init__(self, folder: Path) -> None:
        self._faults = Faults(folder)
        self._pool: ProcessLanePool | None = None
        self._chunk_of: dict[LaneId, int] = {}

    def lanes(self, pool: ProcessLanePool) -> WatchedLanes:
        """Watch a pool."""
        self._pool = pool
        return WatchedLanes(pool, self)

    def sent(self, lane: LaneId, chunk_index: int) -> None:
        """A lane has got a chunk."""
        self._chunk_of[lane] = chunk_index

    def heard(self, event: LaneEvent) -> None:
        """A lane has said something, and the coordinator does not know it yet."""
        if event.kind in _HEARD:
            self.happen(_HEARD[event.kind], self._chunk_of.get(event.lane, 0))

    def before(self, step: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Give a function before which what is planned for this step is done."""

        def watched(*arguments: Any, **options: Any) -> Any:
            self.happen(step)
            return original(*arguments, **options)

        return watched

    def holds(self, chunk_index: int) -> bool:
        """Whether the lane of a chunk is held at its rows."""
        return self._faults.reached("copying", chunk_index).exists()

    def happen(self, step: str, chunk_index: int = 0) -> None:
        """Do what is planned for this step of this chunk."""
        what = self._faults.take(step, chunk_index)
        self._kill(what)
        if what == HOLD:
            self._faults.wait_for_release()
        if what == FREEZE:
            os.kill(os.getpid(), signal.SIGSTOP)
        if what in _SESSIONS:
            end_sessions(os.environ["DPONE_CONN_TARGET_DB"], _SESSIONS[what])

    def then(
        self, step: str, original: Callable[..., Any], *, only_if_given: bool = False
    ) -> Callable[..., Any]:
        """Give a function after which what is planned for this step is done, in some cases where it gave anything."""

        def watched(*arguments: Any, **options: Any) -> Any:
            found = original(*arguments, **options)
            if found is not None or not only_if_given:
                self.happen(step)
            return found

        return watched

    @contextmanager
    def waiting_for_the_transition(self, step: str, run_key: RunKey, chunk_index: int) -> Iterator[None]:
        """Do what is planned for this step once what happens here waits for the transition lock."""
        what = self._faults.take(step, chunk_index)
        if what is None:
            yield
            return
        with psycopg.connect(os.environ["DPONE_CONN_TARGET_DB"], autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(%s)", (lock_key("transition", SCHEMA, run_key),))

            def strike() -> None:
                wait_until(lambda: holder.execute(WAITS).fetchone() == (True,), 4, "the wait for the lock")
                self._kill(what)
                holder.execute("SELECT pg_advisory_unlock_all()")

            with ThreadPoolExecutor(1) as pool:
                struck = pool.submit(strike)
                yield
                struck.result()

    def _kill(self, what: str | None) -> None:
        if what in (KILL_LANE, KILL_BOTH) and self._pool is not None:
            for lane in self._pool._lanes.values():
                pid = lane.process.pid
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda pid=pid: _exited(pid), 20, "the end of the lane")  # type: ignore[misc]
        if what in (KILL_COORDINATOR, KILL_BOTH):
            os.kill(os.getpid(), signal.SIGKILL)


class WatchedLanes:
    """`LanePool` over a pool."""

    def __init__(self, pool: ProcessLanePool, run: WatchedRun) -> None:
        self._pool = pool
        self._run = run

    def start(self) -> LaneId:
        self._run.happen("campaign opened")
        return self._pool.start()

    def send(self, lane: LaneId, request: LoadRequest) -> None:
        self._run.sent(lane, request.chunk.index)
        self._pool.send(lane, request)

    def poll(self, timeout: timedelta) -> tuple[LaneEvent, ...]:
        events = self._pool.poll(timeout)
        for event in events:
            self._run.heard(event)
        return events

    def end(self, lanes: tuple[LaneId, ...], grace: timedelta) -> None:
        self._pool.end(lanes, grace)

    def close(self, grace: timedelta) -> None:
        self._pool.close(grace)


class WatchedLedger:
    """`CampaignLedger` over a ledger."""

    def __init__(self, ledger: CampaignLedger, run: WatchedRun) -> None:
        self._ledger = ledger
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def renew(self, record: ChunkRecord) -> bool:
        if not self._run.holds(record.chunk_index):
            return self._ledger.renew(record)
        self._run.happen("renewal due", record.chunk_index)
        with self._run.waiting_for_the_transition("renewing", record.run_key, record.chunk_index):
            renewed = self._ledger.renew(record)
        self._run.happen("renewed", record.chunk_index)
        return renewed

    def transition(self, run_key: RunKey, chunk_index: int | None, decide: Decision) -> Change | None:
        if chunk_index is None:
            self._run.happen("every chunk told")
        change = self._ledger.transition(run_key, chunk_index, decide)
        if change is not None and change.event.kind in _WRITTEN:
            self._run.happen(_WRITTEN[change.event.kind], chunk_index or 0)
        return change

    def publish(
        self,
        run_key: RunKey,
        swap: Swap,
        decide: PublicationDecision,
        *,
        fenced: bool,
        told: Callable[[str], None],
    ) -> Change | None:
        def decided(view: PublicationView) -> Change | None:
            change = decide(view)
            if change is not None:
                self._run.happen("decided")
            return change

        self._run.happen("publishing")
        change = self._ledger.publish(run_key, swap, decided, fenced=fenced, told=told)
        if change is not None:
            self._run.happen("published")
        return change


def _exited(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
