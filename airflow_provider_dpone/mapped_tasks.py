"""Mapped tasks: one task instance an item of the mapping plan, written into the DAG as a literal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_dpone.version_compat import BaseOperator
from dpone_contract.errors import MappingUnsupportedError
from dpone_contract.mapping_plan import MappingPlan

# Read from the operator, so that it is known before a task runs (Airflow 3.2 and later) as well as after.
LABEL_TEMPLATE = "{{ task.dpone_label }}"


def expand_runtime_task(
    operator: type[BaseOperator],
    mapping: MappingPlan,
    envs: Sequence[Mapping[str, str]],
    static: Mapping[str, Any],
) -> Any:
    """Build the mapped task of a process: everything is static but the environment, of which there is one an item.

    Errors: MappingUnsupportedError when the installed Airflow cannot map the operator.
    Source: the mapping design, provider behavior.
    """
    try:
        partial = operator.partial(
            **static,
            pool=mapping.limits.pool,
            max_active_tis_per_dag=mapping.limits.max_active,
            map_index_template=LABEL_TEMPLATE,
        )
        return partial.expand(env_vars=[dict(env) for env in envs])
    except (AttributeError, TypeError) as error:
        raise MappingUnsupportedError(
            f"the installed Airflow cannot map {operator.__name__}: {error}",
            where=f"task {static.get('task_id')}",
            next_step="install Airflow 2.10 or newer, or build the workload with mapping.mode internal",
        ) from error
