"""A client of Airflow's REST API v2, and what can go wrong with it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

POLL_SECONDS = 0.5
REQUEST_TIMEOUT_SECONDS = 60.0
PAGE_LIMIT = 100  # the server's maximum_page_limit; a larger value is cut to it without a word
RUN_ENDED = frozenset({"success", "failed"})


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
                    dag_id in read_text(self._dags_folder / name) for name, _ in self._import_errors()
                )
                if not broken:
                    return False
            if broken:
                raise DagImportError(f"DAG {dag_id}:\n{self._import_error_text()}")
            return True

        try:
            wait_for(f"DAG {dag_id}", known, timeout)
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

        wait_for(f"run {run_id} of DAG {dag_id}", ended, timeout)
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
        include_downstream: bool = False,
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
            "include_downstream": include_downstream,
        }
        answer = self._call("POST", f"/dags/{quote(dag_id)}/clearTaskInstances", body)
        return [_parse_task_state(item) for item in answer["task_instances"]]

    def mark(self, dag_id: str, run_id: str, task_id: str, map_index: int, state: str) -> None:
        """Set the state of one task instance by hand: success or failed."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}?map_index={map_index}"
        self._call("PATCH", f"{path}&update_mask=new_state", {"new_state": state})

    def asset_events(self, dag_id: str, run_id: str) -> list[str]:
        """Give the URI of every asset event that a run has caused, oldest first."""
        query = urlencode({"source_dag_id": dag_id, "source_run_id": run_id, "order_by": "timestamp"})
        return [str(event["uri"]) for event in self._call("GET", f"/assets/events?{query}")["asset_events"]]

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


def wait_for(what: str, happened: Callable[[], bool], timeout: timedelta) -> None:
    """Look until something has happened. Errors: AirflowWaitError."""
    deadline = time.monotonic() + timeout.total_seconds()
    while not happened():
        if time.monotonic() > deadline:
            raise AirflowWaitError(f"{what}: not within {timeout.total_seconds():g} s")
        time.sleep(POLL_SECONDS)


def read_text(path: Path) -> str:
    """Give a file's text, nothing where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


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
