"""What Airflow gives a running task, as plain values, and the calls whose place differs between its releases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow_provider_dpone.version_compat import AIRFLOW_3, DAG

DATED = {
    "logical_date": datetime(2024, 3, 1, tzinfo=UTC),
    "data_interval_start": datetime(2024, 3, 1, tzinfo=UTC),
    "data_interval_end": datetime(2024, 3, 2, tzinfo=UTC),
}


class TaskInstanceStandIn:
    """Keeps what is pushed to it as XCom."""

    def __init__(
        self, task: Any, *, run_id: str = "manual__1", try_number: int = 1, map_index: int = -1
    ) -> None:
        self.task = task
        self.dag_id = task.dag.dag_id
        self.task_id = task.task_id
        self.run_id = run_id
        self.try_number = try_number
        self.map_index = map_index
        self.is_mapped = map_index >= 0
        self.xcoms: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        # Airflow keeps XComs as JSON.
        self.xcoms[key] = json.loads(json.dumps(value))


def make_context(task: Any, dates: dict[str, datetime] | None = None, **instance: Any) -> Any:
    """The context of one task instance; without `dates` that of a run without a logical date."""
    ti = TaskInstanceStandIn(task, **instance)
    context = {
        "ti": ti,
        "task_instance": ti,
        "task": task,
        "dag": task.dag,
        "run_id": ti.run_id,
        "params": {},
        "dag_run": SimpleNamespace(conf={}, run_id=ti.run_id),
        **(dates or {}),
    }
    if AIRFLOW_3:
        return context
    from airflow.utils.context import Context

    return Context(context)


def render(task: Any, dates: dict[str, datetime] | None = None, **instance: Any) -> Any:
    """Render a task as Airflow does before it runs it, and give the context, whose `task` is the rendered one."""
    context = make_context(task, dates, **instance)
    task.render_template_fields(context)
    return context


def round_trip(dag: DAG) -> tuple[Any, int]:
    """Serialize a DAG and read it back, as the scheduler does; give it and its size in bytes."""
    try:
        from airflow.serialization.serialized_objects import DagSerialization as Serialization
    except ImportError:
        from airflow.serialization.serialized_objects import SerializedDAG as Serialization
    text = json.dumps(Serialization.to_dict(dag))
    return Serialization.from_dict(json.loads(text)), len(text.encode())


def dag_bag(folder: Any) -> Any:
    """What Airflow finds in a folder of DAG files."""
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:
        from airflow.models.dagbag import DagBag
    return DagBag(str(folder))
