"""Airflow provider: it turns verified packs into tasks and opens nothing but pack files.

A DAG file needs two lines::

    from airflow_provider_dpone import load_dpone_dags
    load_dpone_dags(Path(__file__).parent / "packs")

Names are imported when they are asked for: Airflow imports this package while it looks for providers, before its own
configuration is ready.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from airflow_provider_dpone.provider_info import VERSION

if TYPE_CHECKING:
    from airflow_provider_dpone.dags import DponeDag, load_dpone_dags
    from airflow_provider_dpone.pod_operator import DponePodOperator
    from airflow_provider_dpone.process_operator import DponeProcessOperator
    from airflow_provider_dpone.task_group import DponeTaskGroup

__version__ = VERSION

__all__ = [
    "DponeDag",
    "DponePodOperator",
    "DponeProcessOperator",
    "DponeTaskGroup",
    "__version__",
    "load_dpone_dags",
]

_MODULE_OF = {
    "DponeDag": "dags",
    "load_dpone_dags": "dags",
    "DponeTaskGroup": "task_group",
    "DponePodOperator": "pod_operator",
    "DponeProcessOperator": "process_operator",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
