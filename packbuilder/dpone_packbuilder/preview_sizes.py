"""How many bytes a pack and its tasks carry, and how much of them Airflow stores with a DAG."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from dpone_contract.environment import EnvVar
from dpone_contract.frozen import FrozenModel
from dpone_contract.mapping_item import dump_item, mapping_item
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import Pack, ProcessPlan, dump_pack
from dpone_contract.process import encode_process
from dpone_contract.run_identity import RunIdentity, dump_run_identity

Bytes = Annotated[int, Field(ge=0)]

# What Airflow's serialiser writes beside what is counted here, about: of a DAG and its load, of a hook, of a gate, and of an item the
# templates of its interval, its label and the marks of a dictionary. A test holds the estimate to the serialiser.
_STORED_DAG_BYTES = 2_200
_STORED_HOOK_BYTES = 1_100
_STORED_GATE_BYTES = 950
_STORED_ITEM_BYTES = 515


class TaskSizes(FrozenModel):
    """Bytes that the runtime task of a process carries."""

    process_argument_bytes: Bytes = Field(
        description="Process in the task's command line; 0 with delivery by file."
    )
    environment_bytes: Bytes = Field(
        description="Variables of one task instance, the largest, without the values of its interval."
    )
    serialised_item_bytes: Bytes = Field(description="About what one mapped task adds to the stored DAG.")


class PackSizes(FrozenModel):
    """Bytes of a pack."""

    pack_bytes: Bytes = Field(description="Size of the pack's file.")
    serialised_bytes: Bytes = Field(description="About the size of the DAG as Airflow stores it.")


def pack_sizes(pack: Pack) -> PackSizes:
    """Give the sizes of a pack."""
    stored = sum(_stored_bytes(pack, plan) for plan in pack.processes)
    return PackSizes(pack_bytes=len(dump_pack(pack)), serialised_bytes=_STORED_DAG_BYTES + stored)


def task_sizes(pack: Pack, plan: ProcessPlan) -> TaskSizes:
    """Give the sizes of a process's runtime task."""
    largest = _environment(pack, plan)
    return TaskSizes(
        process_argument_bytes=_argument_bytes(plan),
        environment_bytes=sum(len(name) + len(text.encode()) + 2 for name, text in largest.items()),
        serialised_item_bytes=_item_bytes(largest) if isinstance(plan.mapping, MappingPlan) else 0,
    )


def _argument_bytes(plan: ProcessPlan) -> int:
    return len(encode_process(plan.process)) if plan.pod.pack_path is None else 0


def _item_bytes(environment: dict[str, str]) -> int:
    return len(json.dumps(environment)) + _STORED_ITEM_BYTES


def _stored_bytes(pack: Pack, plan: ProcessPlan) -> int:
    hooks = len(plan.hooks.pre) + len(plan.hooks.post)
    stored = hooks * _STORED_HOOK_BYTES + (_STORED_GATE_BYTES if plan.gate_task_id else 0)
    if isinstance(
        plan.mapping, MappingPlan
    ):  # of a task that is not mapped, neither process nor environment is stored
        stored += _argument_bytes(plan) + len(json.dumps(plan.pod.to_document()))
        stored += plan.mapping.items_total * _item_bytes(_environment(pack, plan))
    return stored


def _environment(pack: Pack, plan: ProcessPlan) -> dict[str, str]:
    """Give the variables of the last item, whose numbers are the longest, as far as they are compiled."""
    identity = RunIdentity(
        release=pack.release,
        deployment=pack.deployment,
        workload=pack.workload,
        process=plan.process.name,
        pack_fingerprint=pack.fingerprint,
        process_digest=plan.process_digest,
    )
    found = {**(plan.pod.env_vars or {}), EnvVar.RUN_IDENTITY.value: dump_run_identity(identity)}
    if isinstance(plan.mapping, MappingPlan):
        found[EnvVar.MAPPING_ITEM.value] = dump_item(mapping_item(plan.mapping, plan.mapping.items[-1]))
    return found
