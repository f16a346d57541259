"""The private Airflow of the quickstart: one mapped run with one retry of one item, and nothing left behind."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from quickstart import airflow_home
from quickstart.airflow_api import AirflowHomeError, AirflowRequestError, DagImportError, TaskState
from quickstart.airflow_home import AirflowHome
from quickstart.marked_processes import end_marked_processes, marked_processes
from tests.waiting import wait_until

RUN_TIMEOUT = timedelta(seconds=60)
GONE_SECONDS = 30.0
DAG_ID = "six_items"
TASK_ID = "item"
DAG_FILE = """\
from pathlib import Path

from airflow.sdk import DAG, BaseOperator


class NeedsFile(BaseOperator):
    def __init__(self, *, number, **kwargs):
        super().__init__(**kwargs)
        self.number = number

    def execute(self, context):
        print(f"item number {self.number}")
        if self.number == 4 and not Path(GATE).exists():
            raise FileNotFoundError("the gate is shut")
        return self.number * 10


with DAG("six_items", schedule=None):
    NeedsFile.partial(task_id="item", retries=0).expand(number=list(range(6)))
"""

# Stands for a demo that is killed: it starts a marked process of its own session that outlives SIGTERM, with a
# child that has left that session, tells both ids and blocks.
PARENT = """\
import subprocess, sys
from quickstart import airflow_home

marker = sys.argv[1]
watchdog = airflow_home._start_watchdog(marker)
program = (
    "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True);"
    "print('up', flush=True); time.sleep(600)"
)
child = subprocess.Popen(
    [sys.executable, "-c", program],
    env={airflow_home.MARKER: marker},
    stdout=subprocess.PIPE,
    start_new_session=True,
)
child.stdout.readline()
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def home(tmp_path: Path, gate: Path) -> AirflowHome:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "six_items.py").write_text(f"GATE = {str(gate)!r}\n{DAG_FILE}")
    (dags / "broken.py").write_text(
        "from airflow.sdk import DAG\n\nraise ValueError('broken_dag is broken')\n"
    )
    return AirflowHome(tmp_path / "home", dags, {"DPONE_CONN_EXAMPLE": "value"}, parallelism=4)


@pytest.fixture
def marker() -> Iterator[str]:
    marker = f"test-{os.getpid()}-{time.monotonic_ns()}"
    yield marker
    end_marked_processes(marker, timedelta(seconds=10))


@pytest.mark.airflow_live
def test_a_cleared_item_alone_runs_again_and_nothing_is_left(home: AirflowHome, gate: Path) -> None:
    with home:
        home.wait_for_dag(DAG_ID, RUN_TIMEOUT)
        home.unpause(DAG_ID)
        run_id = home.trigger(DAG_ID)
        seen: list[list[TaskState]] = []

        assert home.wait_for_run(DAG_ID, run_id, RUN_TIMEOUT, seen.append) == "failed"
        assert _states(seen[-1]) == [(i, "failed" if i == 4 else "success", 1) for i in range(6)]
        assert "the gate is shut" in home.task_log(DAG_ID, run_id, TASK_ID, 4, 1)

        gate.touch()
        assert [item.map_index for item in home.clear(DAG_ID, run_id, TASK_ID, [4])] == [4]
        assert home.wait_for_run(DAG_ID, run_id, RUN_TIMEOUT) == "success"

        assert _states(home.task_instances(DAG_ID, run_id)) == [
            (i, "success", 2 if i == 4 else 1) for i in range(6)
        ]
        assert "item number 4" in home.task_log(DAG_ID, run_id, TASK_ID, 4, 2)
        assert home.xcom(DAG_ID, run_id, TASK_ID, 4) == 40

        _assert_refusals_are_clear(home)
        assert marked_processes(home.marker) != set()

    assert marked_processes(home.marker) == set()
    assert [port for port in home.ports if _is_open(port)] == []


def _assert_refusals_are_clear(home: AirflowHome) -> None:
    # In the one live test, because a start costs more than all of these.
    home.create_pool("narrow", 2, "two at a time")
    with pytest.raises(AirflowRequestError) as refused:
        home.create_pool("narrow", 2, "again")
    assert refused.value.status == 409
    assert "Unique constraint" in refused.value.body
    with pytest.raises(DagImportError, match="ValueError: broken_dag is broken"):
        home.wait_for_dag("broken_dag", RUN_TIMEOUT)


def test_killed_parent_leaves_no_process(marker: str) -> None:
    parent = _start_parent(marker)
    assert len(marked_processes(marker)) == 2

    parent.send_signal(signal.SIGKILL)
    parent.communicate()

    wait_until(lambda: marked_processes(marker) == set(), GONE_SECONDS)


def test_interrupted_parent_leaves_no_process(marker: str) -> None:
    parent = _start_parent(marker)
    # As the terminal does it: the whole foreground group.
    os.killpg(parent.pid, signal.SIGINT)
    parent.communicate()

    wait_until(lambda: marked_processes(marker) == set(), GONE_SECONDS)


@pytest.mark.airflow_live
def test_killed_parent_takes_its_airflow_along(tmp_path: Path) -> None:
    script = (
        "import sys; from datetime import timedelta; from pathlib import Path;"
        "from quickstart.airflow_home import AirflowHome;"
        "home = AirflowHome(Path(sys.argv[1]), Path(sys.argv[1]), {}, parallelism=2);"
        "print(home.marker, flush=True); home.start(timedelta(seconds=120))"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=_environment()
    )
    assert parent.stdout is not None
    marker = parent.stdout.readline().strip()
    try:
        # standalone, and at least one of its components
        wait_until(lambda: len(marked_processes(marker)) >= 2, GONE_SECONDS)
        parent.kill()
        parent.communicate()
        wait_until(lambda: marked_processes(marker) == set(), GONE_SECONDS)
    finally:
        parent.kill()
        end_marked_processes(marker, timedelta(seconds=10))


def test_detached_processes_end_by_the_command(marker: str, tmp_path: Path) -> None:
    home = AirflowHome(tmp_path, tmp_path, {}, parallelism=1)
    command = home.detach()
    assert command.endswith(f" stop {home.marker}")
    survivor = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        env={airflow_home.MARKER: home.marker},
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    wait_until(lambda: [found.pid for found in marked_processes(home.marker)] == [survivor.pid], GONE_SECONDS)

    subprocess.run(shlex.split(command), check=True)

    survivor.communicate()
    assert survivor.returncode == -signal.SIGKILL


def test_child_without_marker_is_known_after_its_parent_is_gone(marker: str) -> None:
    program = "import subprocess; child = subprocess.Popen(['sleep', '60'], env={}, start_new_session=True);"
    parent = subprocess.Popen(
        [sys.executable, "-c", program + "print(child.pid, flush=True); child.wait()"],
        env={airflow_home.MARKER: marker, "PATH": os.defpath},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert parent.stdout is not None
    child_id = int(parent.stdout.readline())
    known = marked_processes(marker)
    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert [found.pid for found in marked_processes(marker, known)] == [child_id]
    assert end_marked_processes(marker, timedelta(seconds=10), known) == set()


def test_settings_of_the_caller_stay_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__UNIT_TEST_MODE", "True")
    monkeypatch.setenv("AIRFLOW_CONN_PROD", "postgres://")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    seen = AirflowHome(tmp_path, tmp_path, {"DPONE_CONN_X": "x"}, parallelism=1).environment

    assert not {"AIRFLOW__CORE__UNIT_TEST_MODE", "AIRFLOW_CONN_PROD", "PYTHONDONTWRITEBYTECODE"} & seen.keys()
    assert seen["DPONE_CONN_X"] == "x"
    assert seen["AIRFLOW_HOME"] == str(tmp_path)


@pytest.mark.airflow_live
def test_airflow_that_ends_while_starting_shows_its_log(tmp_path: Path) -> None:
    home = AirflowHome(tmp_path, tmp_path, {"AIRFLOW__CORE__EXECUTOR": "nowhere.Executor"}, parallelism=1)

    with pytest.raises(AirflowHomeError, match=r"(?s)ended while it started.*No module named 'nowhere'"):
        home.start(RUN_TIMEOUT)

    assert marked_processes(home.marker) == set()


def _start_parent(marker: str) -> subprocess.Popen[str]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, marker],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_environment(),
        process_group=0,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    return parent


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(airflow_home.__file__).parents[1])}


def _states(items: list[TaskState]) -> list[tuple[int, str | None, int]]:
    return [(item.map_index, item.state, item.try_number) for item in items]


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
