"""A real Airflow 3.3 with its scheduler in a private home, for the demo and one end-to-end test.

Airflow runs only as a subprocess, on loopback, with everybody an admin: never expose it. Needs Linux's
/proc, by which it proves that it leaves no process behind. The file is also a script, its own watchdog.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import secrets
import select
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode

MARKER = "DPONE_AIRFLOW_HOME_MARKER"
STARTED_WITHIN = timedelta(seconds=180)
TERM_GRACE = timedelta(seconds=10)
KILL_GRACE = timedelta(seconds=10)
POLL_SECONDS = 0.5
END_POLL_SECONDS = 0.1
REQUEST_TIMEOUT_SECONDS = 60.0
PAGE_LIMIT = 100  # the server's maximum_page_limit; a larger value is cut to it without a word
LOG_TAIL_CHARS = 4000
# Below the kernel's usual range for outgoing connections: no client takes a port between pick and bind.
PORT_RANGE = (20000, 32000)
RUN_ENDED = frozenset({"success", "failed"})

# A task is a fork of a fork of the scheduler, so it need not import again what the scheduler has in memory.
# Only the scheduler profits; the other components would merely start later.
LOCAL_SETTINGS = """\
import sys

if "scheduler" in sys.argv[1:2]:
    import importlib
    for name in {names!r}:
        importlib.import_module(name)
"""


class AirflowHomeError(RuntimeError):
    """The private Airflow could not be started, used or stopped; the message shows what Airflow said."""


class AirflowRequestError(AirflowHomeError):
    """Airflow's REST API refused a request, or could not be reached (status 0)."""

    def __init__(self, request: str, status: int, body: str) -> None:
        super().__init__(f"{request}: {status or 'unreachable'}: {body}")
        self.status = status
        self.body = body


class DagImportError(AirflowHomeError):
    """A DAG file could not be imported; the message holds Airflow's import error."""


class AirflowWaitError(AirflowHomeError):
    """What was waited for did not happen in time."""


@dataclass(frozen=True)
class TaskState:
    """One task instance; map_index is -1 for a task that is not mapped, duration is in seconds."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    rendered_map_index: str | None
    start: datetime | None
    end: datetime | None
    duration: float | None


class HomeProcess(NamedTuple):
    """One process; its start, in clock ticks since boot, tells it from a later one with the same id."""

    pid: int
    started: int


class AirflowApi:
    """A client of the REST API v2 of a server where everybody is an admin.

    Errors: AirflowRequestError from every method.
    """

    def __init__(self, url: str, dags_folder: Path) -> None:
        self.url = url
        self._dags_folder = dags_folder
        # No proxy: the server is on loopback, whatever HTTP_PROXY says.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token: str | None = None

    def health(self) -> dict[str, str | None]:
        """Status by component; a component that has not reported yet is None or "unhealthy"."""
        return {name: part.get("status") for name, part in self._call("GET", "/monitor/health").items()}

    def create_pool(self, name: str, slots: int, description: str) -> None:
        """Create a pool; one of that name must not exist yet."""
        self._call("POST", "/pools", {"name": name, "slots": slots, "description": description})

    def wait_for_dag(self, dag_id: str, timeout: timedelta) -> None:
        """Wait until the DAG is known. Errors: DagImportError, AirflowWaitError."""

        def known() -> bool:
            try:
                broken = bool(self._call("GET", f"/dags/{quote(dag_id)}")["has_import_errors"])
            except AirflowRequestError as exc:
                if exc.status != 404:
                    raise
                # A file that fails has no DAGs; that it was to hold this one shows only in its text.
                broken = any(
                    dag_id in _read_text(self._dags_folder / name) for name, _ in self._import_errors()
                )
                if not broken:
                    return False
            if broken:
                raise DagImportError(f"DAG {dag_id}:\n{self._import_error_text()}")
            return True

        try:
            _wait(f"DAG {dag_id}", known, timeout)
        except AirflowWaitError as exc:
            if errors := self._import_error_text():
                raise DagImportError(f"{exc}; DAG files that cannot be imported:\n{errors}") from exc
            raise

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run the DAG; new DAGs are paused."""
        self._call("PATCH", f"/dags/{quote(dag_id)}?update_mask=is_paused", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, object] | None = None) -> str:
        """Start a run without a logical date and return its run id."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._call("POST", f"/dags/{quote(dag_id)}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """State of the run: queued, running, success or failed."""
        return str(self._call("GET", f"{_run_path(dag_id, run_id)}")["state"])

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskState]:
        """All task instances of the run, ordered by task and map index."""
        found: list[TaskState] = []
        while True:
            # A stable order, or pages would overlap while the scheduler writes.
            query = urlencode({"limit": PAGE_LIMIT, "offset": len(found), "order_by": "id"})
            page = self._call("GET", f"{_run_path(dag_id, run_id)}/taskInstances?{query}")
            found += [_parse_task_state(item) for item in page["task_instances"]]
            if not page["task_instances"] or len(found) >= page["total_entries"]:
                return sorted(found, key=lambda item: (item.task_id, item.map_index))

    def wait_for_run(
        self,
        dag_id: str,
        run_id: str,
        timeout: timedelta,
        on_progress: Callable[[list[TaskState]], None] | None = None,
    ) -> str:
        """Wait until the run has ended and return "success" or "failed".

        on_progress is called at each look, the last time with the final states. Errors: AirflowWaitError.
        """

        def ended() -> bool:
            # The state first: the task states read after it are at least as new.
            state = self.run_state(dag_id, run_id)
            if on_progress is not None:
                on_progress(self.task_instances(dag_id, run_id))
            return state in RUN_ENDED

        _wait(f"run {run_id} of DAG {dag_id}", ended, timeout)
        return self.run_state(dag_id, run_id)

    def clear(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        map_indexes: Sequence[int] | None = None,
        *,
        only_failed: bool = False,
        reset_dag_runs: bool = True,
    ) -> list[TaskState]:
        """Clear the task's instances with these map indexes, or all of them, and return what was cleared.

        With reset_dag_runs the run is queued again; without it an ended run stays ended and nothing runs.
        """
        body = {
            "dry_run": False,  # the server's default is True
            "dag_run_id": run_id,
            "task_ids": [task_id] if map_indexes is None else [[task_id, index] for index in map_indexes],
            "only_failed": only_failed,
            "reset_dag_runs": reset_dag_runs,
        }
        answer = self._call("POST", f"/dags/{quote(dag_id)}/clearTaskInstances", body)
        return [_parse_task_state(item) for item in answer["task_instances"]]

    def task_log(self, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int) -> str:
        """Plain text of one try's log, a line an event; an event's further fields follow it as JSON."""
        query = urlencode({"map_index": map_index, "full_content": "true"})
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/logs/{try_number}?{query}"
        return "".join(_log_line(event) for event in self._call("GET", path)["content"])

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, map_index: int, key: str = "return_value"
    ) -> object:
        """Value of the XCom as JSON has it."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/{quote(key, safe='')}"
        value: object = self._call("GET", f"{path}?map_index={map_index}")["value"]
        return value

    def _import_errors(self) -> list[tuple[str, str]]:
        errors = self._call("GET", f"/importErrors?limit={PAGE_LIMIT}")["import_errors"]
        return [(str(error["filename"]), str(error["stack_trace"])) for error in errors]

    def _import_error_text(self) -> str:
        return "\n".join(f"{name}: {text}" for name, text in self._import_errors())

    # Any: the answers' shapes are Airflow's.
    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        if self._token is None and path != "/monitor/health":
            self._token = str(self._exchange("GET", "/auth/token", None)["access_token"])
        return self._exchange(method, f"/api/v2{path}", body)

    def _exchange(self, method: str, path: str, body: object) -> dict[str, Any]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=REQUEST_TIMEOUT_SECONDS) as response:
                answer: dict[str, Any] = json.loads(response.read() or b"{}")
                return answer
        except urllib.error.HTTPError as exc:
            with exc:
                text = exc.read().decode(errors="replace")
            raise AirflowRequestError(f"{method} {path}", exc.code, text) from exc
        except OSError as exc:
            raise AirflowRequestError(f"{method} {path}", 0, str(exc)) from exc


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
            _wait("a healthy Airflow", self._is_healthy, timeout)
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
            _signal(-leader.pid, signal.SIGTERM)
            known = _wait_until_ended(self.marker, TERM_GRACE, known, lambda _: leader.poll())
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
        return shlex.join([sys.executable, "-I", str(Path(__file__).absolute()), "stop", self.marker])

    def log_tail(self) -> str:
        """The end of what Airflow's components wrote."""
        return _read_text(self.log_file)[-LOG_TAIL_CHARS:]

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


def marked_processes(marker: str, known: Set[HomeProcess] = frozenset()) -> set[HomeProcess]:
    """Find the living processes of the home with this marker, never the caller's own session.

    The evidence is the marker in a process's environment. Descendants and session fellows are added, and
    those of `known` that still live: a task's child may have a clean environment and a session of its own,
    and is found only through a parent that may be gone at the next look.
    """
    needle = f"{MARKER}={marker}".encode()
    own_session = os.getsid(0)
    sessions: dict[HomeProcess, int] = {}
    parents: dict[HomeProcess, int] = {}
    found: set[HomeProcess] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which may hold anything: state, parent, group, session; start time is field 22.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile, or is another user's
            continue
        process = HomeProcess(pid=int(folder.name), started=int(fields[19]))
        if fields[0] not in b"ZX" and int(fields[3]) != own_session:
            parents[process], sessions[process] = int(fields[1]), int(fields[3])
            if needle in environment or process in known:
                found.add(process)
    while True:
        pids = {process.pid for process in found}
        home_sessions = {sessions[process] for process in found}
        more = {
            process for process in parents if parents[process] in pids or sessions[process] in home_sessions
        }
        if more <= found:
            return found
        found |= more


def end_marked_processes(
    marker: str, grace: timedelta, known: Set[HomeProcess] = frozenset()
) -> set[HomeProcess]:
    """Kill the home's processes, new ones too, until none is found; return those left after the grace."""

    def kill(found: Set[HomeProcess]) -> None:
        for process in found:
            _signal(process.pid, signal.SIGKILL)

    return _wait_until_ended(marker, grace, known, kill)


def _wait_until_ended(
    marker: str,
    grace: timedelta,
    known: Set[HomeProcess],
    meanwhile: Callable[[Set[HomeProcess]], object],
) -> set[HomeProcess]:
    deadline = time.monotonic() + grace.total_seconds()
    while True:
        found = marked_processes(marker, known)
        meanwhile(found)
        if not found or time.monotonic() > deadline:
            return found
        known = found
        time.sleep(END_POLL_SECONDS)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _start_watchdog(marker: str) -> subprocess.Popen[bytes]:
    # Only this process holds the other end of its stdin; whatever ends this process, the kernel closes it.
    return subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).absolute()), "watch", marker],
        stdin=subprocess.PIPE,
        env={},
        cwd="/",
        start_new_session=True,
    )


def _watch(marker: str, pipe: int) -> None:
    # A byte means "dismissed", the end of the pipe that the parent is gone. A fork of the parent may hold the
    # pipe open after its death, so a change of the parent's id counts too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent_id = os.getppid()
    while os.getppid() == parent_id:
        if select.select([pipe], [], [], 1.0)[0]:
            if os.read(pipe, 1):
                return
            break
    end_marked_processes(marker, KILL_GRACE)


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


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _parse_task_state(item: Mapping[str, Any]) -> TaskState:
    return TaskState(
        task_id=item["task_id"],
        map_index=item["map_index"],
        state=item["state"],
        try_number=item["try_number"],
        rendered_map_index=item["rendered_map_index"],
        start=_parse_time(item["start_date"]),
        end=_parse_time(item["end_date"]),
        duration=item["duration"],
    )


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _log_line(event: str | dict[str, Any]) -> str:
    if isinstance(event, str):
        return f"{event}\n"
    rest = {name: value for name, value in event.items() if name not in ("timestamp", "level", "event")}
    parts = (event.get("timestamp"), event.get("level"), event["event"], json.dumps(rest) if rest else None)
    return " ".join(part for part in parts if part) + "\n"


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _wait(what: str, happened: Callable[[], bool], timeout: timedelta) -> None:
    deadline = time.monotonic() + timeout.total_seconds()
    while not happened():
        if time.monotonic() > deadline:
            raise AirflowWaitError(f"{what}: not within {timeout.total_seconds():g} s")
        time.sleep(POLL_SECONDS)


def _main(verb: str, marker: str) -> int:
    if verb == "watch":
        _watch(marker, sys.stdin.fileno())
        return 0
    return 1 if end_marked_processes(marker, KILL_GRACE) else 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
