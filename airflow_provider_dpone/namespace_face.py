"""The published import path `airflow.providers.dpone`: it hands on the names of `airflow_provider_dpone`.

The wheel ships this file as `airflow/providers/dpone/__init__.py`. Names are handed on when they are asked for, for the
same reason as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import airflow_provider_dpone

if TYPE_CHECKING:
    from airflow_provider_dpone import (
        DponeDag,
        DponePodOperator,
        DponeProcessOperator,
        DponeTaskGroup,
        __version__,
        load_dpone_dags,
    )

__all__ = [
    "DponeDag",
    "DponePodOperator",
    "DponeProcessOperator",
    "DponeTaskGroup",
    "__version__",
    "load_dpone_dags",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(airflow_provider_dpone, name)
