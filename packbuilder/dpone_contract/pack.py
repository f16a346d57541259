"""The pack: one workload compiled for Airflow, fingerprinted, without a credential; and how it is read and proved."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from dpone_contract.canonical import Fingerprint, canonical_json_of_plain, fingerprint_of_bytes
from dpone_contract.errors import PackInvalidError, PackTooLargeError
from dpone_contract.frozen import FrozenModel
from dpone_contract.mapping_item import dump_item, mapping_item
from dpone_contract.mapping_plan import FingerprintText, InternalMapping, MappingPlan, verify_mapping_plan
from dpone_contract.pod import PodArguments
from dpone_contract.process import Process, process_digest
from dpone_contract.strict_json import parse_plain_json

PACK_SCHEMA = "dpone.airflow-pack.v1"
PACK_FILE_NAME = "airflow-pack.json"
PACK_SIZE_LIMIT_BYTES = 2 * 1024 * 1024
# Linux takes 128 KiB for `NAME=value` and its end; the rest is for the name.
ENVIRONMENT_VALUE_LIMIT_BYTES = 127 * 1024
GATE_SUFFIX = "_gate"

AirflowName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,250}$")]
ShortText = Annotated[str, Field(min_length=1, max_length=250)]


class ExecutionBackend(StrEnum):
    """Where a task runs `dpone run`: in a pod, or in a child process of the worker."""

    KUBERNETES = "kubernetes"
    PROCESS = "process"


class DagProjection(FrozenModel):
    """What Airflow shows of a workload."""

    dag_id: AirflowName = Field(description="Id of the DAG.")
    description: str | None = Field(default=None, description="Shown by Airflow.")
    schedule: str | None = Field(
        default=None, description="Preset or cron line; none for a DAG that is started by hand."
    )
    start_date: str | None = Field(default=None, description="ISO date or instant.")
    catchup: bool = Field(default=False, description="Whether missed intervals are run.")
    max_active_runs: Annotated[int, Field(ge=1)] = Field(default=1, description="DAG runs at once.")
    tags: tuple[str, ...] = Field(default=(), description="Tags of the DAG.")
    owner: str | None = Field(default=None, description="Owner of the tasks.")
    retries: Annotated[int, Field(ge=0)] = Field(default=0, description="Airflow's retries of a task.")
    retry_delay_seconds: Annotated[int, Field(ge=0)] = Field(default=60, description="Pause before a retry.")
    execution_timeout_seconds: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="How long a task may run before Airflow ends it."
    )


class RetryAuthority(FrozenModel):
    """How many Airflow retries the compiler found to be safe, and why."""

    max_retries: Annotated[int, Field(ge=0, le=3, description="Most retries that are safe.")]
    reason: str = Field(description="Why so many.")


class Hook(FrozenModel):
    """A command that runs once, before all items or after them."""

    name: AirflowName = Field(description="Id of its task.")
    command: Annotated[tuple[str, ...], Field(min_length=1, description="Command and arguments.")]


class Hooks(FrozenModel):
    """Hooks of a process."""

    pre: tuple[Hook, ...] = Field(default=(), description="Before all items.")
    post: tuple[Hook, ...] = Field(default=(), description="After all items.")


class ProcessPlan(FrozenModel):
    """One process of a pack. Exactly one of `kpo_kwargs` (internal) and `mapped_kpo_kwargs` (mapped) is present."""

    task_id: AirflowName = Field(description="Id of the task.")
    backend: ExecutionBackend = Field(description="Where the task runs.")
    process: Process = Field(description="The compiled process.")
    process_digest: FingerprintText = Field(description="Digest of the process.")
    mapping: MappingPlan | InternalMapping = Field(description="The mapping plan, or that there is one task.")
    labels: tuple[ShortText, ...] = Field(
        default=(), description="What Airflow shows of each item, in the plan's order."
    )
    kpo_kwargs: PodArguments | None = Field(
        default=None, description="Operator's arguments of a single task."
    )
    mapped_kpo_kwargs: PodArguments | None = Field(
        default=None, description="Operator's arguments of mapped tasks."
    )
    hooks: Hooks = Field(default=Hooks(), description="Commands before and after.")
    outcome_gate: bool = Field(
        default=False,
        description="Whether a task behind it judges the outcome once more; always so before post hooks and outlets.",
    )
    outlets: tuple[ShortText, ...] = Field(
        default=(), description="URIs of the assets that a finished load updates."
    )
    retry_authority: RetryAuthority = Field(description="How many retries are safe.")

    @property
    def pod(self) -> PodArguments:
        """The operator's arguments, whichever of the two names holds them."""
        return self.kpo_kwargs or self.mapped_kpo_kwargs or PodArguments()

    @property
    def gate_task_id(self) -> str | None:
        """The id of the task that judges the outcome once more, where there is one."""
        gated = self.outcome_gate or self.outlets or self.hooks.post
        return f"{self.task_id}{GATE_SUFFIX}" if gated else None


class Pack(FrozenModel):
    """`dpone.airflow-pack.v1`."""

    schema_: Literal["dpone.airflow-pack.v1"] = Field(
        default="dpone.airflow-pack.v1", alias="schema", description="Name and version of this format."
    )
    fingerprint: FingerprintText = Field(description="Fingerprint of the pack, itself left out.")
    minimum_provider_version: ShortText = Field(description="Oldest provider that reads it.")
    release: ShortText = Field(description="Name of the release.")
    deployment: ShortText = Field(description="Name of the deployment.")
    workload: AirflowName = Field(description="Name of the workload.")
    dag: DagProjection = Field(description="What Airflow shows.")
    processes: Annotated[
        tuple[ProcessPlan, ...], Field(min_length=1, description="Processes, a task or more each.")
    ]


def seal_pack(pack: Pack) -> Pack:
    """Give the same pack with its fingerprint filled in."""
    return pack.replaced(fingerprint=pack_fingerprint(pack.to_document()))


def pack_fingerprint(document: dict[str, object]) -> Fingerprint:
    """Fingerprint a pack's document, the fingerprint itself left out. A pack is plain: `parse_pack` refuses what is not."""
    return fingerprint_of_bytes(
        canonical_json_of_plain({key: value for key, value in document.items() if key != "fingerprint"})
    )


def dump_pack(pack: Pack) -> bytes:
    """Give a pack's canonical bytes.

    Errors: PackTooLargeError beyond 2 MiB.
    """
    data = canonical_json_of_plain(pack.to_document())
    if len(data) > PACK_SIZE_LIMIT_BYTES:
        raise PackTooLargeError(
            f"pack {pack.workload} has {len(data)} bytes, more than {PACK_SIZE_LIMIT_BYTES}",
            where=f"workload {pack.workload}",
            next_step="split the workload",
        )
    return data


def parse_pack(data: bytes) -> Pack:
    """Read a pack and prove it: schema, fingerprint, mapping plans, digests, sizes.

    Errors: PackInvalidError naming what does not hold; MappingPlanMismatchError for a damaged mapping plan.
    """
    if len(data) > PACK_SIZE_LIMIT_BYTES:
        raise PackInvalidError(
            f"the pack has {len(data)} bytes, more than {PACK_SIZE_LIMIT_BYTES}", next_step="build it again"
        )
    try:
        document = parse_plain_json(data)
        # Fails too for text that has no UTF-8 (half of a surrogate pair, escaped).
        found_fingerprint = pack_fingerprint(document) if isinstance(document, dict) else None
    except (ValueError, RecursionError) as error:
        raise PackInvalidError(f"the pack is not JSON: {error}", next_step="build it again") from error
    if not isinstance(document, dict) or document.get("schema") != PACK_SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else None
        raise PackInvalidError(
            f"the pack's schema is {found!r}, this reader knows {PACK_SCHEMA}",
            next_step="upgrade airflow-provider-dpone, or build the pack with its release",
        )
    if document.get("fingerprint") != found_fingerprint:
        raise PackInvalidError(
            "the pack was changed after it was built: its fingerprint does not match its content",
            next_step="build it again with `dpone pack build`; do not edit packs",
        )
    try:
        pack = Pack.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise PackInvalidError(
            f"the pack is malformed at {'.'.join(map(str, first['loc']))}: {first['msg']}",
            next_step="upgrade airflow-provider-dpone, or build the pack again",
        ) from error
    verify_pack(pack)
    return pack


def verify_pack(pack: Pack) -> None:
    """Prove what a fingerprint alone cannot: that a pack's parts agree with one another.

    Errors: PackInvalidError, MappingPlanMismatchError.
    """
    task_ids: set[str] = set()
    for plan in pack.processes:
        if plan.task_id in task_ids:
            raise _damaged(plan, "another task has this name")
        task_ids.add(plan.task_id)
        mapped = isinstance(plan.mapping, MappingPlan)
        if (plan.mapped_kpo_kwargs is not None) != mapped or (plan.kpo_kwargs is not None) == mapped:
            raise _damaged(plan, "its operator arguments do not fit its mapping mode")
        if plan.process.mapping.mapped != mapped:
            raise _damaged(plan, "its mapping is not of its process's policy")
        if process_digest(plan.process) != plan.process_digest:
            raise _damaged(plan, "its process is not the one that its digest names")
        if isinstance(plan.mapping, MappingPlan):
            _verify_mapped(plan, plan.mapping)


def _verify_mapped(plan: ProcessPlan, mapping: MappingPlan) -> None:
    verify_mapping_plan(mapping)
    if (mapping.mode, mapping.limits) != (plan.process.mapping.mode.value, plan.process.mapping.limits):
        raise _damaged(plan, "its mapping is not of its process's policy")
    if len(plan.labels) != mapping.items_total:
        raise _damaged(plan, f"it has {len(plan.labels)} labels for {mapping.items_total} items")
    dump_item(mapping_item(mapping, mapping.items[-1]))


def _damaged(plan: ProcessPlan, reason: str) -> PackInvalidError:
    return PackInvalidError(
        f"task {plan.task_id}: {reason}", next_step="build the pack again with `dpone pack build`"
    )
