"""Where adapters are named: a process and its connections become a ledger, a wanted campaign and lanes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from dpone_contract.chunk_options import ChunkKind, NullPolicy
from dpone_contract.errors import InternalError, NullsFoundError, TableMissingError
from dpone_contract.frozen import FrozenModel
from dpone_contract.manifest import DatabaseType, InnerMode, Manifest, SourceOptions, TableName
from dpone_contract.process import CampaignPlan, Process
from dpone_runtime.adapters.lanes.pool import SILENCE, ProcessLanePool
from dpone_runtime.adapters.postgres.catalog import (
    PgTable,
    find_table,
    has_leading_index,
    require_table,
    require_target_kind,
)
from dpone_runtime.adapters.postgres.connect import PgConnection, connect, translated
from dpone_runtime.adapters.postgres.copy_format import CopyFormat
from dpone_runtime.adapters.postgres.created_target import create_target, created_shape, plan_target
from dpone_runtime.adapters.postgres.identifiers import quoted, quoted_table, require_names_fit
from dpone_runtime.adapters.postgres.matched_columns import MatchedColumns, match_columns
from dpone_runtime.adapters.postgres.merge import MergeKey
from dpone_runtime.adapters.postgres.merge_target import require_merge_target
from dpone_runtime.adapters.postgres.predicate import ChunkedTable, covered_window, require_chunk_column
from dpone_runtime.adapters.postgres.selection import filtered, require_filter, select_columns
from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.adapters.postgres.session import ledger_ddl as postgres_ledger_ddl
from dpone_runtime.adapters.postgres.sink import PostgresSink
from dpone_runtime.adapters.postgres.slice_changes import slice_change
from dpone_runtime.adapters.postgres.source import PostgresSource
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.connections import ResolvedConnection, resolve_connection
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, TableIdentity, Window
from dpone_runtime.ports.connectors import Column
from dpone_runtime.ports.lanes import ChunkLoader, LanePool
from dpone_runtime.ports.ledger import CampaignLedger
from dpone_runtime.ports.type_structure import TypeStructure
from dpone_runtime.services.load_chunk import SourceToSink

LANE_OPENER = "dpone_runtime.bootstrap:open_lane"


@dataclass(frozen=True)
class Connections:
    """Both ends of a process, resolved and not opened yet."""

    source: ResolvedConnection
    sink: ResolvedConnection


class LaneEnd(FrozenModel):
    """One end of a lane: references and names, no credential."""

    connection: str
    type: DatabaseType
    table: TableName
    column_name: str
    column_type: str
    casts: dict[str, str] = {}
    where: str | None = None

    def resolve(self) -> ResolvedConnection:
        """Find the connection, in the process that opens it."""
        return resolve_connection(self.connection, self.type, os.environ)

    def chunked(self, told: LaneBootstrap) -> ChunkedTable:
        """Give the table with what is copied of it and how it is cut."""
        column = Column(self.column_name, TypeStructure(self.column_type), nullable=True)
        return ChunkedTable(
            self.table, told.columns, column, told.kind, told.timezone, self.casts, self.where, told.format
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
    strict: bool


@dataclass(frozen=True)
class PreparedRun:
    """A run whose tables were looked at: the ledger, the campaign it wants, and what its lanes are told."""

    ledger: CampaignLedger
    wanted: Campaign
    lane_bootstrap: LaneBootstrap

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
    )


def open_ledger(manifest: Manifest, connections: Connections) -> CampaignLedger:
    """Open the ledger beside the target; nothing is created."""
    schema = manifest.backfill.state.schema_
    return SqlLedger(PostgresSession(connections.sink, schema), schema)


def ledger_ddl(manifest: Manifest) -> tuple[str, ...]:
    """Give the statements that create a process's ledger; nothing is opened."""
    return postgres_ledger_ddl(manifest.backfill.state.schema_)


def prepare_run(process: Process, planned: CampaignPlan, connections: Connections) -> PreparedRun:
    """Look at both tables, create a missing target and ledger, and describe the campaign that this run wants.

    Errors: TableMissingError, TableUnsuitableError, ColumnsDifferError, NullsFoundError, LedgerMissingError,
    ConnectionFailedError; nothing was moved then.
    """
    manifest, backfill = process.manifest, process.manifest.backfill
    if backfill.chunk is None:
        raise InternalError("a run was prepared without chunks", next_step="report it with the log")
    with connect(connections.source, "prepare") as source_session:
        source = _source(source_session, manifest.source, planned)
        column = require_chunk_column(
            source.shape.column(backfill.chunk.column), str(manifest.source.table), planned.plan
        )
        target = _target(connections.sink, manifest, source, column.name)
        into = require_chunk_column(target.shape.column(column.name), str(manifest.sink.table), planned.plan)
        matched = match_columns(source.shape, target.shape, _midnights_of(planned))
        with connect(connections.sink, "prepare") as sink_session:
            _require_mode_fits(sink_session, manifest, target, matched.names)
        ledger = open_ledger(manifest, connections)
        ledger.ensure_schema()
        if ledger.read_campaign(planned.plan.run_key) is None and backfill.chunk.nulls is NullPolicy.FAIL:
            _require_no_nulls(source_session, manifest.source, column)
    window = covered_window(into, planned.plan)
    if backfill.inner_mode is InnerMode.FULL_REFRESH:
        window = replace(window, everything=True)
    wanted = _wanted(manifest, planned, window, source.shape.identity, target.shape.identity)
    return PreparedRun(
        ledger, wanted, _lane_bootstrap(process, planned.plan.spec.kind, matched, column, into)
    )


def inspect_ends(process: Process, planned: CampaignPlan, connections: Connections) -> tuple[str, ...]:
    """Look at both ends without changing anything; give lines for `plan --connect`.

    Errors: as `prepare_run`.
    """
    manifest, name = process.manifest, planned.plan.spec.column
    lines = []
    with connect(connections.source, "plan") as source, connect(connections.sink, "plan") as sink:
        described = _source(source, manifest.source, planned)
        require_chunk_column(described.shape.column(name), str(manifest.source.table), planned.plan)
        target = find_table(sink, manifest.sink.table)
        lines.append(f"connections {connections.source.name} and {connections.sink.name} answer")
        for side, session, table in (("source", source, described), ("target", sink, target)):
            if table is not None and not has_leading_index(session, table, name):
                lines.append(
                    f"warning: no index of {side} {table.shape.identity.name} begins with {name}: "
                    "every chunk reads the whole table"
                )
        if target is None:
            lines.append("the target does not exist; a run would execute:")
            planned_ddl = plan_target(sink, described.shape, manifest.sink.table, _key_of(manifest), name)
            lines.extend(f"{text};" for text in planned_ddl)
            matched = match_columns(described.shape, created_shape(described.shape))
        else:
            require_target_kind(target)
            require_chunk_column(target.shape.column(name), str(manifest.sink.table), planned.plan)
            matched = match_columns(described.shape, target.shape, _midnights_of(planned))
            _require_mode_fits(sink, manifest, target, matched.names)
    return (*lines, *matched.lines())


def _require_mode_fits(
    session: PgConnection, manifest: Manifest, target: PgTable, columns: tuple[str, ...]
) -> None:
    if manifest.backfill.inner_mode is InnerMode.INCREMENTAL_MERGE:
        require_merge_target(session, target, _key_of(manifest), columns)


def _key_of(manifest: Manifest) -> MergeKey:
    strategy = manifest.sink.strategy
    return MergeKey(strategy.unique_key or (), strategy.version_column)


def _midnights_of(planned: CampaignPlan) -> str | None:
    """Give the zone in which a day begins; windows of numbers and uuids have none."""
    spec = planned.plan.spec
    return spec.timezone if spec.kind in (ChunkKind.DATE, ChunkKind.TIMESTAMP) else None


def _target(connection: ResolvedConnection, manifest: Manifest, source: PgTable, column: str) -> PgTable:
    table = manifest.sink.table
    with connect(connection, "prepare") as session:
        found = find_table(session, table)
        if found is None:
            if manifest.sink.create_target == "never":
                raise TableMissingError(
                    f"target table {table} does not exist, and create_target is never",
                    where="sink.table",
                    next_step="create it, or remove create_target",
                )
            statements = plan_target(session, source.shape, table, _key_of(manifest), column)
            found = create_target(session, table, statements)
    require_target_kind(found)
    return found


def _source(session: PgConnection, options: SourceOptions, planned: CampaignPlan) -> PgTable:
    """Describe what of the source is loaded."""
    found = select_columns(require_table(session, options.table, "source"), options, planned.plan.spec.column)
    require_filter(session, options)
    return found


def _require_no_nulls(session: PgConnection, options: SourceOptions, column: Column) -> None:
    if not column.nullable:
        return
    table = options.table
    where = filtered(f"{quoted(column.name)} IS NULL", options.where)
    text = f"SELECT EXISTS (SELECT FROM {quoted_table(table)} WHERE {where})"
    with translated(f"looking for NULL in {table}"):
        found = session.execute(text.encode()).fetchone()
    if found is not None and found[0]:
        raise NullsFoundError(
            f"source {table} has rows whose {column.name} is NULL: no chunk would load them",
            where="sink.strategy.backfill.chunk.nulls",
            next_step="mend the rows, set nulls: include to load them too, or nulls: ignore to leave them behind knowingly",
        )


def _wanted(
    manifest: Manifest, planned: CampaignPlan, window: Window, source: TableIdentity, target: TableIdentity
) -> Campaign:
    plan = planned.plan
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
        source=source,
        target=target,
    )


def _lane_bootstrap(
    process: Process, kind: ChunkKind, matched: MatchedColumns, column: Column, into: Column
) -> LaneBootstrap:
    manifest = process.manifest
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
        ),
        sink=LaneEnd(
            connection=sink.connection,
            type=sink.type,
            table=sink.table,
            column_name=into.name,
            column_type=into.type,
        ),
        columns=matched.names,
        format=matched.format,
        kind=kind,
        timezone=chunk.timezone if chunk else "UTC",
        inner_mode=manifest.backfill.inner_mode,
        unique_key=manifest.sink.strategy.unique_key or (),
        version_column=manifest.sink.strategy.version_column,
        ledger_schema=manifest.backfill.state.schema_,
        strict=manifest.backfill.verify == "strict",
    )


def ignore_step(_step: str) -> None:
    """Stand where nobody wants to be told of a lane's steps."""


def open_lane(bootstrap: dict[str, object], after: Callable[[str], None] = ignore_step) -> ChunkLoader:
    """Open a lane's own source and sink, in the lane's process; connections are resolved there.

    `after` is told the name of each step of the data transaction that is done.

    Errors: ConnectionMissingError, ConnectionFailedError.
    """
    told = LaneBootstrap.model_validate_json(json.dumps(bootstrap))
    source = PostgresSource(told.source.resolve(), told.source.chunked(told))
    into = told.sink.chunked(told)
    change = slice_change(told.inner_mode, into, MergeKey(told.unique_key, told.version_column), after)
    sink = PostgresSink(
        told.sink.resolve(),
        into,
        change,
        told.ledger_schema,
        strict=told.strict,
        after=after,
    )
    return SourceToSink(source, sink)
