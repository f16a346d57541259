"""An Airflow of a test's own: a home with a database, and a process that runs DAGs there with `dag.test()` and can be signalled."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
DATABASE = "airflow.db"
RUN_SECONDS = 240


@dataclass(frozen=True)
class TaskRun:
    """One task instance as Airflow's database has it."""

    state: str
    try_number: int
    label: str | None


@dataclass(frozen=True)
class FinishedRun:
    """A DAG run that has ended; `log` is everything that Airflow has said meanwhile."""

    home: Path
    dag_id: str
    run_id: str
    state: str
    log: str

    def tasks(self, task_id: str) -> dict[int, TaskRun]:
        """Give a task's instances by map index, -1 for one that is not mapped."""
        rows = self._rows(
            "SELECT map_index, state, try_number, rendered_map_index FROM task_instance", task_id
        )
        return {row[0]: TaskRun(*row[1:]) for row in rows}

    def task(self, task_id: str, map_index: int = -1) -> TaskRun:
        """Give one instance."""
        return self.tasks(task_id)[map_index]

    def xcoms(self, task_id: str, key: str = "return_value") -> dict[int, Any]:
        """Give a task's documents by map index."""
        return {index: json.loads(text) for index, text in self._xcom_texts(task_id, key).items()}

    def xcom_bytes(self, task_id: str, key: str = "return_value") -> dict[int, int]:
        """Give the size of each of them, as it is stored."""
        return {index: len(text) for index, text in self._xcom_texts(task_id, key).items()}

    def _xcom_texts(self, task_id: str, key: str) -> dict[int, bytes]:
        rows = self._rows("SELECT map_index, key, value FROM xcom", task_id)
        # Airflow 3 stores JSON, and Airflow 2 its bytes; the former in one layer of text more.
        found = {
            row[0]: row[2] if isinstance(row[2], bytes) else row[2].encode() for row in rows if row[1] == key
        }
        return {index: _one_layer(text) for index, text in found.items()}

    def _rows(self, select: str, task_id: str) -> list[tuple[Any, ...]]:
        where = "WHERE dag_id = ? AND run_id = ? AND task_id = ?"
        with closing(sqlite3.connect(self.home / DATABASE)) as connection:
            return connection.execute(f"{select} {where}", (self.dag_id, self.run_id, task_id)).fetchall()

    def asset_events(self) -> list[str]:
        """Give the tasks that have updated an asset, one a event."""
        with closing(sqlite3.connect(self.home / DATABASE)) as connection:
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            table = "asset_event" if "asset_event" in names else "dataset_event"
            rows = connection.execute(
                f"SELECT source_task_id FROM {table} WHERE source_dag_id = ? AND source_run_id = ?",
                (self.dag_id, self.run_id),
            )
            return [row[0] for row in rows]


def _one_layer(text: bytes) -> bytes:
    value = json.loads(text)
    return value.encode() if isinstance(value, str) and value[:1] in '{["' else text


class AirflowProcess:
    """One process of Airflow over a home of its own; started at the first run, and again when it was killed."""

    def __init__(self, home: Path, template: Path, environ: Mapping[str, str]) -> None:
        self.home = home
        self.dags = home / "dags"
        self.dags.mkdir(parents=True)
        shutil.copy(template, home / DATABASE)
        self.log_path = home / "airflow.log"
        self._environ = {**airflow_environ(home), **environ}
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._asked: tuple[str, int] | None = None
        self._under_way = False

    def start_run(
        self, dag_id: str, run_id: str | None = None, cleared: Sequence[tuple[str, int]] = ()
    ) -> None:
        """Let it run a DAG of its folder, or go on with a run of which some tasks are cleared, each with its map index."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        self._asked = (dag_id, self.log_path.stat().st_size)
        self._under_way = True
        request = {"dag_id": dag_id, "run_id": run_id, "cleared": cleared}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def finish_run(self) -> FinishedRun:
        """Wait for the end of the run.

        Errors: AssertionError with the log when Airflow could not run it.
        """
        assert self._asked is not None
        answer = json.loads(self.wait_for_end() or '{"error": "Airflow ended"}')
        assert "error" not in answer, f"{answer.get('error')}\n{self.log()}"
        state = answer["state"].split(".")[-1].lower()
        return FinishedRun(self.home, self._asked[0], answer["run_id"], state, self.log())

    def wait_for_end(self) -> bytes:
        """Wait until the run has ended, or the process has without a word."""
        answer = _line(self._answers)
        self._under_way = False
        return answer

    def drop_run(self) -> None:
        """End the process where a run is still under way, as after a test that has failed."""
        if self._under_way:
            self.stop()
            self._under_way = False

    def run(
        self, dag_id: str, run_id: str | None = None, cleared: Sequence[tuple[str, int]] = ()
    ) -> FinishedRun:
        """Run a DAG to its end, as `start_run` does."""
        self.start_run(dag_id, run_id, cleared)
        return self.finish_run()

    def clear(self, run: FinishedRun, *cleared: tuple[str, int]) -> FinishedRun:
        """Clear tasks of a run, each with its map index, and run it to its end again."""
        return self.run(run.dag_id, run.run_id, cleared)

    def last_run(self, dag_id: str) -> str:
        """Give the id of the DAG's last run, also of one whose process was killed."""
        with closing(sqlite3.connect(self.home / DATABASE)) as connection:
            found = connection.execute(
                "SELECT run_id FROM dag_run WHERE dag_id = ? ORDER BY id DESC", (dag_id,)
            )
            return str(found.fetchone()[0])

    def mark(self, dag_id: str, run_id: str, task_id: str, map_index: int, state: str) -> None:
        """Mark a task, as somebody does in the Grid who knows better, or a scheduler that misses a task's process."""
        with closing(sqlite3.connect(self.home / DATABASE)) as connection, connection:
            changed = connection.execute(
                "UPDATE task_instance SET state = ?"
                " WHERE dag_id = ? AND run_id = ? AND task_id = ? AND map_index = ?",
                (state, dag_id, run_id, task_id, map_index),
            )
            assert changed.rowcount == 1

    def log(self) -> str:
        """What has been said since the last run began."""
        if self._asked is None:
            return ""
        return self.log_path.read_bytes()[self._asked[1] :].decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Signal the process."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout: float = 60) -> int:
        """Wait for the process's own end."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self) -> None:
        """End the process and whatever it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        os.close(self._answers)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self) -> None:
        self.stop()
        reader, writer = os.pipe()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.airflow.pods.dag_runner", str(writer)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
                env=self._environ,
                cwd=ROOT,
                start_new_session=True,
            )
        os.close(writer)
        self._answers = reader


def _line(descriptor: int) -> bytes:
    """Read one line, within the time that a run may take."""
    data = b""
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], RUN_SECONDS)
        assert ready, "the run takes too long"
        more = os.read(descriptor, 65536)
        if not more:
            return b""
        data += more
    return data


def airflow_environ(home: Path) -> dict[str, str]:
    """Give the environment of an Airflow over a home."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "DPONE", "_AIRFLOW"))
    }
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / DATABASE}",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "NO_COLOR": "1",
    }


def migrated_database(home: Path) -> Path:
    """Create Airflow's database in a home; give its path."""
    (home / "dags").mkdir(parents=True)
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=airflow_environ(home), cwd=home, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    wait_until((home / DATABASE).exists, what="the database")
    return home / DATABASE
