"""`DponeDag` and `load_dpone_dags`: the public entry, packs in and DAGs out."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_provider_dpone.broken_pack import BrokenPackDag
from airflow_provider_dpone.pack_files import find_packs, parse_pack_of, read_pack, read_pack_bytes
from airflow_provider_dpone.tasks import build_pack_tasks
from airflow_provider_dpone.version_compat import DAG, files_errors_by_dag, get_parsing_context
from dpone_contract.errors import DponeError, PackInvalidError
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import DagProjection, Pack

_log = logging.getLogger(__name__)

_AIRFLOWS_MAX_ACTIVE_TASKS = 16
# Airflow 2 refuses a schedule without a start; without catchup any past date means "from now on".
_START_OF_SCHEDULES = datetime(2020, 1, 1, tzinfo=UTC)


class DponeDag(DAG):
    """The DAG of one pack. Further arguments are those of Airflow's DAG and replace what the pack says.

    Errors: PackInvalidError for a bad pack, RetryAuthorityExceededError, NotSupportedError.
    """

    def __init__(self, pack: Pack | Path | str, **overrides: Any) -> None:
        loaded = pack if isinstance(pack, Pack) else read_pack(Path(pack))
        super().__init__(**{**_dag_arguments(loaded), **overrides})
        build_pack_tasks(loaded, self, None, self.default_args or {})


def _dag_arguments(pack: Pack) -> dict[str, Any]:
    projection = pack.dag
    return {
        "dag_id": projection.dag_id,
        "description": projection.description,
        "schedule": projection.schedule,
        "start_date": _start_date(projection),
        "catchup": projection.catchup,
        "max_active_runs": projection.max_active_runs,
        "tags": list(projection.tags),
        "default_args": {} if projection.owner is None else {"owner": projection.owner},
        "doc_md": _doc(pack),
        **_concurrency(pack),
    }


def _concurrency(pack: Pack) -> dict[str, int]:
    # Airflow's own default would silently hold back a plan that allows more; a deployment's lower default stands.
    active = sum(
        plan.mapping.limits.max_active if isinstance(plan.mapping, MappingPlan) else 1
        for plan in pack.processes
    )
    return {"max_active_tasks": active} if active > _AIRFLOWS_MAX_ACTIVE_TASKS else {}


def _doc(pack: Pack) -> str:
    lines = [
        f"Workload `{pack.workload}`, release `{pack.release}`, deployment `{pack.deployment}`, pack `{pack.fingerprint}`.",
        "",
        "| process | mapping | chunks | tasks | at once | pool |",
        "|---|---|---|---|---|---|",
    ]
    for plan in pack.processes:
        mapping = plan.mapping
        if isinstance(mapping, MappingPlan):
            limits = mapping.limits
            shown = f"{mapping.chunks_total} | {mapping.items_total} | {limits.max_active} | {limits.pool}"
        else:
            shown = "| 1 | 1 | "
        lines.append(f"| {plan.process.name} | {mapping.mode} | {shown} |")
    return "\n".join(lines)


def _start_date(projection: DagProjection) -> datetime | None:
    text = projection.start_date
    if text is None:
        scheduled = projection.schedule is not None and not projection.catchup
        return _START_OF_SCHEDULES if scheduled else None
    try:
        start = datetime.fromisoformat(text)
    except ValueError as error:
        raise PackInvalidError(
            f"start_date {text!r} is not a date", next_step="write it as YYYY-MM-DD and build the pack again"
        ) from error
    return start if start.tzinfo else start.replace(tzinfo=UTC)


def load_dpone_dags(
    folder: Path | str, globals_: MutableMapping[str, Any] | None = None, *, strict: bool = False
) -> dict[str, DAG]:
    """Load every pack under a folder as a DAG, and register the DAGs in `globals_`, by default the caller's module.

    Gives the good DAGs by id. A bad pack, or a DAG id that two packs claim, is shown as an import error of that pack's file
    and leaves the others alone; with `strict` it is raised instead, for a test of a deployment.

    While Airflow runs a task it asks for one DAG; then the packs of other DAGs are not read through.

    Errors: PackInvalidError when the folder does not exist or, with `strict`, for bad packs, each named.
    Source: decision 4, a bad pack breaks its own DAG.
    """
    if globals_ is None:
        globals_ = sys._getframe(1).f_globals
    found = _load(Path(folder))
    if strict and found.bad:
        raise PackInvalidError(
            f"{len(found.bad)} bad packs: "
            + "; ".join(f"{path}: {error}" for path, error in found.bad.items()),
            next_step="build these packs again",
        )
    for path, error in found.bad.items():
        _log.error("pack refused: %s", error, extra={"pack": str(path)})
        if files_errors_by_dag():
            globals_[f"dpone_broken_pack_{path}"] = BrokenPackDag(path, error)
    for dag_id, dag in found.dags.items():
        globals_[f"dpone_dag_{dag_id}"] = dag
    return found.dags


@dataclass(frozen=True)
class _Found:
    dags: dict[str, DAG] = field(default_factory=dict)
    bad: dict[Path, DponeError] = field(default_factory=dict)


def _load(folder: Path) -> _Found:
    only = get_parsing_context().dag_id
    found = _Found()
    paths: dict[str, list[Path]] = {}
    for path in find_packs(folder):
        try:
            data = read_pack_bytes(path)
            if only is not None and f'"{only}"'.encode() not in data:
                continue
            dag = _build(path, data)
        except DponeError as error:
            found.bad[path] = error
            continue
        found.dags[dag.dag_id] = dag
        paths.setdefault(dag.dag_id, []).append(path)
    for dag_id, claimants in paths.items():
        if len(claimants) > 1:
            del found.dags[dag_id]
            found.bad.update(dict.fromkeys(claimants, _claimed_twice(dag_id, claimants)))
    return found


def _build(path: Path, data: bytes) -> DAG:
    pack = parse_pack_of(path, data)
    try:
        dag = DponeDag(pack)
        # Airflow does so later, and would blame the whole file.
        dag.validate()  # type: ignore[no-untyped-call]  # Airflow leaves it untyped
    except DponeError as error:
        error.where = error.where or str(path)
        raise
    except Exception as error:
        # The boundary between packs: whatever Airflow has against one of them must not hide the others.
        raise PackInvalidError(
            f"Airflow refuses the pack: {type(error).__name__}: {error}",
            where=str(path),
            next_step="mend the workload's schedule, dates and names, and build the pack again",
        ) from error
    return dag


def _claimed_twice(dag_id: str, claimants: list[Path]) -> PackInvalidError:
    return PackInvalidError(
        f"DAG id {dag_id} is claimed by several packs",
        where=", ".join(map(str, claimants)),
        next_step="give each workload its own DAG id, or remove the copies; none of them is loaded",
    )
