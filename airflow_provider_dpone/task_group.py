"""`DponeTaskGroup`: one workload as a task group of a DAG that somebody else writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_dpone.pack_files import read_pack
from airflow_provider_dpone.tasks import build_pack_tasks
from airflow_provider_dpone.version_compat import TaskGroup
from dpone_contract.pack import Pack


class DponeTaskGroup(TaskGroup):
    """The tasks of a pack inside the current DAG; further arguments are those of Airflow's TaskGroup.

    The pack's schedule and tags do not apply here; its retries and mapping limits do.

    Errors: PackInvalidError for a bad pack, RetryAuthorityExceededError, NotSupportedError.
    """

    def __init__(self, *, pack: Pack | Path | str, group_id: str | None = None, **kwargs: Any) -> None:
        loaded = pack if isinstance(pack, Pack) else read_pack(Path(pack))
        # A group's id may hold no dot, a workload's name may.
        super().__init__(group_id=group_id or loaded.workload.replace(".", "_"), **kwargs)
        default_args = {**(self.dag.default_args or {}), **(self.default_args or {})}
        build_pack_tasks(loaded, self.dag, self, default_args)
