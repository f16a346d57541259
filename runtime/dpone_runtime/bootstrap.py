"""Where adapters are named: a process and its connections become a ledger, a wanted campaign and lanes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from dpone_contract.chunk_options import ChunkKind
from dpone_contract.errors import CampaignDriftError, LedgerMissingError, TableMissingError
from dpone_contract.frozen import FrozenModel
from dpone_contract.manifest import DatabaseType, InnerMode, Manifest, TableName
from dpone_contract.process import CampaignPlan, Process
from dpone_runtime.adapters.lanes.pool import SILENCE, ProcessLanePool
from dpone_runtime.adapters.local_file.ledger import CAPABILITIES as LOCAL_FILE_CAPABILITIES
from dpone_runtime.adapters.local_file.ledger import LocalFileLedger
from dpone_runtime.adapters.postgres.completion import BareCommit, RowCompletion
from dpone_runtime.adapters.postgres.copy_format import CopyFormat
from dpone_runtime.adapters.postgres.diagnostics import PostgresDiagnostics
from dpone_runtime.adapters.postgres.ends import (
    PostgresEnds,
    inspection_lines,
    look_at_ends,
    require_no_nulls,
)
from dpone_runtime.adapters.postgres.identifiers import require_names_fit
from dpone_runtime.adapters.postgres.merge import MergeKey
from dpone_runtime.adapters.postgres.predicate import ChunkedTable, covered_window
from dpone_runtime.adapters.postgres.seen_table import SeenTable
from dpone_runtime.adapters.postgres.session import CAPABILITIES as POSTGRES_CAPABILITIES
from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.adapters.postgres.session import ledger_ddl as postgres_ledger_ddl
from dpone_runtime.adapters.postgres.sink import PostgresSink
from dpone_runtime.adapters.postgres.slice_changes import slice_change
from dpone_runtime.adapters.postgres.slice_reader import PostgresSliceReader
from dpone_runtime.adapters.postgres.source import PostgresSource
from dpone_runtime.adapters.postgres.target_locks import PostgresTargetLocks
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.connections import ResolvedConnection, resolve_connection
from dpone_runtime.domain.campaign import Campaign, CampaignStatus
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.local_run import LocalRun, new_local_run
from dpone_runtime.ports.connectors import Column, SliceReader, SourceReader
from dpone_runtime.ports.diagnostics import TargetDiagnostics
from dpone_runtime.ports.lanes import ChunkLoader, LanePool
from dpone_runtime.ports.ledger import CampaignLedger
from dpone_runtime.ports.type_structure import TypeStructure
from dpone_runtime.services.load_chunk import SourceToSink
from dpone_runtime.state_directory import state_directory

LANE_OPENER = "dpone_runtime.bootstrap:open_lane"


@dataclass(frozen=True)
class Connections:
    """Both ends of a process, resolved and not opened yet, and the folder that its files are in."""

    source: ResolvedConnection
    sink: ResolvedConnection
    folder: Path


class LaneEnd(FrozenModel):
    """One end of a lane: references and names, no credential."""

    connection: str
    type: DatabaseType
    table: TableName
    column_name: str
    column_type: str
    casts: dict[str, str] = {}
    where: str | None = None
    types: dict[str, str] = {}
    seen: SeenTable

    def resolve(self) -> ResolvedConnection:
        """Find the connection, in the process that opens it."""
        return resolve_connection(self.connection, self.type, os.environ)

    def chunked(self, told: LaneBootstrap) -> ChunkedTable:
        """Give the table with what is copied of it and how it is cut."""
        column = Column(self.column_name, TypeStructure(self.column_type), nullable=True)
        return ChunkedTable(
            table=self.table,
            columns=told.columns,
            chunk_column=column,
            kind=told.kind,
            timezone=told.timezone,
            casts=self.casts,
            where=self.where,
            types=self.types,
            format=told.format,
        )


class LaneBootstrap(FrozenModel):
    """All that a lane is told when it opens: plain data, so that it can cross to another process."""

    source: LaneEnd
    sink: LaneEnd
    columns: tuple[str, ...]
    format: CopyFormat = CopyFormat.BINARY
    kind: ChunkKind
    timezone: str
    inner_mode: InnerMode
    unique_key: tuple[str, ...]
    version_column: str | None = None
    ledger_schema: str
    local_run: LocalRun | None = None
    """Where the ledger is a file: then the rows commit alone."""
    strict: bool
    digests: bool
    delete_triggers: tuple[str, ...] = ()


@dataclass(frozen=True)
class PreparedRun:
    """A run whose tables were looked at: the ledger, the campaign it wants, and what its lanes are told."""

    ledger: CampaignLedger
    wanted: Campaign
    lane_bootstrap: LaneBootstrap

    def source_reader(self) -> SourceReader:
        """Open the source's side of a verification."""
        told = self.lane_bootstrap
        return PostgresSliceReader(told.source.resolve(), told.source.chunked(told))

    def target_reader(self) -> SliceReader:
        """Open the target's side of a verification."""
        told = self.lane_bootstrap
        whole = told.inner_mode is InnerMode.FULL_REFRESH
        return PostgresSliceReader(told.sink.resolve(), told.sink.chunked(told), whole=whole)

    def lanes(self, opener: str = LANE_OPENER, silence: timedelta = SILENCE) -> LanePool:
        """Give a pool of lanes; none is started yet."""
        return ProcessLanePool(opener, self.lane_bootstrap.to_document(), silence)


def resolve_connections(manifest: Manifest, environ: Mapping[str, str]) -> Connections:
    """Resolve both connections of a process before either is opened.

    Errors: ConnectionMissingError, ConnectionInvalidError; ManifestInvalidError for a name that no server keeps whole.
    """
    source, sink = manifest.source, manifest.sink
    require_names_fit("source.table", source.table.schema_, source.table.name)
    require_names_fit("sink.table", sink.table.schema_, sink.table.name)
    require_names_fit("sink.strategy.backfill.state.schema", manifest.backfill.state.schema_)
    return Connections(
        resolve_connection(source.connection, source.type, environ),
        resolve_connection(sink.connection, sink.type, environ),
        state_directory(manifest, environ),
    )


def state_capabilities(manifest: Manifest) -> StateCapabilities:
    """Say what a process's ledger can promise; nothing is opened."""
    return LOCAL_FILE_CAPABILITIES if manifest.backfill.state.in_a_file else POSTGRES_CAPABILITIES


def open_ledger(manifest: Manifest, connections: Connections, run: LocalRun | None = None) -> CampaignLedger:
    """Open the ledger, beside the target or in its folder; nothing is created. `run` names a run over a folder."""
    schema = manifest.backfill.state.schema_
    if manifest.backfill.state.in_a_file:
        return LocalFileLedger(connections.folder, PostgresTargetLocks(connections.sink, schema), run)
    return SqlLedger(PostgresSession(connections.sink, schema), schema)


def ledger_place(manifest: Manifest, connections: Connections) -> str:
    """Say for people where a process's ledger is."""
    if manifest.backfill.state.in_a_file:
        return f"folder {connections.folder}"
    return f"schema {manifest.backfill.state.schema_} of connection {manifest.sink.connection}"


def ledger_ddl(manifest: Manifest) -> tuple[str, ...]:
    """Give the statements that create a process's ledger, of a file none; nothing is opened."""
    if manifest.backfill.state.in_a_file:
        return ()
    return postgres_ledger_ddl(manifest.backfill.state.schema_)


def prepare_run(process: Process, planned: CampaignPlan, connections: Connections) -> PreparedRun:
    """Look at both tables, create a missing target and ledger, and describe the campaign that this run wants.

    Errors: TableMissingError, TableUnsuitableError, ColumnsDifferError, NullsFoundError, LedgerMissingError,
    ConnectionFailedError; CampaignDriftError for a target that was dropped since; nothing was moved or made then.
    """
    manifest = process.manifest
    ends = _look_at_ends(manifest, planned, connections)
    in_a_file = manifest.backfill.state.in_a_file
    run = new_local_run(ends.target.shape.identity.relation) if in_a_file else None
    ledger = open_ledger(manifest, connections, run)
    ledger.ensure_schema()
    if ledger.read_campaign(planned.plan.run_key) is None:
        require_no_nulls(connections.source, manifest, ends.column)
    bootstrap = _lane_bootstrap(process, planned.plan.spec.kind, ends).replaced(local_run=run)
    return PreparedRun(ledger, _wanted(manifest, planned, ends), bootstrap)


def _has_begun(manifest: Manifest, planned: CampaignPlan, connections: Connections) -> bool:
    """Whether the ledger has the campaign; of a ledger of which a part is missing, that is made first."""
    ledger = open_ledger(manifest, connections)
    try:
        try:
            exists = ledger.exists()
        except LedgerMissingError:
            ledger.ensure_schema()
            exists = True
        return exists and ledger.read_campaign(planned.plan.run_key) is not None
    finally:
        ledger.close()


def _look_at_ends(manifest: Manifest, planned: CampaignPlan, connections: Connections) -> PostgresEnds:
    """Look at both tables; a missing target is made for a new campaign alone: what an old one has loaded is gone with its own."""
    look = partial(look_at_ends, manifest, planned, connections.source, connections.sink)
    try:
        return look(create=False)
    except TableMissingError as error:
        if error.where != "sink.table":
            raise
    if not _has_begun(manifest, planned, connections):
        return look(create=True)
    try:
        # Whoever has begun it may have made its target since it was looked for.
        return look(create=False)
    except TableMissingError as error:
        if error.where != "sink.table":
            raise
        raise CampaignDriftError(
            f"the target table {manifest.sink.table} of campaign {planned.plan.run_key} is gone, with what was loaded into it",
            where=f"target.table {manifest.sink.table}",
            next_step="restore it, or begin a new campaign under another backfill_id",
            run_key=planned.plan.run_key,
        ) from None


def prepare_verification(
    process: Process, planned: CampaignPlan, connections: Connections, *, repairs: bool
) -> PreparedRun:
    """Look at both tables and describe the campaign that they belong to; nothing is created.

    Unless it `repairs`, this user may read the target and do nothing else to it.

    Errors: as `prepare_run`, but for a ledger that is missing.
    """
    manifest = process.manifest
    ends = look_at_ends(manifest, planned, connections.source, connections.sink, create=False, writes=repairs)
    bootstrap = _lane_bootstrap(process, planned.plan.spec.kind, ends)
    return PreparedRun(open_ledger(manifest, connections), _wanted(manifest, planned, ends), bootstrap)


def describe_wanted(process: Process, planned: CampaignPlan, connections: Connections) -> Campaign:
    """Look at both tables and describe the campaign that a run would want; nothing is created.

    Errors: as `prepare_run`, but for a ledger that is missing.
    """
    manifest = process.manifest
    ends = look_at_ends(manifest, planned, connections.source, connections.sink, create=False)
    return _wanted(manifest, planned, ends)


def open_diagnostics(manifest: Manifest, connections: Connections) -> TargetDiagnostics:
    """Open a session that looks at the target's server.

    Errors: ConnectionFailedError.
    """
    return PostgresDiagnostics(connections.sink, manifest.backfill.state.schema_)


def unwritable_folder(connections: Connections) -> tuple[str, ...]:
    """Say what this user lacks for a ledger in a folder that is there."""
    folder = connections.folder
    if folder.is_dir() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return (f"the right to write the folder {folder}",)
    return ()


def inspect_ends(process: Process, planned: CampaignPlan, connections: Connections) -> tuple[str, ...]:
    """Look at both ends without changing anything; give lines for `plan --connect`.

    Errors: as `prepare_run`.
    """
    return tuple(inspection_lines(process.manifest, planned, connections.source, connections.sink))


def _wanted(manifest: Manifest, planned: CampaignPlan, ends: PostgresEnds) -> Campaign:
    plan = planned.plan
    window = covered_window(ends.into, plan)
    if manifest.backfill.inner_mode is InnerMode.FULL_REFRESH:
        window = replace(window, everything=True)
    return Campaign(
        run_key=plan.run_key,
        status=CampaignStatus.OPEN,
        revision=1,
        round=1,
        plan_hash=planned.plan_hash,
        config_hash=planned.config_hash,
        chunks_total=plan.chunks_total,
        dataset=manifest.dataset,
        inner_mode=manifest.backfill.inner_mode.value,
        templated=planned.templated,
        window=window,
        source=ends.source.shape.identity,
        target=ends.target.shape.identity,
        columns=ends.matched.names,
    )


def _lane_bootstrap(process: Process, kind: ChunkKind, ends: PostgresEnds) -> LaneBootstrap:
    manifest, matched, column, into = process.manifest, ends.matched, ends.column, ends.into
    chunk = manifest.backfill.chunk
    source, sink = manifest.source, manifest.sink
    return LaneBootstrap(
        source=LaneEnd(
            connection=source.connection,
            type=source.type,
            table=source.table,
            column_name=column.name,
            column_type=column.type,
            casts=dict(matched.casts),
            where=source.where,
            types=dict(matched.types),
            seen=ends.seen_source,
        ),
        sink=LaneEnd(
            connection=sink.connection,
            type=sink.type,
            table=sink.table,
            column_name=into.name,
            column_type=into.type,
            seen=ends.seen_target,
        ),
        columns=matched.names,
        format=matched.format,
        kind=kind,
        timezone=chunk.timezone if chunk else "UTC",
        inner_mode=manifest.backfill.inner_mode,
        unique_key=manifest.sink.strategy.unique_key or (),
        version_column=manifest.sink.strategy.version_column,
        ledger_schema=manifest.backfill.state.schema_,
        strict=manifest.backfill.verify != "counts",
        digests=manifest.backfill.verify == "checksum",
        delete_triggers=ends.target.delete_triggers,
    )


def ignore_step(_step: str) -> None:
    """Stand where nobody wants to be told of a lane's steps."""


def open_lane(bootstrap: dict[str, object], after: Callable[[str], None] = ignore_step) -> ChunkLoader:
    """Open a lane's own source and sink, in the lane's process; connections are resolved there.

    `after` is told the name of each step of the data transaction that is done.

    Errors: ConnectionMissingError, ConnectionFailedError.
    """
    told = LaneBootstrap.model_validate_json(json.dumps(bootstrap))
    source = PostgresSource(
        told.source.resolve(), told.source.chunked(told), told.source.seen, digests=told.digests
    )
    into = told.sink.chunked(told)
    key = MergeKey(told.unique_key, told.version_column)
    change = slice_change(told.inner_mode, into, key, told.delete_triggers, after)
    try:
        sink = PostgresSink(
            told.sink.resolve(),
            into,
            change,
            RowCompletion(told.ledger_schema) if told.local_run is None else BareCommit(told.local_run),
            told.sink.seen,
            strict=told.strict,
            after=after,
        )
    except BaseException:
        source.close()
        raise
    return SourceToSink(source, sink)
