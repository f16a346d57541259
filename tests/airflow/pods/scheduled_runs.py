"""A campaign that runs in pods under Airflow's own scheduler, API server and triggerer, and what is watched meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from dpone_contract.pack import ExecutionBackend
from dpone_contract.process import Process
from quickstart.airflow_home import AirflowHome
from tests.airflow.pods.pod_runs import DAG_FILE, TASK, build_pod
from tests.factories import make_pack, make_process_plan, write_pack_file
from tests.integration.campaigns import History
from tests.kubernetes_api.kubernetes_api import KubernetesApi
from tests.waiting import wait_until

KNOWN_WITHIN = timedelta(seconds=60)
RUN_WITHIN = timedelta(seconds=120)
AT_WORK_SECONDS = 60
SAMPLE_SECONDS = 0.02
LIVE_LEASES = (
    "SELECT count(*) FROM dpone_audit.__dpone__backfill_chunks"
    " WHERE status = 'running' AND lease_expires_at > clock_timestamp()"
)


class ScheduledRuns:
    """One DAG of one process, deployed and run as often as a test asks for it."""

    def __init__(self, history: History, api: KubernetesApi, airflow: AirflowHome, dags: Path) -> None:
        self.history = history
        self.api = api
        self.airflow = airflow
        self.dag_id = ""
        self.run_id = ""
        self._dags = dags
        api.add_secret("databases", {"source": history.uri, "target": history.uri})

    def start(self, dag_id: str, process: Process, *, deferrable: bool, outlets: Sequence[str]) -> None:
        """Give the DAG to Airflow, and begin its run."""
        plan = make_process_plan(
            process,
            task_id=TASK,
            backend=ExecutionBackend.KUBERNETES,
            pod=build_pod(deferrable=deferrable),
            outlets=tuple(outlets),
        )
        projection = {"dag_id": dag_id, "retries": 0, "retry_delay_seconds": 0}
        path = write_pack_file(
            self._dags.parent / "packs", make_pack(dag_id, processes=(plan,), dag=projection)
        )
        file = DAG_FILE.format(path=str(path), check_seconds=1)
        (self._dags / f"{dag_id}.py").write_text(file, encoding="utf-8")
        self.dag_id = dag_id
        self.airflow.wait_for_dag(dag_id, KNOWN_WITHIN)
        self.airflow.unpause(dag_id)
        self.run_id = self.airflow.trigger(dag_id)

    def finish(self) -> str:
        """Wait for the end of the run; give its state."""
        return self.airflow.wait_for_run(self.dag_id, self.run_id, RUN_WITHIN)

    def states(self) -> dict[tuple[str, int], tuple[str | None, int]]:
        """Give state and number of tries by task and map index."""
        instances = self.airflow.task_instances(self.dag_id, self.run_id)
        return {(each.task_id, each.map_index): (each.state, each.try_number) for each in instances}

    def labels(self) -> list[str | None]:
        """Give what Airflow shows in place of the items' numbers."""
        instances = self.airflow.task_instances(self.dag_id, self.run_id)
        return [each.rendered_map_index for each in instances if each.map_index >= 0]

    def clear(self, *map_indexes: int, downstream: bool = False) -> str:
        """Clear items, by default all of them, and wait for the end of the run; give its state."""
        self.begin_again(*map_indexes, downstream=downstream)
        return self.finish()

    def begin_again(self, *map_indexes: int, downstream: bool = False) -> None:
        """Clear items, by default all of them."""
        self.airflow.clear(self.dag_id, self.run_id, TASK, map_indexes or None, include_downstream=downstream)

    def mark(self, map_index: int, state: str) -> None:
        """Set an item's state by hand, and wait until its pod is gone."""
        selector = f"dag_id={self.dag_id},map_index={map_index}"
        self.airflow.mark(self.dag_id, self.run_id, TASK, map_index, state)
        wait_until(
            lambda: all(pod.gone and not pod.runs_process for pod in self.api.pods(selector)),
            AT_WORK_SECONDS,
            "the end of the pod of an item that was marked",
        )

    def log(self, task_id: str, map_index: int, try_number: int) -> str:
        """Give the log of one try."""
        return self.airflow.task_log(self.dag_id, self.run_id, task_id, map_index, try_number)

    def asset_events(self) -> list[str]:
        """Give the assets that the run has updated, once an update."""
        return self.airflow.asset_events(self.dag_id, self.run_id)

    def wait_for_work(self, count: int, state: str) -> None:
        """Wait until so many chunks are at work, as many items in that state of Airflow's, and those deferred watched.

        A pod is at work before its worker has handed it over, and before the triggerer has taken it: ended in between, its
        item has nobody who would end the pod.
        """
        wait_until(
            lambda: self.history.has_ledger_rows() and self.history.live_leases() == count,
            AT_WORK_SECONDS,
            f"{count} chunks at work",
        )
        wait_until(
            lambda: sum(found == state for found, _ in self.states().values()) == count,
            AT_WORK_SECONDS,
            f"{count} items {state}",
        )
        if state == "deferred":
            before, names = self._looks(), [pod.name for pod in self.api.pods() if pod.runs_process]
            wait_until(
                lambda: all(self._looks()[name] > before[name] for name in names),
                AT_WORK_SECONDS,
                "the triggerer's looks at every pod",
            )

    def _looks(self) -> Counter[str | None]:
        return Counter(call.pod for call in self.api.calls("read"))

    def rows(self) -> list[tuple[Any, ...]]:
        """Give place and inserting transaction of every row of the target."""
        return self.history.sql("SELECT day, ctid::text, xmin::text FROM target.history ORDER BY 1, 2")


@contextmanager
def held_target(uri: str) -> Iterator[None]:
    """Let nobody change a row of the target: chunks are claimed, and wait in the middle of their transaction."""
    with psycopg.connect(uri) as holder:
        holder.execute("LOCK TABLE target.history IN SHARE MODE")
        yield


class LeaseSampler:
    """Counts live leases of the ledger again and again while its block runs."""

    def __init__(self, uri: str) -> None:
        self.counts: list[int] = []
        self._uri = uri
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        with psycopg.connect(self._uri, autocommit=True) as connection:
            while not self._end.wait(SAMPLE_SECONDS):
                try:
                    (count,) = connection.execute(LIVE_LEASES).fetchone() or (0,)
                except psycopg.errors.UndefinedTable:
                    continue
                self.counts.append(count)
