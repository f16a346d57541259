"""The process: a compiled, credential-free load, and the identities that follow from it alone.

Builder and runtime both derive plan, hashes and items through this module, so that they cannot disagree.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from dpone_contract.canonical import Fingerprint, canonical_json, fingerprint
from dpone_contract.chunk_plan import ChunkPlan, backfill_run_key, plan_chunks, plan_hash
from dpone_contract.chunk_spec import chunk_spec_from_options
from dpone_contract.errors import (
    PackTooLargeError,
    PlanInvalidError,
    RunContextInvalidError,
    StateUnsupportedError,
)
from dpone_contract.frozen import FrozenModel
from dpone_contract.manifest import BackfillOptions, InnerMode, Manifest
from dpone_contract.mapping_plan import MappingPlan, build_mapping_plan
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.strict_json import parse_strict_json
from dpone_contract.swap_refusals import swap_refusals
from dpone_contract.window_tokens import WindowToken, render_tokens

ARGUMENT_SIZE_LIMIT_BYTES = 96 * 1024
_PROCESS_SIZE_LIMIT_BYTES = 4 * 1024 * 1024


class Process(FrozenModel):
    """`dpone.process.v1`: what a run needs to know, without a credential."""

    schema_: Literal["dpone.process.v1"] = Field(default="dpone.process.v1", alias="schema")
    manifest: Manifest
    mapping: MappingPolicy = MappingPolicy()

    @property
    def name(self) -> str:
        """The process's name."""
        return self.manifest.name


@dataclass(frozen=True)
class CampaignPlan:
    """A planned campaign: its chunks and the hashes that name it."""

    plan: ChunkPlan
    plan_hash: Fingerprint
    config_hash: Fingerprint
    templated: bool

    def mapping_plan(self, policy: MappingPolicy) -> MappingPlan:
        """Derive the mapping plan of a mapped policy."""
        return build_mapping_plan(policy, self.plan.chunks_total, self.plan_hash)


def build_process(manifest: Manifest, policy: MappingPolicy) -> Process:
    """Compile a manifest: what concerns authoring alone (gitops, description) is left behind."""
    return Process(manifest=manifest.replaced(gitops=None, description=None), mapping=policy)


def process_digest(process: Process) -> Fingerprint:
    """Fingerprint a process; part of the run identity."""
    return fingerprint(process.to_document())


def plan_campaign(process: Process, interval: Mapping[WindowToken, str] | None = None) -> CampaignPlan:
    """Plan a process's campaign, its window's tokens replaced by the interval's values.

    Errors: PlanInvalidError or NotSupportedError for a window that cannot be planned, RunContextInvalidError for a
    token without a value.
    """
    backfill = process.manifest.backfill
    if backfill.chunk is None:
        raise PlanInvalidError(
            "the backfill has no chunk block",
            next_step="declare column, from, to and step under backfill.chunk",
        )
    options, templated = backfill.chunk, backfill.chunk.templated
    if templated:
        options = options.replaced(
            from_=_rendered(options.from_, interval or {}), to=_rendered(options.to, interval or {})
        )
    _require_merge_key(process.manifest)
    _require_ledger_beside_target(process.manifest)
    _require_able_ledger(backfill)
    spec = chunk_spec_from_options(options, max_chunks=backfill.max_chunks)
    for refusal in swap_refusals(backfill):
        raise refusal
    run_key = backfill_run_key(
        process.manifest.dataset, spec, _meaning(backfill.inner_mode), backfill.backfill_id
    )
    plan = plan_chunks(spec, run_key)
    if backfill.inner_mode is InnerMode.FULL_REFRESH and plan.chunks_total > 1:
        raise PlanInvalidError(
            "inner_mode=full_refresh is only valid for a single-chunk plan", next_step="use partition_replace"
        )
    return CampaignPlan(plan, plan_hash(plan), config_hash(process), templated)


def config_hash(process: Process) -> Fingerprint:
    """Fingerprint what changes a campaign's meaning; mapping, pool, workers and schedule are not in it.

    Source: the design, identities.
    """
    manifest, backfill = process.manifest, process.manifest.backfill
    chunk = backfill.chunk
    meaning: dict[str, object] = {
        "source": _identity(manifest.source.type, manifest.source.connection, str(manifest.source.table)),
        "sink": _identity(manifest.sink.type, manifest.sink.connection, str(manifest.sink.table)),
        "columns": list(manifest.source.columns or ()),
        "exclude_columns": list(manifest.source.exclude_columns or ()),
        "where": manifest.source.where,
        "inner_mode": _meaning(backfill.inner_mode),
        "unique_key": list(manifest.sink.strategy.unique_key or ()),
        "version_column": manifest.sink.strategy.version_column,
        "only_new_rows": manifest.sink.strategy.only_new_rows,
        "chunk_column": chunk.column if chunk else None,
        "timezone": chunk.timezone if chunk else None,
        "nulls": chunk.nulls.value if chunk else None,
        "publication": backfill.publication.mode,
    }
    # What is not said is left out, so that a release which knows more keys does not refuse campaigns begun before it.
    return fingerprint({key: value for key, value in meaning.items() if value not in (None, False, [])})


def encode_process(process: Process) -> str:
    """Give a process as one command-line argument: canonical JSON, compressed, base64url.

    Errors: PackTooLargeError beyond 96 KiB.
    """
    text = base64.urlsafe_b64encode(zlib.compress(canonical_json(process.to_document()), 9)).decode()
    if len(text) > ARGUMENT_SIZE_LIMIT_BYTES:
        raise PackTooLargeError(
            f"process {process.name} needs an argument of {len(text)} bytes, more than {ARGUMENT_SIZE_LIMIT_BYTES}",
            next_step="shorten the manifest",
        )
    return text


def decode_process(text: str) -> Process:
    """Read what `encode_process` wrote; decompression is bounded.

    Errors: RunContextInvalidError.
    """
    problem = "the process argument is damaged"
    if len(text) > ARGUMENT_SIZE_LIMIT_BYTES or not re.fullmatch(r"[A-Za-z0-9_=\-]+", text):
        raise RunContextInvalidError(problem, next_step="let the provider write it")
    try:
        packed = zlib.decompressobj()
        encoded = base64.b64decode(text, altchars=b"-_", validate=True)
        data = packed.decompress(encoded, _PROCESS_SIZE_LIMIT_BYTES)
        if packed.unused_data or not packed.eof:
            raise RunContextInvalidError(problem, next_step="let the provider write it")
        parse_strict_json(data)  # a name that stands twice, above all
        return Process.model_validate_json(data)
    except (ValueError, zlib.error) as error:
        raise RunContextInvalidError(problem, next_step="publish pack and runtime of one release") from error


def _rendered(bound: str | int | None, interval: Mapping[WindowToken, str]) -> str | int | None:
    return render_tokens(bound, interval) if isinstance(bound, str) else bound


def _meaning(mode: InnerMode) -> str:
    return InnerMode.PARTITION_REPLACE.value if mode is InnerMode.REPLACE else mode.value


def _require_merge_key(manifest: Manifest) -> None:
    strategy = manifest.sink.strategy
    if manifest.backfill.inner_mode is not InnerMode.INCREMENTAL_MERGE:
        return
    if not strategy.unique_key:
        raise PlanInvalidError(
            "inner_mode=incremental_merge needs a unique_key: the columns that tell rows apart",
            next_step="name them under sink.strategy.unique_key, or use partition_replace",
        )
    if strategy.version_column in strategy.unique_key:
        raise PlanInvalidError(
            "inner_mode=incremental_merge cannot order rows of one key by a column of that key: version_column "
            f"{strategy.version_column} is part of unique_key",
            next_step="name another version_column, or remove it",
        )


def _require_ledger_beside_target(manifest: Manifest) -> None:
    if manifest.backfill.state.connection_ref is None:
        return
    raise StateUnsupportedError(
        f"the ledger of a {manifest.sink.type.value} sink lies in the target's own database, so that a chunk's rows and the row "
        "that says so commit in one transaction; state.connection_ref would part them",
        next_step="remove connection_ref; state.schema chooses the schema in that database",
        key="state.connection_ref",
    )


def _require_able_ledger(backfill: BackfillOptions) -> None:
    """A ledger in a file learns of a commit after it has happened, and holds for one machine."""
    if not backfill.state.in_a_file:
        return
    way_out = "set state.backend: audit_schema, which keeps the ledger beside the target"
    if backfill.inner_mode is InnerMode.INCREMENTAL_APPEND:
        raise StateUnsupportedError(
            "a local_file ledger cannot commit with the rows: after a crash in between, incremental_append would load them twice",
            next_step=f"{way_out}; or use partition_replace, which may load a chunk again",
            key="inner_mode",
        )
    if backfill.state.require_distributed_lock:
        raise StateUnsupportedError(
            "a local_file ledger has no distributed lock, and state.require_distributed_lock asks for one",
            next_step=f"{way_out}; or remove require_distributed_lock",
            key="state.require_distributed_lock",
        )


def _identity(kind: str, connection: str, table: str) -> dict[str, str]:
    return {"type": str(kind), "connection_ref": connection, "table": table}
