"""Rules of a workload's window, campaign and mapping: one small function a rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpone_contract.errors import (
    DponeError,
    ErrorCode,
    MappingPoolRequiredError,
    MappingTaskLimitExceededError,
)
from dpone_contract.finding import Finding
from dpone_contract.manifest import InnerMode, Manifest
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import build_process
from dpone_contract.window_tokens import find_tokens
from dpone_packbuilder.mapping_planner import PlannedWorkload, plan_mapping, plan_process
from dpone_packbuilder.policy import Place, mapping_place, resolve_policy
from dpone_packbuilder.project import Workload
from dpone_packbuilder.publication_rules import check_publication
from dpone_packbuilder.retry_authority import has_audit_ledger
from dpone_packbuilder.rule import error_at, in_campaign, in_manifest, raised_at, warning_at

_CHUNK_FIELD = re.compile(r"^(?:chunk\.)?(from|to|step|timezone|nulls|boundaries|buckets)\b")


def plan_workload(workload: Workload, manifest: Manifest) -> tuple[PlannedWorkload | None, list[Finding]]:
    """Apply every rule of this module; the plan is None where there is none to compile."""
    try:
        policy = resolve_policy(workload)
    except DponeError as error:
        place = mapping_place(workload, str(error.fields.get("field", "mode")))
        # What does not depend on the mapping is looked at all the same.
        return None, [raised_at(place, error), *_apply_rules(workload, manifest, MappingPolicy())[1]]
    return _apply_rules(workload, manifest, policy)


def _apply_rules(
    workload: Workload, manifest: Manifest, policy: MappingPolicy
) -> tuple[PlannedWorkload | None, list[Finding]]:
    findings = [
        *require_chunk_block(workload, manifest, policy),
        *require_known_tokens(workload, manifest),
    ]
    if not findings:
        findings += require_fixed_window(workload, manifest, policy)
        findings += refuse_pinned_id_of_templated_window(workload, manifest)
    findings += require_one_worker(workload, manifest, policy)
    findings += require_distributed_state(workload, manifest, policy)
    findings += report_lease_ttl(workload, manifest)
    findings += report_unordered_keys(workload, manifest)
    findings += require_loaded_columns(workload, manifest)
    planned, problems = _plan(workload, manifest, policy)
    findings += [found for found in problems if not _is_told(found, findings)]
    # Last, since a refused swap hides no other problem of the plan; the one that the plan has met too is the same finding.
    findings += check_publication(workload, manifest)
    return planned, findings


def require_chunk_block(workload: Workload, manifest: Manifest, policy: MappingPolicy) -> Iterator[Finding]:
    """A mapped mode needs a chunked backfill."""
    if policy.mapped and manifest.backfill.chunk is None:
        yield error_at(
            in_campaign(workload),
            ErrorCode.MAPPING_REQUIRES_CHUNKED_BACKFILL,
            f"mode {policy.mode.value} needs a chunked backfill, and the backfill has no chunk block",
            "declare column, from, to and step under backfill.chunk, or use mode: internal",
        )


def require_known_tokens(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """A window may name the five tokens only."""
    chunk = manifest.backfill.chunk
    bounds = (("from", chunk.from_), ("to", chunk.to)) if chunk else ()
    for key, bound in bounds:
        try:
            find_tokens(str(bound))
        except DponeError as error:
            yield raised_at(in_campaign(workload, "chunk", key), error)


def require_fixed_window(workload: Workload, manifest: Manifest, policy: MappingPolicy) -> Iterator[Finding]:
    """A mapped mode needs a window without tokens: its plan stands in the pack before there is any interval."""
    chunk = manifest.backfill.chunk
    if policy.mapped and chunk is not None and chunk.templated:
        key = "from" if find_tokens(str(chunk.from_)) else "to"
        yield error_at(
            in_campaign(workload, "chunk", key),
            ErrorCode.MAPPING_REQUIRES_CHUNKED_BACKFILL,
            f"mode {policy.mode.value} needs a fixed window: its mapped tasks are planned at build, "
            "when no interval is known",
            "write fixed bounds into chunk.from and chunk.to, or use mode: internal",
        )


def refuse_pinned_id_of_templated_window(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """A pinned key names one window; a templated one has another window every run."""
    backfill = manifest.backfill
    if backfill.backfill_id is not None and backfill.chunk is not None and backfill.chunk.templated:
        yield error_at(
            in_campaign(workload, "backfill_id"),
            ErrorCode.BACKFILL_PLAN_INVALID,
            "backfill_id pins one campaign, but a window with tokens is another campaign every run",
            "remove backfill_id; each interval then has a key of its own",
        )


def require_one_worker(workload: Workload, manifest: Manifest, policy: MappingPolicy) -> Iterator[Finding]:
    """Workers of a run would multiply with mapped tasks."""
    workers = manifest.backfill.parallel_workers
    if policy.mapped and workers != 1:
        yield error_at(
            in_campaign(workload, "parallel_workers"),
            ErrorCode.MAPPING_PARALLELISM_MULTIPLIER,
            f"mode {policy.mode.value} with parallel_workers {workers} would run up to "
            f"{workers * policy.limits.max_active} chunks at once, not max_active {policy.limits.max_active}",
            "set parallel_workers: 1; max_active is the parallelism of a mapped load",
        )


def require_distributed_state(
    workload: Workload, manifest: Manifest, policy: MappingPolicy
) -> Iterator[Finding]:
    """Mapped tasks share a ledger, so it needs locks and compare-and-set that hold across machines."""
    if not policy.mapped:
        return
    code, mode = ErrorCode.MAPPING_STATE_UNSUPPORTED, policy.mode.value
    state = manifest.backfill.state
    if not has_audit_ledger(manifest):
        if state.backend is None or state.backend.value == "audit_schema":
            place = in_manifest(workload, "sink", "type")
            what, step = f"a {manifest.sink.type.value} sink has no such ledger", "use a postgres sink"
        else:
            place = in_campaign(workload, "state", "backend")
            what, step = f"{state.backend.value} is not one", "set state.backend: audit_schema"
        message = f"mode {mode} needs a ledger with distributed locks, and {what}"
        yield error_at(place, code, message, f"{step}, or use mode: internal")
    if not state.require_distributed_lock:
        yield error_at(
            in_campaign(workload, "state", "require_distributed_lock"),
            code,
            f"mode {mode} needs state.require_distributed_lock: true",
            "add it under backfill.state, or use mode: internal",
        )


def report_lease_ttl(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """An authored lease duration is accepted and changes nothing."""
    if manifest.backfill.lease_ttl_minutes is not None:
        yield warning_at(
            in_campaign(workload, "lease_ttl_minutes"),
            ErrorCode.MANIFEST_INVALID,
            "lease_ttl_minutes does not lengthen a lease: leases last 90 seconds and are renewed while a chunk loads",
            "remove it",
        )


def report_unordered_keys(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """Chunks of a merge may meet in one row; without a version the one that commits last decides what stays."""
    strategy, chunk = manifest.sink.strategy, manifest.backfill.chunk
    if manifest.backfill.inner_mode is not InnerMode.INCREMENTAL_MERGE or chunk is None:
        return
    if strategy.unique_key and chunk.column not in strategy.unique_key and strategy.version_column is None:
        yield warning_at(
            in_campaign(workload, "inner_mode"),
            ErrorCode.MANIFEST_INVALID,
            f"chunk.column {chunk.column} is not part of unique_key: one key may occur in two chunks, and the chunk that "
            "commits last then decides which row stays",
            "name the version_column that tells the newer row, or cut the chunks along a column of the key",
        )


def require_loaded_columns(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """A column by which slices, rows of one key, or the newer of them are found has to be loaded."""
    source, strategy, chunk = manifest.source, manifest.sink.strategy, manifest.backfill.chunk
    # A column of several purposes is told once.
    needed = {strategy.version_column: "version_column"} if strategy.version_column else {}
    needed |= dict.fromkeys(strategy.unique_key or (), "unique_key")
    needed |= {chunk.column: "chunk.column"} if chunk is not None else {}
    for name, option in needed.items():
        excluded = name in (source.exclude_columns or ())
        if excluded or (source.columns is not None and name not in source.columns):
            key = "exclude_columns" if excluded else "columns"
            yield error_at(
                in_manifest(workload, "source", key),
                ErrorCode.COLUMNS_DIFFER,
                f"column {name!r} of {option} is not among the columns that are loaded",
                f"{'take it out of' if excluded else 'add it to'} source.{key}",
            )


def _plan(
    workload: Workload, manifest: Manifest, policy: MappingPolicy
) -> tuple[PlannedWorkload | None, list[Finding]]:
    process = build_process(manifest, policy)
    try:
        campaign = plan_process(process)
        return PlannedWorkload(workload, process, campaign, plan_mapping(process, campaign)), []
    except (MappingTaskLimitExceededError, MappingPoolRequiredError) as error:
        return None, [raised_at(mapping_place(workload, "max_items"), error)]
    except DponeError as error:
        return None, [raised_at(_plan_place(workload, manifest, error), error)]


def _plan_place(workload: Workload, manifest: Manifest, error: DponeError) -> Place:
    if "key" in error.fields:
        return in_campaign(workload, *str(error.fields["key"]).split("."))
    if error.message.startswith("inner_mode="):
        return in_campaign(workload, "inner_mode")
    if error.message.startswith("backfill_id"):
        return in_campaign(workload, "backfill_id")
    if manifest.backfill.chunk is None:
        return in_campaign(workload)
    if field := _CHUNK_FIELD.match(error.message):
        return in_campaign(workload, "chunk", field[1])
    return in_campaign(workload, "chunk")


def _is_told(problem: Finding, findings: list[Finding]) -> bool:
    """Whether a failed plan only repeats what a rule has said about its cause."""
    if problem.code is ErrorCode.BACKFILL_STATE_UNSUPPORTED:
        return any(found.code is ErrorCode.MAPPING_STATE_UNSUPPORTED for found in findings)
    causes = (ErrorCode.MAPPING_REQUIRES_CHUNKED_BACKFILL, ErrorCode.BACKFILL_PLAN_INVALID)
    return problem.code is ErrorCode.BACKFILL_PLAN_INVALID and any(found.code in causes for found in findings)
