"""What a lane is told, and what it opens in its own process: plain data becomes a source, a sink and the change of a slice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from dpone_contract.chunk_options import ChunkKind
from dpone_contract.frozen import FrozenModel
from dpone_contract.manifest import DatabaseType, InnerMode, TableName
from dpone_contract.process import Process
from dpone_runtime.adapters.postgres.completion import BareCommit, RowCompletion
from dpone_runtime.adapters.postgres.copy_format import CopyFormat
from dpone_runtime.adapters.postgres.ends import (
    PostgresEnds,
)
from dpone_runtime.adapters.postgres.merge import MergeKey
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.adapters.postgres.seen_table import SeenTable
from dpone_runtime.adapters.postgres.sink import PostgresSink
from dpone_runtime.adapters.postgres.slice_changes import slice_change
from dpone_runtime.adapters.postgres.source import PostgresSource
from dpone_runtime.connections import ResolvedConnection, resolve_connection
from dpone_runtime.domain.local_run import LocalRun
from dpone_runtime.ports.connectors import Column
from dpone_runtime.ports.lanes import ChunkLoader
from dpone_runtime.ports.type_structure import TypeStructure
from dpone_runtime.services.load_chunk import SourceToSink

LANE_OPENER = "dpone_runtime.lane_bootstrap:open_lane"


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


def lane_bootstrap(process: Process, kind: ChunkKind, ends: PostgresEnds) -> LaneBootstrap:
    """Give what lanes are told of a process whose tables were looked at; they load its target."""
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
