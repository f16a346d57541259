"""Airflow in a process of its own, started by `AirflowProcess` alone: runs DAGs with `dag.test()`, one after another, as it is told.

A line of standard input is a request, a line of the descriptor that the first argument names is its answer. Everything that Airflow
says goes to standard output and standard error.

A run that is there already is gone on with as a scheduler would after somebody has cleared some of its tasks: `dag.test()` is given
that run where it would create one.
"""

import json
import os
import sys
import traceback
from typing import Any
from unittest.mock import patch

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState

from airflow_provider_dpone.version_compat import AIRFLOW_3
from tests.airflow.airflow_stand_ins import dag_bag


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run one DAG of the DAG folder to its end; give the run's id and state."""
    bag = dag_bag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    if bag.import_errors:
        return {"error": str(bag.import_errors)}
    dag = bag.dags[request["dag_id"]]
    if not AIRFLOW_3:
        # Later releases do so themselves; without it nobody knows the datasets that a task updates.
        bag.sync_to_db()
    if request["run_id"] is None:
        finished = dag.test()
    else:
        clear(request["dag_id"], request["run_id"], request["cleared"])
        finished = go_on(dag, request["run_id"])
    return {"run_id": finished.run_id, "state": str(finished.state)}


def clear(dag_id: str, run_id: str, cleared: list[list[Any]]) -> None:
    """Clear tasks of a run, each a task's id and a map index."""
    with create_session() as session:
        query = session.query(TaskInstance).filter(
            TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id
        )
        found = [ti for ti in query if [ti.task_id, ti.map_index] in cleared]
        assert len(found) == len(cleared), cleared
        clear_task_instances(found, session)
        for dag_run in _runs(session, dag_id, run_id):
            dag_run.state = DagRunState.RUNNING


def go_on(dag: Any, run_id: str) -> Any:
    """Run what of a run has no state."""
    creator = (
        "airflow.models.dagrun.get_or_create_dagrun"
        if AIRFLOW_3
        else "airflow.models.dag._get_or_create_dagrun"
    )

    def existing(*, dag: Any, session: Any, **_: Any) -> Any:
        (found,) = _runs(session, dag.dag_id, run_id)
        found.dag = dag
        return found

    with patch(creator, existing):
        return dag.test()


def _runs(session: Any, dag_id: str, run_id: str) -> list[Any]:
    return session.query(DagRun).filter(DagRun.dag_id == dag_id, DagRun.run_id == run_id).all()


def main() -> None:
    answers = int(sys.argv[1])
    os.set_inheritable(answers, False)
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except Exception:  # noqa: BLE001  a process boundary
            answer = {"error": traceback.format_exc()}
        sys.stdout.flush()
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
