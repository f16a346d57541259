"""The soak: minutes of random kills under four lanes, six mapped items and six that end in a swap, and every row counted whenever a campaign is complete.

`tox run -e soak` takes ten minutes; `-- --minutes 2 --seed 7` another time and another order of faults.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg

from quickstart.embedded_postgres import EmbeddedPostgres
from tests.integration.child_runs import Run
from tests.soak.campaigns import CHUNKS, LANES, TABLES, SoakCampaign

_TELL_EVERY_SECONDS = 15.0
_PATIENCE_SECONDS = 300.0
_LOOK_EVERY_SECONDS = 0.2


class Soak:
    """Faults by a seeded order; when they meet their victims the machine decides."""

    def __init__(
        self, seed: int, campaigns: list[SoakCampaign], session: psycopg.Connection[tuple[object, ...]]
    ) -> None:
        self._random = random.Random(seed)
        self._campaigns = campaigns
        self._session = session
        self._stopped: dict[int, float] = {}
        self.faults = Counter[str]()
        self.completed = Counter[str]()
        self.attempts = Counter[str]()

    def run(self, seconds: float) -> None:
        """Break things for so long; then let everything come to its end.

        Errors: AssertionError where a row or a chunk is not as it has to be.
        """
        end, told = time.monotonic() + seconds, time.monotonic()
        while time.monotonic() < end:
            self._turn()
            if self._random.random() < 0.2:
                self._break_something()
            time.sleep(self._random.uniform(0.05, 0.6))
            if time.monotonic() - told >= _TELL_EVERY_SECONDS:
                told = time.monotonic()
                self.tell(f"{end - told:.0f} s left")
        self._wake_all()
        self.tell("no further faults; what is open comes to its end")
        for campaign in self._campaigns:
            self._finish(campaign)

    def _turn(self) -> None:
        self._wake(time.monotonic())
        for campaign in self._campaigns:
            campaign.require_unseen()
            if campaign.complete():
                self._complete(campaign)
                campaign.begin_again()
            campaign.keep_running()

    def _complete(self, campaign: SoakCampaign) -> None:
        campaign.require_right()
        self.completed[campaign.name] += 1
        self.attempts[campaign.name] += campaign.attempts()

    def _finish(self, campaign: SoakCampaign) -> None:
        last = time.monotonic() + _PATIENCE_SECONDS
        while not campaign.complete():
            assert time.monotonic() < last, f"{campaign.run_key} does not come to its end: {campaign.said()}"
            campaign.keep_running()
            time.sleep(_LOOK_EVERY_SECONDS)
        self._complete(campaign)
        campaign.end()

    def tell(self, what: str) -> None:
        """Write one line."""
        done = ", ".join(
            f"{one.name}: {self.completed[one.name]} complete, {one.committed()}/{CHUNKS}"
            for one in self._campaigns
        )
        _say(f"{done}; {sum(self.faults.values())} faults; {what}")

    # Faults.

    def _break_something(self) -> None:
        campaign = self._random.choice(self._campaigns)
        run = campaign.runs.get(self._random.choice(campaign.places))
        faults: dict[str, Callable[[], bool]] = {
            "coordinator killed": lambda: self._signal(run, signal.SIGKILL, lanes=False),
            "lane killed": lambda: self._signal(run, signal.SIGKILL, lanes=True),
            "all killed": lambda: run is not None and (run.kill() or True),
            "coordinator told to stop": lambda: self._signal(run, signal.SIGTERM, lanes=False),
            "coordinator frozen": lambda: self._freeze(run, lanes=False),
            "lane frozen": lambda: self._freeze(run, lanes=True),
            "sink's session ended": lambda: self._end_session("dpone sink"),
            "source's session ended": lambda: self._end_session("dpone source"),
            "ledger's session ended": lambda: self._end_session("dpone ledger"),
            "fence's session ended": lambda: self._end_session("dpone fence"),
            "leases lapsed": self._lapse,
        }
        name = self._random.choice(list(faults))
        with suppress(ProcessLookupError, PermissionError):
            if faults[name]():
                self.faults[name] += 1

    def _victim(self, run: Run | None, *, lanes: bool) -> int | None:
        if run is None or run.ended():
            return None
        if not lanes:
            return run.process.pid
        found = [pid for pid in run.processes() if pid != run.process.pid]
        return self._random.choice(found) if found else None

    def _signal(self, run: Run | None, number: signal.Signals, *, lanes: bool) -> bool:
        victim = self._victim(run, lanes=lanes)
        if victim is None:
            return False
        os.kill(victim, number)
        return True

    def _freeze(self, run: Run | None, *, lanes: bool) -> bool:
        victim = self._victim(run, lanes=lanes)
        if victim is None:
            return False
        os.kill(victim, signal.SIGSTOP)
        self._stopped[victim] = time.monotonic() + self._random.uniform(0.5, 8)
        return True

    def _wake(self, now: float) -> None:
        for victim in [pid for pid, at in self._stopped.items() if at <= now]:
            del self._stopped[victim]
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGCONT)

    def _wake_all(self) -> None:
        self._wake(float("inf"))

    def _end_session(self, name: str) -> bool:
        found = self._session.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY pid", (name,)
        ).fetchall()
        if not found:
            return False
        self._session.execute("SELECT pg_terminate_backend(%s)", (self._random.choice(found)[0],))
        return True

    def _lapse(self) -> bool:
        """Let the lease of whoever is at work, living or dead, lapse: it is replaced, and may wake later."""
        if self._session.execute("SELECT to_regclass('dpone_audit.__dpone__backfill_chunks')").fetchone() == (
            None,
        ):
            return False
        changed = self._session.execute(
            "UPDATE dpone_audit.__dpone__backfill_chunks SET lease_expires_at = clock_timestamp() - interval '1 s'"
            " WHERE status = 'running'"
        )
        return changed.rowcount > 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run it; give 0 where every row was where it belongs."""
    parser = argparse.ArgumentParser(prog="tox run -e soak --", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults are made (10)")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10_000), help="of the faults' order"
    )
    options = parser.parse_args()
    _say(f"seed {options.seed}: {options.minutes:g} minutes, a run of {LANES} lanes beside mapped items")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpone-soak-")))
        server = stack.enter_context(EmbeddedPostgres())
        uri = server.uri("postgres")
        session = stack.enter_context(psycopg.connect(uri, autocommit=True, application_name="soak"))
        session.execute(TABLES.replace("%%", "%").encode())
        campaigns = [
            SoakCampaign(name, mapped, swaps, uri, folder, session)
            for name, mapped, swaps in (
                ("lanes", False, False),
                ("items", True, False),
                ("swapped", True, True),
            )
        ]
        for campaign in campaigns:
            stack.callback(campaign.end)
        soak = Soak(options.seed, campaigns, session)
        soak.run(options.minutes * 60)
        for name, count in sorted(soak.faults.items()):
            _say(f"  {count:5} {name}")
        for campaign in campaigns:
            _say(
                f"  {campaign.name}: {soak.completed[campaign.name]} campaigns of {CHUNKS} chunks complete, "
                f"{soak.attempts[campaign.name]} attempts, {campaign.started} runs"
            )
    _say("every row of every campaign was in its target once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
