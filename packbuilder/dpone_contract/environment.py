"""Names of every environment variable that the provider writes and the runtime reads."""

from __future__ import annotations

from enum import StrEnum


class EnvVar(StrEnum):
    """Provider-owned names: a DAG cannot override them."""

    DAG_ID = "DPONE_DAG_ID"
    DAG_RUN_ID = "DPONE_DAG_RUN_ID"
    TRY_NUMBER = "DPONE_TRY_NUMBER"
    LOGICAL_DATE = "DPONE_LOGICAL_DATE"
    INTERVAL_START = "DPONE_INTERVAL_START"
    INTERVAL_END = "DPONE_INTERVAL_END"
    RUN_IDENTITY = "DPONE_AIRFLOW_RUN_IDENTITY"
    MAPPING_ITEM = "DPONE_AIRFLOW_MAPPING_ITEM"
    OUTCOME_PATH = "DPONE_OUTCOME_PATH"
    PARENT_PID = "DPONE_PARENT_PID"


CONNECTION_PREFIXES = ("DPONE_CONN_", "AIRFLOW_CONN_")
CONNECTIONS_DIR = "DPONE_CONNECTIONS_DIR"
STATE_DIR = "DPONE_BACKFILL_STATE_DIR"
POD_OUTCOME_PATH = "/airflow/xcom/return.json"


def connection_variables(name: str) -> tuple[str, ...]:
    """Give the variables that may hold a connection, in the order in which they are looked up."""
    suffix = name.upper().replace("-", "_").replace(".", "_")
    return tuple(prefix + suffix for prefix in CONNECTION_PREFIXES)
