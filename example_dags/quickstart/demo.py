"""The demo: every flight out of New York in 2013 loaded by a real Airflow into a real PostgreSQL, broken, mended, proved.

Run it with `tox run -e demo`; `-- --keep` leaves Airflow and the database up. It ends with 1 if any proof fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from types import FrameType

import psycopg

from quickstart.airflow_api import AirflowHomeError, TaskState
from quickstart.airflow_home import AirflowHome
from quickstart.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError
from quickstart.flights import ROWS, content_digest, create_target, load_flights, mend_day, spoil_day
from quickstart.ledger_facts import LedgerFacts, read_facts
from quickstart.narrator import CommandFailedError, Narrator

HERE = Path(__file__).parent
DAG_ID = "flights_history"
POOL = "dpone_backfill"
ITEMS = 40
CHUNKS = 365
SPOILT_DAY = date(2013, 7, 13)
"""In the middle of the year, and the last day of its item: the chunks before it commit, none is left behind it."""

SPOILT_CHUNK = 194
_FRAMED = re.compile(r"^\S+ \w+ (?P<text>.*?) (?P<fields>\{.*\})$")
"""A line of a task's log: time, level, text, further fields as JSON."""

RUN_WITHIN = timedelta(minutes=5)
PARALLELISM = 4
PRELOAD = ("airflow.sdk.execution_time.task_runner", "airflow_provider_dpone.process_operator")


@dataclass
class Stage:
    """What the demo has set up: both databases, where its files are, and how its commands are run."""

    folder: Path
    operations: str
    warehouse: str
    narrator: Narrator

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands and tasks: connections by name, and where files go."""
        return {
            "DPONE_CONN_OPERATIONS": self.operations,
            "DPONE_CONN_WAREHOUSE": self.warehouse,
            "DPONE_PACKS_DIR": str(self.folder / "packs"),
            "DPONE_BACKFILL_STATE_DIR": str(self.folder / "state"),
        }

    @property
    def project(self) -> Path:
        """The copy of the project's files that this run uses."""
        return self.folder / "project"

    def dpone(self, *arguments: str, quiet: bool = False) -> str:
        """Run a `dpone` command in the project's folder."""
        command = Path(sys.executable).with_name("dpone")
        return self.narrator.run(
            [str(command), *arguments],
            shown=" ".join(("dpone", *arguments)),
            environment={**os.environ, **self.environment, "COLUMNS": "110"},
            folder=self.folder,
            quiet=quiet,
        )

    def facts(self) -> LedgerFacts:
        """Look at ledger and target."""
        return read_facts(self.warehouse)


def main() -> int:
    """Run the demo; give its exit code."""
    parser = argparse.ArgumentParser(prog="tox run -e demo --", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave Airflow and the database up")
    keep = parser.parse_args().keep
    signal.signal(signal.SIGTERM, _interrupt)
    narrator = Narrator(parts=6)
    try:
        with ExitStack() as stack:
            try:
                return _show(narrator, stack, keep=keep)
            finally:
                # A second Ctrl-C must not leave a server behind.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except KeyboardInterrupt:
        narrator.say("\nstopped; Airflow, the database and their files are gone")
        return 130
    except (AirflowHomeError, EmbeddedPostgresError, CommandFailedError, psycopg.Error) as error:
        narrator.say("")
        narrator.say(f"[bold red]the demo could not go on:[/] {type(error).__name__}")
        narrator.detail(str(error), style="red")
        return 1


def _show(narrator: Narrator, stack: ExitStack, *, keep: bool) -> int:
    narrator.part("A source of 336,776 flights and an empty target")
    folder = Path(tempfile.mkdtemp(prefix="dpone-demo-", dir=os.environ.get("DPONE_DEMO_DIR")))
    stack.callback(lambda: None if keep else shutil.rmtree(folder, ignore_errors=True))
    postgres = EmbeddedPostgres()
    postgres.start()
    stack.callback(lambda: None if keep else postgres.stop())
    stage = _set_up(narrator, postgres, folder)

    narrator.part("From YAML to a pack")
    stage.dpone("check", "project")
    stage.dpone("pack", "build", "project", "--out", "packs", "--release", "demo")
    stage.dpone("pack", "preview", "project", "--release", "demo")

    narrator.part("Airflow runs the pack; one day of the source is spoilt")
    shutil.copytree(HERE / "dags", folder / "dags")
    airflow = AirflowHome(folder / "airflow", folder / "dags", stage.environment, PARALLELISM, PRELOAD)
    airflow.start(timedelta(minutes=3))
    stack.callback(lambda: None if keep else airflow.stop())
    run_id = _first_run(stage, airflow)

    narrator.part("The row is mended, the failed item is cleared")
    _mend_and_clear(stage, airflow, run_id)

    narrator.part("Proof")
    _prove_content(stage)
    _verify(stage)
    _clear_everything(stage, airflow, run_id)

    narrator.part("The ledger")
    _report(stage)
    if keep:
        _tell_how_to_stop(narrator, postgres, airflow, folder)
    failed = [fact for fact, holds in narrator.proofs if not holds]
    if failed:
        narrator.say(f"\n[bold red]{len(failed)} of {len(narrator.proofs)} proofs failed[/]")
        return 1
    narrator.say(f"\n[bold green]all {len(narrator.proofs)} proofs hold[/]")
    return 0


def _set_up(narrator: Narrator, postgres: EmbeddedPostgres, folder: Path) -> Stage:
    for name in ("operations", "warehouse"):
        postgres.create_database(name)
    stage = Stage(folder, postgres.uri("operations"), postgres.uri("warehouse"), narrator)
    with psycopg.connect(stage.operations) as source, psycopg.connect(stage.warehouse) as target:
        began = time.monotonic()
        rows = load_flights(source)
        narrator.say(f"  {rows:,} flights in operations.source.flights, in {time.monotonic() - began:.1f} s")
        create_target(target)
        narrator.say("  warehouse.analytics.flights is empty; it refuses a distance that is not positive")
        key = spoil_day(source, SPOILT_DAY)
        flight = f"{key.carrier} {key.flight} from {key.origin}"
        narrator.say(f"  flight {flight} on {SPOILT_DAY} now has a distance of -1 in the source")
    shutil.copytree(HERE / "project", stage.project)
    return stage


def _first_run(stage: Stage, airflow: AirflowHome) -> str:
    narrator = stage.narrator
    airflow.create_pool(POOL, PARALLELISM, "dpone backfill")
    narrator.say(f"  Airflow is up at {airflow.url}, the pool {POOL} has {PARALLELISM} slots")
    airflow.wait_for_dag(DAG_ID, timedelta(minutes=2))
    airflow.unpause(DAG_ID)
    run_id = airflow.trigger(DAG_ID)
    began = time.monotonic()
    state = airflow.wait_for_run(DAG_ID, run_id, RUN_WITHIN, _progress(narrator))
    tasks = _items(airflow, run_id)
    narrator.say(f"  the DAG run ended as {state} after {time.monotonic() - began:.0f} s: {_counted(tasks)}")
    failed = [task for task in tasks if task.state == "failed"]
    facts = stage.facts()
    narrator.prove(
        f"{ITEMS} mapped tasks, exactly one of them failed", (len(tasks), len(failed)) == (ITEMS, 1)
    )
    narrator.prove(
        "every other chunk is committed",
        (facts.committed, facts.failed) == (CHUNKS - 1, (SPOILT_CHUNK,)),
        f"{facts.committed} of {CHUNKS}, failed: chunk {', '.join(map(str, facts.failed))}",
    )
    for task in failed:
        narrator.say(f"  the failed item is [bold]{task.rendered_map_index}[/]; its task's log says:")
        log = airflow.task_log(DAG_ID, run_id, task.task_id, task.map_index, task.try_number)
        narrator.detail("\n".join(_telling(log)), style="yellow")
    stage.dpone("backfill", "status", "project/flights.yaml")
    return run_id


def _mend_and_clear(stage: Stage, airflow: AirflowHome, run_id: str) -> None:
    narrator = stage.narrator
    with psycopg.connect(stage.operations) as source:
        mend_day(source, SPOILT_DAY)
    narrator.say(f"  the flight of {SPOILT_DAY} has its distance again")
    before = {task.map_index: task.try_number for task in _items(airflow, run_id)}
    failed = next(task for task in _items(airflow, run_id) if task.state == "failed")
    airflow.clear(DAG_ID, run_id, failed.task_id, [failed.map_index])
    airflow.wait_for_run(DAG_ID, run_id, RUN_WITHIN)
    after = _items(airflow, run_id)
    again = [task.map_index for task in after if task.try_number != before[task.map_index]]
    narrator.prove("only the cleared item ran again", again == [failed.map_index])
    narrator.prove("all items are successful", {task.state for task in after} == {"success"})
    mended = next(task for task in after if task.map_index == failed.map_index)
    log = airflow.task_log(DAG_ID, run_id, mended.task_id, mended.map_index, mended.try_number)
    narrator.prove("its committed chunks were skipped", "8 of 9 selected chunks were committed before" in log)
    narrator.detail("\n".join(_telling(log)))


def _prove_content(stage: Stage) -> None:
    narrator, facts = stage.narrator, stage.facts()
    with psycopg.connect(stage.operations) as source, psycopg.connect(stage.warehouse) as target:
        expected, found = (
            content_digest(source, "source.flights"),
            content_digest(target, "analytics.flights"),
        )
    narrator.prove(f"the target has {ROWS:,} rows", found.rows == ROWS, f"{found.rows:,}")
    narrator.prove(
        "its content digest equals the source's, in whatever order", expected == found, found.digest
    )
    narrator.prove(
        "each chunk was committed once",
        (facts.committed, facts.committed_twice, facts.events.get("committed")) == (CHUNKS, 0, CHUNKS),
        f"{facts.events.get('committed')} commits",
    )
    narrator.prove(
        "one chunk needed a second attempt, all others one",
        facts.attempts == {1: CHUNKS - 1, 2: 1},
        ", ".join(f"{count} chunks: {attempt}" for attempt, count in facts.attempts.items()),
    )


def _verify(stage: Stage) -> None:
    """Let dpone say the same of every chunk, in its own words."""
    told = stage.dpone("backfill", "verify", "project/flights.yaml", "--quiet")
    stage.narrator.prove(
        "dpone's own verification compared every chunk",
        f"{CHUNKS} of {CHUNKS} chunks compared by content" in told and "equal" in told,
    )


def _clear_everything(stage: Stage, airflow: AirflowHome, run_id: str) -> None:
    narrator, before = stage.narrator, stage.facts()
    narrator.say(f"  now all {ITEMS} tasks are cleared:")
    task_id = _items(airflow, run_id)[0].task_id
    airflow.clear(DAG_ID, run_id, task_id)
    airflow.wait_for_run(DAG_ID, run_id, RUN_WITHIN, _progress(narrator))
    tasks, after = _items(airflow, run_id), stage.facts()
    narrator.prove("all of them succeed", Counter(task.state for task in tasks) == {"success": ITEMS})
    narrator.prove("the ledger has no new event", after.events == before.events, _events(after))
    narrator.prove(
        "no row was written", (after.rows, after.xmins) == (before.rows, before.xmins), "xmin and ctid"
    )
    logs = [airflow.task_log(DAG_ID, run_id, task_id, task.map_index, task.try_number) for task in tasks]
    saying = sum("no row moved" in log for log in logs)
    narrator.prove("each task's log says so", saying == ITEMS, f"{saying} logs")
    narrator.detail("\n".join(_telling(logs[0])))


def _report(stage: Stage) -> None:
    narrator = stage.narrator
    stage.dpone("backfill", "status", "project/flights.yaml")
    narrator.say("")
    for title, seconds in narrator.seconds():
        narrator.say(f"  {seconds:6.1f} s  {title}")
    narrator.say("\n  Next, with your own database (see README.md):")
    for command in (
        "dpone init my_history",
        "dpone check my_history",
        "dpone backfill plan my_history/orders_history.yaml --connect",
        "dpone backfill run my_history/orders_history.yaml --execute",
    ):
        narrator.say(f"    [cyan]$ {command}[/]")


def _tell_how_to_stop(
    narrator: Narrator, postgres: EmbeddedPostgres, airflow: AirflowHome, folder: Path
) -> None:
    stop_airflow, stop_postgres = airflow.detach(), postgres.detach()
    narrator.say(f"\n  kept: Airflow at [bold]{airflow.url}/dags/{DAG_ID}[/]")
    narrator.say(f"        the database at {postgres.uri('warehouse')}")
    narrator.say("  stop both and remove their files with:")
    narrator.say(f"    {stop_airflow} && {stop_postgres} && rm -r {folder}")


def _items(airflow: AirflowHome, run_id: str) -> list[TaskState]:
    return [task for task in airflow.task_instances(DAG_ID, run_id) if task.map_index >= 0]


def _progress(narrator: Narrator) -> Callable[[list[TaskState]], None]:
    told = -5.0

    def tell(tasks: list[TaskState]) -> None:
        nonlocal told
        if time.monotonic() - told >= 5:
            told = time.monotonic()
            narrator.detail(_counted([task for task in tasks if task.map_index >= 0]))

    return tell


def _counted(tasks: list[TaskState]) -> str:
    counted = Counter(task.state or "waiting" for task in tasks)
    return ", ".join(f"{count} {state}" for state, count in sorted(counted.items())) or "not started"


def _events(facts: LedgerFacts) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in facts.events.items())


def _telling(log: str) -> list[str]:
    """Give the lines of a task's log that its `dpone run` wrote, without Airflow's framing."""
    found = [_FRAMED.match(line) for line in log.splitlines()]
    return [line["text"] for line in found if line is not None and "process_operator" in line["fields"]]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
