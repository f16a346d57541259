"""Every static check of a project: the rules of each workload, and those between workloads. Nothing is raised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dpone_contract.errors import DponeError, ErrorCode
from dpone_contract.finding import Finding, Severity
from dpone_contract.manifest import InnerMode
from dpone_contract.pack import Pack, ProcessPlan
from dpone_packbuilder.campaign_rules import plan_workload
from dpone_packbuilder.compiler import compile_pack, compile_task
from dpone_packbuilder.default_rules import check_defaults
from dpone_packbuilder.execution_rules import check_execution
from dpone_packbuilder.mapping_planner import PlannedWorkload
from dpone_packbuilder.policy import execution_place, resolve_execution
from dpone_packbuilder.project import Project, Workload
from dpone_packbuilder.rule import error_at, in_campaign, in_manifest, raised_at, warning_at

_SPECIFIC = (ErrorCode.MAPPING_PARALLELISM_MULTIPLIER, ErrorCode.MAPPING_STATE_UNSUPPORTED)


@dataclass(frozen=True)
class Review:
    """What the checks found, in the order of files and lines, and what they planned and compiled on the way."""

    findings: tuple[Finding, ...]
    planned: tuple[PlannedWorkload, ...]
    tasks: tuple[ProcessPlan | None, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that block publication."""
        return tuple(found for found in self.findings if found.severity is Severity.ERROR)

    def compile_packs(
        self, *, release: str, deployment: str, workload: str | None = None
    ) -> tuple[Pack, ...]:
        """Give the packs of all workloads, or of one; what the checks have compiled is not compiled again.

        Errors: PackTooLargeError.
        """
        return tuple(
            compile_pack(plan, release=release, deployment=deployment, task=task)
            for plan, task in zip(self.planned, self.tasks, strict=True)
            if workload in (None, plan.workload.name)
        )


def check_project(project: Project) -> tuple[Finding, ...]:
    """Give every finding of a project, those of reading it included."""
    return review_project(project).findings


def review_project(project: Project) -> Review:
    """Check a project and keep the plans, so that a build does not make them again."""
    findings = list(project.findings)
    planned, tasks = [], []
    for workload in project.workloads:
        plan, task, found = _review_workload(workload)
        findings += found
        if plan is not None:
            planned.append(plan)
            tasks.append(task)
    findings += check_defaults(project)
    findings += refuse_shared_dag_ids(project)
    findings += report_overlaps(planned)
    return Review(tuple(sorted(set(_without_general(findings)), key=_order)), tuple(planned), tuple(tasks))


def refuse_shared_dag_ids(project: Project) -> Iterator[Finding]:
    """Two workloads cannot be one DAG: Airflow would show the one that it parsed last."""
    owners: dict[str, Workload] = {}
    for workload in project.workloads:
        if workload.options is None:
            continue
        dag_id = resolve_execution(workload).dag_id or workload.name
        if dag_id in owners:
            yield error_at(
                execution_place(workload, "dag_id"),
                ErrorCode.MANIFEST_INVALID,
                f"workloads {owners[dag_id].name} and {workload.name} have one dag_id, {dag_id}",
                "give each workload a dag_id of its own",
            )
        owners.setdefault(dag_id, workload)


def report_overlaps(planned: list[PlannedWorkload]) -> Iterator[Finding]:
    """Two workloads that load the same rows of one target overwrite each other, or refuse to run."""
    by_target: dict[tuple[str, str], list[PlannedWorkload]] = defaultdict(list)
    for plan in planned:
        sink = plan.process.manifest.sink
        for other in by_target[sink.connection, str(sink.table)]:
            yield from _overlap(other, plan)
        by_target[sink.connection, str(sink.table)].append(plan)


def _review_workload(workload: Workload) -> tuple[PlannedWorkload | None, ProcessPlan | None, list[Finding]]:
    if workload.manifest is None:
        return None, None, _review_draft(workload)
    findings = check_execution(workload) if workload.options is not None else []
    planned, found = plan_workload(workload, workload.manifest)
    findings += found
    task = None
    if planned is not None:
        try:
            task = compile_task(planned)
            compile_pack(planned, release="check", deployment="check", task=task)
        except DponeError as error:
            findings.append(raised_at(in_manifest(workload, "name"), error))
    return planned, task, findings


def _review_draft(workload: Workload) -> list[Finding]:
    """Apply the rules to what remains of a manifest; where reading has found something already, they add nothing."""
    seen = replace(workload, manifest=workload.draft)
    findings = check_execution(seen) if seen.options is not None else []
    if seen.manifest is not None:
        findings += plan_workload(seen, seen.manifest)[1]
    told = {(found.path, found.line, found.column) for found in workload.manifest_tree.findings}
    return [found for found in findings if (found.path, found.line, found.column) not in told]


def _overlap(one: PlannedWorkload, other: PlannedWorkload) -> Iterator[Finding]:
    """Say what two workloads of one target do to each other."""
    table, names = other.process.manifest.sink.table, f"{one.workload.name} and {other.workload.name}"
    swapping = [plan.workload for plan in (one, other) if plan.process.manifest.backfill.publication.swaps]
    if swapping:
        yield warning_at(
            in_campaign(swapping[-1], "publication", "mode"),
            ErrorCode.BACKFILL_OVERLAP,
            f"workloads {names} load {table}, and shadow_swap replaces the whole table: while one of them has something under way, "
            "the other is refused",
            f"let nothing else load {table} until {swapping[-1].name} is published, or load it from one workload",
        )
    elif not (one.campaign.templated or other.campaign.templated) and _windows_overlap(one, other):
        yield warning_at(
            in_campaign(other.workload, "chunk"),
            ErrorCode.BACKFILL_OVERLAP,
            f"workloads {names} load overlapping windows of {table}",
            "make the windows adjoin, or load the target from one workload",
        )


def _windows_overlap(one: PlannedWorkload, other: PlannedWorkload) -> bool:
    if InnerMode.FULL_REFRESH in (
        one.process.manifest.backfill.inner_mode,
        other.process.manifest.backfill.inner_mode,
    ):
        return True
    first, second = one.campaign.plan, other.campaign.plan
    if first.spec.column != second.spec.column:
        return True
    return first.lower < second.upper and second.lower < first.upper


def _without_general(findings: list[Finding]) -> Iterator[Finding]:
    """Where a rule of the mapping speaks about a key, "not supported yet" about the same key would only repeat it."""
    told = {(found.path, found.line, found.column) for found in findings if found.code in _SPECIFIC}
    for found in findings:
        if found.code is not ErrorCode.NOT_SUPPORTED or (found.path, found.line, found.column) not in told:
            yield found


def _order(finding: Finding) -> tuple[str, int, int, str, str]:
    return finding.path, finding.line, finding.column, finding.code, finding.message
