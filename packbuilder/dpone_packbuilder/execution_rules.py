"""Rules of a workload's DAG: one small function a rule. Those of where its tasks run are in `pod_rules`."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.manifest import Manifest
from dpone_packbuilder.catalog import ExecutionOptions, default_path
from dpone_packbuilder.pod_rules import check_where_it_runs
from dpone_packbuilder.policy import Place, execution_place, resolve_execution
from dpone_packbuilder.project import Workload
from dpone_packbuilder.retry_authority import retry_authority
from dpone_packbuilder.rule import error_at, warning_at
from dpone_packbuilder.schedule import find_schedule_problem, is_date_or_instant


def check_execution(workload: Workload) -> list[Finding]:
    """Apply every rule of this module."""
    execution = resolve_execution(workload)
    findings = [
        *check_where_it_runs(workload, execution),
        *refuse_shared_dag_id(workload),
        *require_dates(workload, execution),
        *require_schedule(workload, execution),
        *require_asset_uris(workload, execution),
    ]
    if workload.manifest is not None:
        findings += require_retry_authority(workload, workload.manifest, execution)
        findings += report_catchup_of_fixed_window(workload, workload.manifest, execution)
    return findings


def refuse_shared_dag_id(workload: Workload) -> Iterator[Finding]:
    """A DAG id belongs to one workload, so it cannot be a default."""
    airflow = workload.defaults.airflow if workload.defaults else None
    if workload.catalog_tree and airflow and airflow.execution and airflow.execution.dag_id is not None:
        yield error_at(
            Place(workload.catalog_tree, default_path("airflow", "execution", "dag_id")),
            ErrorCode.MANIFEST_INVALID,
            "dag_id cannot be a default: it belongs to one workload",
            "move it under that workload's airflow.execution",
        )


def require_dates(workload: Workload, execution: ExecutionOptions) -> Iterator[Finding]:
    """A start date is an ISO date, and a DAG with a schedule has one."""
    start_date = execution.start_date
    if start_date is not None and not is_date_or_instant(start_date):
        yield error_at(
            execution_place(workload, "start_date"),
            ErrorCode.MANIFEST_INVALID,
            f"start_date {start_date!r} is not a date",
            'write "YYYY-MM-DD" or an ISO instant with an offset',
        )
    if start_date is None and execution.schedule is not None:
        yield error_at(
            execution_place(workload, "schedule"),
            ErrorCode.MANIFEST_INVALID,
            "a DAG with a schedule needs a start_date",
            'add start_date: "YYYY-MM-DD" under airflow.execution',
        )


def require_schedule(workload: Workload, execution: ExecutionOptions) -> Iterator[Finding]:
    """A schedule is a preset or a cron line."""
    problem = None if execution.schedule is None else find_schedule_problem(execution.schedule)
    if problem is not None:
        yield error_at(execution_place(workload, "schedule"), ErrorCode.MANIFEST_INVALID, *problem)


def require_asset_uris(workload: Workload, execution: ExecutionOptions) -> Iterator[Finding]:
    """An outlet is a URI that every supported Airflow takes."""
    for uri in execution.outlets or ():
        if not uri.isascii() or not uri.isprintable() or " " in uri or uri.startswith("airflow:"):
            yield error_at(
                execution_place(workload, "outlets"),
                ErrorCode.MANIFEST_INVALID,
                f"outlet {uri!r} is not the URI of an asset",
                "use ASCII without spaces, for example postgres://warehouse/analytics/flights",
            )


def require_retry_authority(
    workload: Workload, manifest: Manifest, execution: ExecutionOptions
) -> Iterator[Finding]:
    """Airflow may retry as often as a retry is safe."""
    authority = retry_authority(manifest)
    retries = execution.retries or 0
    if retries > authority.max_retries:
        yield error_at(
            execution_place(workload, "retries"),
            ErrorCode.RETRY_AUTHORITY_EXCEEDED,
            f"retries {retries} is above {authority.max_retries}, the retry authority of this load: {authority.reason}",
            f"set retries: {authority.max_retries} or less; clearing a task is always possible",
        )


def report_catchup_of_fixed_window(
    workload: Workload, manifest: Manifest, execution: ExecutionOptions
) -> Iterator[Finding]:
    """Every missed interval would run the same window, and all but the first would find it loaded."""
    chunk = manifest.backfill.chunk
    if execution.catchup and chunk is not None and not _is_templated(manifest):
        yield warning_at(
            execution_place(workload, "catchup"),
            ErrorCode.MANIFEST_INVALID,
            "catchup: true runs the same fixed window for every missed interval; all but the first do nothing",
            'set catchup: false, or take the window from the interval: from: "{{ ds }}"',
        )


def _is_templated(manifest: Manifest) -> bool:
    chunk = manifest.backfill.chunk
    return chunk is not None and any("{{" in str(bound) for bound in (chunk.from_, chunk.to))
