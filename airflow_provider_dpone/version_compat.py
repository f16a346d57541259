"""The only place that asks which Airflow this is; everything else takes Airflow's names from here.

Works from 2.10 to 3.3: the names are those of the Task SDK, and on Airflow 2 their predecessors.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

AIRFLOW_3 = find_spec("airflow.sdk") is not None

if TYPE_CHECKING or AIRFLOW_3:
    from airflow.sdk import DAG, Asset, BaseOperator, Context, TaskGroup, get_parsing_context
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
else:
    from airflow.datasets import Dataset as Asset
    from airflow.exceptions import AirflowException, AirflowFailException, TaskDeferred
    from airflow.models.baseoperator import BaseOperator
    from airflow.models.dag import DAG
    from airflow.utils.context import Context
    from airflow.utils.dag_parsing_context import get_parsing_context
    from airflow.utils.task_group import TaskGroup


def files_errors_by_dag() -> bool:
    """Whether a DAG that cannot be serialized is set aside here, under its own `fileloc`, and does no harm to others.

    So does Airflow 2 wherever it stores DAGs. On Airflow 3 the DAG processor does, which marks its parsing processes as
    client side; the command line (`dags reserialize`, `dags test`) fails as a whole.
    """
    return not AIRFLOW_3 or os.environ.get("_AIRFLOW_PROCESS_CONTEXT") == "client"


__all__ = [
    "AIRFLOW_3",
    "DAG",
    "AirflowException",
    "AirflowFailException",
    "Asset",
    "BaseOperator",
    "Context",
    "TaskDeferred",
    "TaskGroup",
    "files_errors_by_dag",
    "get_parsing_context",
]
