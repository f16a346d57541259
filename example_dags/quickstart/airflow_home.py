"""A real Airflow 3.3 with its scheduler in a private home, for the demo and its tests.

Airflow runs only as a subprocess, on loopback, with everybody an admin: never expose it. Needs Linux's
/proc, by which it proves that it leaves no process behind.
"""

from __future__ import annotations

import base64
import os
import random
import secrets
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from quickstart import marked_processes as watchdog
from quickstart.airflow_api import AirflowApi, AirflowHomeError, AirflowRequestError, read_text, wait_for
from quickstart.marked_processes import (
    KILL_GRACE,
    MARKER,
    end_marked_processes,
    marked_processes,
    send_signal,
    wait_until_ended,
)

STARTED_WITHIN = timedelta(seconds=180)
TERM_GRACE = timedelta(seconds=10)
LOG_TAIL_CHARS = 4000
# Below the kernel's usual range for outgoing connections: no client takes a port between pick and bind.
PORT_RANGE = (20000, 32000)
WATCHDOG_SCRIPT = str(Path(watchdog.__file__).absolute())

# A task is a fork of a fork of the scheduler, so it need not import again what the scheduler has in memory.
# Only the scheduler profits; the other components would merely start later.
LOCAL_SETTINGS = """\
import sys

if "scheduler" in sys.argv[1:2]:
    import importlib
    for name in {names!r}:
        importlib.import_module(name)
"""


class AirflowHome(AirflowApi):
    """One Airflow with its scheduler; a context manager that starts it and stops it. Two can run at once.

    `environment` is added last to what Airflow and its tasks see, so it may override a setting. `preload`
    names modules that the DAGs import, so that not every task imports them anew: with the Kubernetes operator
    in it, a task on it takes 0.1 s instead of 0.7. A `parallelism` of 4 suits two cores with small tasks.
    """

    def __init__(
        self,
        folder: Path,
        dags_folder: Path,
        environment: Mapping[str, str],
        parallelism: int,
        preload: Sequence[str] = ("airflow.sdk.execution_time.task_runner",),
    ) -> None:
        api_port, worker_log_port, trigger_log_port = _free_ports(3)
        super().__init__(f"http://127.0.0.1:{api_port}", dags_folder.absolute())
        self.folder = folder.absolute()
        self.log_file = self.folder / "standalone.log"
        self.ports = (api_port, worker_log_port, trigger_log_port)
        self.marker = uuid.uuid4().hex
        self._preload = tuple(preload)
        self.environment = {
            **_inherited_environment(),
            **_settings(self.folder, self._dags_folder, self.ports, parallelism),
            **environment,
            MARKER: self.marker,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start(STARTED_WITHIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, timeout: timedelta) -> None:
        """Start Airflow and wait until its API server, scheduler and DAG processor are healthy.

        When that fails, everything is stopped again. Errors: AirflowHomeError with the end of Airflow's log.
        """
        if not Path("/proc/self/environ").exists():
            raise AirflowHomeError("a private Airflow needs /proc to find its processes again")
        self._prepare_folder()
        try:
            # First the watchdog: from its start on, whatever carries the marker dies with this process.
            self._watchdog = _start_watchdog(self.marker)
            with self.log_file.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "airflow", "standalone"],
                    env=self.environment,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            wait_for("a healthy Airflow", self._is_healthy, timeout)
        except BaseException as exc:
            self.stop()
            if isinstance(exc, AirflowHomeError):
                raise AirflowHomeError(f"{exc}; the end of {self.log_file}:\n{self.log_tail()}") from exc
            raise

    def stop(self) -> None:
        """End every process of this home, however it came to be; a second call does nothing.

        Errors: AirflowHomeError when a process outlives SIGKILL.
        """
        if self._process is not None:
            leader = self._process
            known = marked_processes(self.marker)
            # standalone alone would leave its components behind; the whole group ends in order.
            send_signal(-leader.pid, signal.SIGTERM)
            known = wait_until_ended(self.marker, TERM_GRACE, known, lambda _: leader.poll())
            if left := end_marked_processes(self.marker, KILL_GRACE, known):
                raise AirflowHomeError(f"{sorted(left)} of Airflow in {self.folder} outlived SIGKILL")
            leader.wait()
            self._process = None
        self._dismiss_watchdog()

    def detach(self) -> str:
        """Leave everything up when this process ends, and return the shell command that stops it."""
        if self._process is not None:
            # Popen would warn that it is dropped while its process lives, which is the intent here.
            self._process.returncode = 0
            self._process = None
        self._dismiss_watchdog()
        return shlex.join([sys.executable, "-I", WATCHDOG_SCRIPT, "stop", self.marker])

    def log_tail(self) -> str:
        """The end of what Airflow's components wrote."""
        return read_text(self.log_file)[-LOG_TAIL_CHARS:]

    def _is_healthy(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise AirflowHomeError("airflow standalone ended while it started")
        try:
            health = self.health()
        except AirflowRequestError:
            return False
        return all(health.get(name) == "healthy" for name in ("metadatabase", "scheduler", "dag_processor"))

    def _prepare_folder(self) -> None:
        config = self.folder / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "airflow_local_settings.py").write_text(LOCAL_SETTINGS.format(names=self._preload))
        # The mode is kept in the file: with a write-ahead log readers and the writer do not block each other.
        connection = sqlite3.connect(self.folder / "airflow.db")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()

    def _dismiss_watchdog(self) -> None:
        if self._watchdog is not None:
            self._watchdog.communicate(b"dismissed")
            self._watchdog = None


def _start_watchdog(marker: str) -> subprocess.Popen[bytes]:
    # Only this process holds the other end of its stdin; whatever ends this process, the kernel closes it.
    return subprocess.Popen(
        [sys.executable, "-I", WATCHDOG_SCRIPT, "watch", marker],
        stdin=subprocess.PIPE,
        env={},
        cwd="/",
        start_new_session=True,
    )


def _free_ports(count: int) -> tuple[int, ...]:
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(*PORT_RANGE)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return tuple(ports)


def _inherited_environment() -> dict[str, str]:
    # Without bytecode files each start of a component takes several times as long.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lstrip("_").startswith("AIRFLOW") and name not in ("PYTHONDONTWRITEBYTECODE", MARKER)
    }
    # standalone starts its components by the name "airflow".
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    for name in ("NO_PROXY", "no_proxy"):
        kept[name] = ",".join(filter(None, [kept.get(name), "127.0.0.1", "localhost"]))
    return kept


def _settings(folder: Path, dags_folder: Path, ports: Sequence[int], parallelism: int) -> dict[str, str]:
    url = f"http://127.0.0.1:{ports[0]}"
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(parallelism),
        # Forks share what the scheduler has imported; a new interpreter a task would import Airflow each time.
        "AIRFLOW__CORE__MP_START_METHOD": "fork",
        "AIRFLOW__CORE__EXECUTE_TASKS_NEW_PYTHON_INTERPRETER": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(ports[0]),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(ports[1]),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports[2]),
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        # The default of 5 s kills tasks on a loaded machine.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        # A supervisor often misses the exit of its task and looks again only when its heartbeat is due, up to
        # this many seconds (default 5), with its lane lost: 40 small tasks took 34 s, with 1 they take 10.
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db?timeout=30",
        # A file that is there at the start is parsed at once; these are for files that come or change later.
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        # One cleared task is done after 0.6 s, with the default of 1 s after 2 s.
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
        "NO_COLOR": "1",
        # setproctitle would write a process's title over its environment, in which the marker is.
        "SPT_NOENV": "1",
    }
