"""The environment that a task hands to `dpone run`: interval, run identity and mapping item.

Interval values are templates that Airflow renders for each task instance. They are empty where a run has no such value,
as a run without a logical date has no interval; the runtime then refuses a window that needs one.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone_contract.environment import EnvVar
from dpone_contract.errors import PackInvalidError
from dpone_contract.mapping_item import dump_item, mapping_item
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import ENVIRONMENT_VALUE_LIMIT_BYTES, Pack, ProcessPlan
from dpone_contract.run_identity import RunIdentity, dump_run_identity

_PROVIDER_OWNED = frozenset(name.value for name in EnvVar)
_JINJA = ("{{", "{%", "{#")

INTERVAL_ENV: Mapping[str, str] = {
    EnvVar.DAG_ID.value: "{{ ti.dag_id | default('', true) }}",
    EnvVar.DAG_RUN_ID.value: "{{ run_id | default('', true) }}",
    EnvVar.TRY_NUMBER.value: "{{ ti.try_number | default('', true) }}",
    # ISO 8601 on every Airflow: its date objects print themselves with a blank in place of the T.
    EnvVar.LOGICAL_DATE.value: "{{ logical_date | default('', true) | string | replace(' ', 'T') }}",
    EnvVar.INTERVAL_START.value: "{{ data_interval_start | default('', true) | string | replace(' ', 'T') }}",
    EnvVar.INTERVAL_END.value: "{{ data_interval_end | default('', true) | string | replace(' ', 'T') }}",
}


def build_task_env(pack: Pack, plan: ProcessPlan) -> dict[str, str]:
    """Give what every run of a process gets: the workload's own variables, the interval and the run identity.

    Errors: PackInvalidError for a variable whose name the provider owns, or that is too long.
    """
    authored = _authored_env(plan.pod.env_vars or {}, plan.task_id)
    return {**authored, **INTERVAL_ENV, EnvVar.RUN_IDENTITY.value: _run_identity(pack, plan)}


def build_mapped_envs(base: Mapping[str, str], mapping: MappingPlan) -> list[dict[str, str]]:
    """Give one complete environment an item, in the plan's order; each is a copy of its own."""
    name = EnvVar.MAPPING_ITEM.value
    return [{**base, name: dump_item(mapping_item(mapping, item))} for item in mapping.items]


def _authored_env(authored: Mapping[str, str], task_id: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in authored.items():
        if name in _PROVIDER_OWNED:
            raise PackInvalidError(
                f"task {task_id}: the variable {name} is written by the provider and cannot be set",
                next_step="remove it from env_vars",
            )
        if len(text.encode()) > ENVIRONMENT_VALUE_LIMIT_BYTES:
            raise PackInvalidError(
                f"task {task_id}: the variable {name} is too long",
                next_step=f"give it a text of at most {ENVIRONMENT_VALUE_LIMIT_BYTES} bytes",
            )
        found[name] = text
    return found


def _run_identity(pack: Pack, plan: ProcessPlan) -> str:
    text = dump_run_identity(
        RunIdentity(
            release=pack.release,
            deployment=pack.deployment,
            workload=pack.workload,
            process=plan.process.name,
            pack_fingerprint=pack.fingerprint,
            process_digest=plan.process_digest,
        )
    )
    # Airflow renders every value of the environment. An identity must arrive as it was compiled.
    if any(mark in text for mark in _JINJA):
        raise PackInvalidError(
            "release, deployment or workload holds template marks",
            next_step="remove the double braces and build again",
        )
    return text
