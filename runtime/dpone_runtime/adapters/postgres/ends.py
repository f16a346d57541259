"""Both ends of a load on PostgreSQL, looked at before anything moves: what is there, what fits, what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpone_contract.chunk_options import ChunkKind, NullPolicy
from dpone_contract.errors import NullsFoundError, TableMissingError
from dpone_contract.manifest import InnerMode, Manifest, SourceOptions
from dpone_contract.process import CampaignPlan
from dpone_runtime.adapters.postgres.catalog import (
    PgTable,
    find_table,
    has_leading_index,
    require_table,
)
from dpone_runtime.adapters.postgres.connect import PgConnection, connect, translated
from dpone_runtime.adapters.postgres.created_target import create_target, created_shape, plan_target
from dpone_runtime.adapters.postgres.identifiers import quoted, quoted_table
from dpone_runtime.adapters.postgres.matched_columns import MatchedColumns, match_columns
from dpone_runtime.adapters.postgres.merge import MergeKey
from dpone_runtime.adapters.postgres.merge_target import require_merge_target
from dpone_runtime.adapters.postgres.predicate import require_chunk_column
from dpone_runtime.adapters.postgres.seen_table import SeenTable, see_table
from dpone_runtime.adapters.postgres.selection import filtered, require_filter, select_columns
from dpone_runtime.adapters.postgres.shadow import shadow_lines
from dpone_runtime.adapters.postgres.target_fitness import require_target_fits
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.ports.connectors import Column


@dataclass(frozen=True)
class PostgresEnds:
    """Source and target as described: the column that each is cut along, and the columns that are copied.

    `seen_source` and `seen_target` are what lanes compare with: taken before anything was decided about either.
    """

    source: PgTable
    target: PgTable
    column: Column
    into: Column
    matched: MatchedColumns
    seen_source: SeenTable
    seen_target: SeenTable


def look_at_ends(
    manifest: Manifest,
    planned: CampaignPlan,
    source: ResolvedConnection,
    sink: ResolvedConnection,
    *,
    create: bool,
    writes: bool = True,
) -> PostgresEnds:
    """Describe both ends and require that they fit; with `create`, make a target that is missing.

    Unless it is to be written, this user needs no right to write the target.

    Errors: TableMissingError, TableUnsuitableError, ColumnsDifferError, ManifestInvalidError for a filter,
    ConnectionFailedError.
    """
    with connect(source, "prepare") as source_session, connect(sink, "prepare") as sink_session:
        seen_source = see_table(source_session, manifest.source.table)
        seen_target = see_table(sink_session, manifest.sink.table)
        described = _source(source_session, manifest.source, planned)
        name = planned.plan.spec.column
        column = require_chunk_column(described.shape.column(name), str(manifest.source.table), planned.plan)
        target = _target(sink_session, manifest, described, column.name, create=create)
        _require_fits(target, manifest, writes=writes)
        into = require_chunk_column(target.shape.column(name), str(manifest.sink.table), planned.plan)
        matched = match_columns(described.shape, target.shape, _midnights_of(planned))
        if writes:
            _require_mode_fits(sink_session, manifest, target, matched.names)
        seen_target = seen_target or see_table(sink_session, manifest.sink.table)
    if seen_source is None or seen_target is None:
        raise TableMissingError(
            f"{manifest.source.table} or {manifest.sink.table} was created or dropped while it was looked at",
            where="source.table" if seen_source is None else "sink.table",
            next_step="run it again",
        )
    return PostgresEnds(
        described,
        target,
        column,
        into,
        matched,
        seen_source.narrowed((*matched.names, name)),
        seen_target.narrowed((*matched.names, name)),
    )


def require_no_nulls(connection: ResolvedConnection, manifest: Manifest, column: Column) -> None:
    """Require that the source has a value in the chunk column of every row, where no chunk covers NULL.

    Errors: NullsFoundError.
    """
    chunk, options = manifest.backfill.chunk, manifest.source
    if chunk is None or chunk.nulls is not NullPolicy.FAIL or not column.nullable:
        return
    table = options.table
    where = filtered(f"{quoted(column.name)} IS NULL", options.where)
    text = f"SELECT EXISTS (SELECT FROM {quoted_table(table)} WHERE {where})"
    with connect(connection, "prepare") as session, translated(f"looking for NULL in {table}"):
        found = session.execute(text.encode()).fetchone()
    if found is not None and found[0]:
        raise NullsFoundError(
            f"source {table} has rows whose {column.name} is NULL: no chunk would load them",
            where="sink.strategy.backfill.chunk.nulls",
            next_step="mend the rows, set nulls: include to load them too, or nulls: ignore to leave them behind knowingly",
        )


def inspection_lines(
    manifest: Manifest, planned: CampaignPlan, source: ResolvedConnection, sink: ResolvedConnection
) -> Iterator[str]:
    """Look at both ends without changing anything; give what a person should know before a run.

    Errors: as `look_at_ends`.
    """
    name = planned.plan.spec.column
    with connect(source, "plan") as source_session, connect(sink, "plan") as sink_session:
        described = _source(source_session, manifest.source, planned)
        require_chunk_column(described.shape.column(name), str(manifest.source.table), planned.plan)
        target = find_table(sink_session, manifest.sink.table)
        yield f"connections {source.name} and {sink.name} answer"
        for side, session, table in (("source", source_session, described), ("target", sink_session, target)):
            if table is not None and not has_leading_index(session, table, name):
                yield (
                    f"warning: no index of {side} {table.shape.identity.name} begins with {name}: "
                    "every chunk reads the whole table"
                )
        if target is None:
            yield "the target does not exist; a run would execute:"
            statements = plan_target(
                sink_session, described.shape, manifest.sink.table, _key_of(manifest), name
            )
            yield from (f"{text};" for text in statements)
            matched = match_columns(described.shape, created_shape(described.shape))
        else:
            _require_fits(target, manifest, writes=True)
            require_chunk_column(target.shape.column(name), str(manifest.sink.table), planned.plan)
            matched = match_columns(described.shape, target.shape, _midnights_of(planned))
            _require_mode_fits(sink_session, manifest, target, matched.names)
            if manifest.backfill.publication.swaps:
                yield from shadow_lines(sink_session, manifest.sink.table)
        yield from matched.lines()


def _require_fits(target: PgTable, manifest: Manifest, *, writes: bool) -> None:
    backfill = manifest.backfill
    compares = backfill.verify == "checksum"
    require_target_fits(target, backfill.inner_mode, compares=compares, writes=writes)


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


def _target(
    session: PgConnection, manifest: Manifest, source: PgTable, column: str, *, create: bool
) -> PgTable:
    table = manifest.sink.table
    found = find_table(session, table)
    if found is None and not create:
        raise TableMissingError(
            f"target table {table} does not exist",
            where="sink.table",
            next_step="check schema and name; a table that was dropped has to be loaded again",
        )
    if found is None:
        if manifest.sink.create_target == "never":
            raise TableMissingError(
                f"target table {table} does not exist, and create_target is never",
                where="sink.table",
                next_step="create it, or remove create_target",
            )
        statements = plan_target(session, source.shape, table, _key_of(manifest), column)
        found = create_target(session, table, statements)
    return found


def _source(session: PgConnection, options: SourceOptions, planned: CampaignPlan) -> PgTable:
    """Describe what of the source is loaded."""
    found = select_columns(require_table(session, options.table, "source"), options, planned.plan.spec.column)
    require_filter(session, options)
    return found
