"""The environment that a task hands to `dpone run`: interval, run identity and mapping item.

Interval values are templates that are rendered for each task instance. They are empty where a run has no such value, as a
run without a logical date has no interval; the runtime then refuses a window that needs one. Nothing else is a template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from dpone_contract.environment import EnvVar
from dpone_contract.errors import PackInvalidError
from dpone_contract.mapping_item import dump_item, mapping_item
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import ENVIRONMENT_VALUE_LIMIT_BYTES, Pack, ProcessPlan
from dpone_contract.run_identity import RunIdentity, dump_run_identity

PROVIDER_OWNED = frozenset(name.value for name in EnvVar)
_TEMPLATE_MARKS = ("{{", "{%", "{#")
_TEMPLATE_NAMES = ("ti", "run_id", "logical_date", "data_interval_start", "data_interval_end")

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

    Errors: PackInvalidError for a variable whose name the provider owns, that is too long, or that is a template.
    """
    return {**build_hook_env(plan), EnvVar.RUN_IDENTITY.value: _run_identity(pack, plan)}


def build_hook_env(plan: ProcessPlan) -> dict[str, str]:
    """Give what a hook gets: the workload's own variables and the interval. Errors: as in `build_task_env`."""
    return {**_authored_env(plan), **INTERVAL_ENV}


def build_mapped_envs(base: Mapping[str, str], mapping: MappingPlan) -> list[dict[str, str]]:
    """Give one complete environment an item, in the plan's order; each is a copy of its own."""
    name = EnvVar.MAPPING_ITEM.value
    return [{**base, name: dump_item(mapping_item(mapping, item))} for item in mapping.items]


def render_env(env: Mapping[str, str], context: Mapping[str, object]) -> dict[str, str]:
    """Give the environment of one task instance: the provider's templates rendered to text, all else as it is."""
    values = {name: context.get(name) for name in _TEMPLATE_NAMES}
    jinja = SandboxedEnvironment(undefined=StrictUndefined)
    return {
        name: jinja.from_string(text).render(values) if text == INTERVAL_ENV.get(name) else text
        for name, text in env.items()
    }


def _authored_env(plan: ProcessPlan) -> dict[str, str]:
    secrets = [secret.variable for secret in plan.pod.secrets or ()]
    for name in (*(plan.pod.env_vars or {}), *secrets):
        if name in PROVIDER_OWNED:
            raise PackInvalidError(
                f"task {plan.task_id}: the variable {name} is written by the provider and cannot be set",
                next_step="remove it from env_vars and secrets",
            )
    for text in _texts(plan.pod.to_document()):
        if any(mark in text for mark in _TEMPLATE_MARKS):
            raise PackInvalidError(
                f"task {plan.task_id}: pod settings are no templates, and one of them holds {{{{, {{% or {{#",
                next_step="remove the braces and build the pack again",
            )
    for name, text in (plan.pod.env_vars or {}).items():
        if len(text.encode()) > ENVIRONMENT_VALUE_LIMIT_BYTES:
            raise PackInvalidError(
                f"task {plan.task_id}: the variable {name} is too long",
                next_step=f"give it a text of at most {ENVIRONMENT_VALUE_LIMIT_BYTES} bytes",
            )
    return dict(plan.pod.env_vars or {})


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _texts(key)
            yield from _texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child)


def _run_identity(pack: Pack, plan: ProcessPlan) -> str:
    return dump_run_identity(
        RunIdentity(
            release=pack.release,
            deployment=pack.deployment,
            workload=pack.workload,
            process=plan.process.name,
            pack_fingerprint=pack.fingerprint,
            process_digest=plan.process_digest,
        )
    )
