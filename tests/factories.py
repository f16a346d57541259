"""Valid values to override one thing of: manifest, process, pack, outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from dpone_contract.chunk_options import ChunkOptions
from dpone_contract.chunk_spec import ChunkSpec, chunk_spec_from_options
from dpone_contract.manifest import Manifest
from dpone_contract.mapping_item import MappingItem
from dpone_contract.mapping_plan import InternalMapping, MappingPlan
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy
from dpone_contract.outcome import (
    AttemptIdentity,
    BackfillOutcome,
    ChunkFailure,
    MappingOutcome,
    OutcomeError,
    OutcomeStatus,
    RunOutcome,
)
from dpone_contract.pack import (
    DagProjection,
    ExecutionBackend,
    Hooks,
    Pack,
    ProcessPlan,
    RetryAuthority,
    dump_pack,
    seal_pack,
)
from dpone_contract.pod import PodArguments
from dpone_contract.process import Process, build_process, plan_campaign, process_digest

FIRST_DAY = date(2013, 1, 1)
DIGEST = "sha256:" + "0" * 64


def make_manifest(
    name: str = "flights_history", *, chunks: int = 4, window: Mapping[str, Any] | None = None
) -> Manifest:
    """A history of daily chunks, from 2013-01-01 on; `window` replaces the chunk block."""
    chunk = window or {
        "column": "flight_date",
        "from": FIRST_DAY.isoformat(),
        "to": (FIRST_DAY + timedelta(days=chunks - 1)).isoformat(),
        "step": "1d",
    }
    table = {"schema": "public", "name": "flights"}
    return Manifest.model_validate(
        {
            "name": name,
            "source": {"type": "postgres", "connection_ref": "flights_source", "table": table},
            "sink": {
                "type": "postgres",
                "connection_ref": "flights_target",
                "table": table,
                "strategy": {
                    "mode": "backfill",
                    "backfill": {
                        "chunk": chunk,
                        "state": {"backend": "audit_schema", "require_distributed_lock": True},
                    },
                },
            },
        },
        strict=False,
    )


def window_spec(*, max_chunks: int = 10_000, **chunk: Any) -> ChunkSpec:
    """The window of a chunk block along `key`; `first` stands for `from`, None leaves a key out."""
    named = {"from" if name == "first" else name: value for name, value in chunk.items() if value is not None}
    options = ChunkOptions.model_validate_json(json.dumps({"column": "key", **named}))
    return chunk_spec_from_options(options, max_chunks=max_chunks)


def make_process(
    name: str = "flights_history",
    *,
    mode: str = "summary",
    items: int = 4,
    chunks: int | None = None,
    max_active: int = 2,
    pool: str = "dpone_backfill",
) -> Process:
    """A process of `items` mapped tasks over `chunks` chunks, by default one chunk an item."""
    limits = MappingLimits(max_items=items, max_active=min(max_active, items), pool=pool)
    policy = MappingPolicy(mode=MappingMode(mode), limits=limits)
    return build_process(make_manifest(name, chunks=chunks or items), policy)


def make_process_plan(
    process: Process | None = None,
    *,
    task_id: str | None = None,
    backend: ExecutionBackend = ExecutionBackend.PROCESS,
    env_vars: Mapping[str, str] | None = None,
    pod: PodArguments | None = None,
    hooks: Hooks | None = None,
    outlets: tuple[str, ...] = (),
    outcome_gate: bool = False,
    max_retries: int = 3,
) -> ProcessPlan:
    """A process in its pack, planned."""
    process = process or make_process()
    mapping, labels = _planned(process)
    mapped = isinstance(mapping, MappingPlan)
    kwargs = pod or PodArguments(env_vars=None if env_vars is None else dict(env_vars))
    return ProcessPlan(
        task_id=task_id or process.name,
        backend=backend,
        process=process,
        process_digest=process_digest(process),
        mapping=mapping,
        labels=labels,
        kpo_kwargs=None if mapped else kwargs,
        mapped_kpo_kwargs=kwargs if mapped else None,
        hooks=hooks or Hooks(),
        outlets=outlets,
        outcome_gate=outcome_gate,
        retry_authority=RetryAuthority(max_retries=max_retries, reason="a chunk's commit can be replayed"),
    )


def make_pack(
    workload: str = "flights_history",
    *,
    mode: str = "summary",
    items: int = 4,
    processes: tuple[ProcessPlan, ...] | None = None,
    minimum_provider_version: str = "0.1.0",
    release: str = "2013.1",
    dag: Mapping[str, Any] | None = None,
) -> Pack:
    """A sealed pack of one process; `dag` replaces fields of its projection."""
    projection = {"dag_id": workload, "owner": "flights", "tags": ("backfill",), "retries": 2, **(dag or {})}
    return seal_pack(
        Pack(
            fingerprint=DIGEST,
            minimum_provider_version=minimum_provider_version,
            release=release,
            deployment="test",
            workload=workload,
            dag=DagProjection(**projection),
            processes=processes or (make_process_plan(make_process(mode=mode, items=items)),),
        )
    )


def write_pack_file(folder: Path, pack: Pack) -> Path:
    """Write a pack as the builder does: `<folder>/<workload>/airflow-pack.json`."""
    path = folder / pack.workload / "airflow-pack.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(dump_pack(pack))
    return path


def make_outcome(
    process: Process,
    item: MappingItem | None = None,
    *,
    attempt: AttemptIdentity | None = None,
    status: str = "passed",
    exit_code: int | None = None,
    error: OutcomeError | None = None,
    failures: tuple[ChunkFailure, ...] = (),
) -> RunOutcome:
    """The outcome of a whole run of a process, or of one item; failed ones exit with 1."""
    passed = status == "passed"
    campaign = plan_campaign(process)
    chunks = campaign.plan.chunks_total if item is None else item.chunks_count
    return RunOutcome(
        status=OutcomeStatus(status),
        exit_code=(0 if passed else 1) if exit_code is None else exit_code,
        process=process.name,
        process_digest=process_digest(process),
        attempt=attempt or AttemptIdentity(dag_id="flights_history", dag_run_id="manual__1", try_number=1),
        error=error,
        backfill=BackfillOutcome(
            run_key=campaign.plan.run_key,
            plan_hash=campaign.plan_hash,
            config_hash=campaign.config_hash,
            round=1,
            campaign_status="open",
            operation_status="success" if passed else "failed",
            retry_policy="non_committed",
            chunks_total=campaign.plan.chunks_total,
            campaign_chunks_committed=chunks if passed else 0,
            chunks_selected=chunks,
            chunks_committed=chunks if passed else 0,
            chunks_skipped_resume=0,
            chunks_failed=0 if passed else max(1, len(failures)),
            rows_extracted=10,
            rows_loaded=10,
            bytes_moved=1000,
            seconds=0.5,
            verification={"status": "passed"},
            state_backend="audit_schema",
            state_capabilities={},
            state_authority={},
            state_cache_status="unavailable",
            failures=failures,
            mapping=None
            if item is None
            else MappingOutcome(
                mode=item.mode,
                plan_fingerprint=item.mapping_plan_fingerprint,
                backfill_plan_hash=item.backfill_plan_hash,
                item_index=item.item_index,
                first_chunk_index=item.first_chunk_index,
                last_chunk_index=item.last_chunk_index,
                chunks_count=item.chunks_count,
                item_status="success" if passed else "failed",
            ),
        ),
    )


def _planned(process: Process) -> tuple[MappingPlan | InternalMapping, tuple[str, ...]]:
    if not process.mapping.mapped:
        return InternalMapping(), ()
    campaign = plan_campaign(process)
    mapping = campaign.mapping_plan(process.mapping)
    labels = tuple(
        campaign.plan.label(item.first_chunk_index, item.last_chunk_index) for item in mapping.items
    )
    return mapping, labels
