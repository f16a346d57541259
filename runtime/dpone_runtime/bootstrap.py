"""Where adapters are named: a process and its connections become a ledger, a wanted campaign and lanes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import (
    CampaignDriftError,
    LedgerMissingError,
    PublicationRefusedError,
    TableMissingError,
)
from dpone_contract.manifest import InnerMode, Manifest, TableName
from dpone_contract.process import CampaignPlan, Process
from dpone_runtime.adapters.lanes.pool import SILENCE, ProcessLanePool
from dpone_runtime.adapters.local_file.ledger import CAPABILITIES as LOCAL_FILE_CAPABILITIES
from dpone_runtime.adapters.local_file.ledger import LocalFileLedger
from dpone_runtime.adapters.postgres.diagnostics import PostgresDiagnostics
from dpone_runtime.adapters.postgres.ends import (
    PostgresEnds,
    inspection_lines,
    look_at_ends,
    require_no_nulls,
)
from dpone_runtime.adapters.postgres.identifiers import require_names_fit
from dpone_runtime.adapters.postgres.predicate import covered_window
from dpone_runtime.adapters.postgres.session import CAPABILITIES as POSTGRES_CAPABILITIES
from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.adapters.postgres.session import ledger_ddl as postgres_ledger_ddl
from dpone_runtime.adapters.postgres.shadow import (
    LoadedTable,
    find_loaded_table,
    make_loaded_table,
    postgres_backup_name,
    postgres_shadow_name,
)
from dpone_runtime.adapters.postgres.slice_reader import PostgresSliceReader
from dpone_runtime.adapters.postgres.target_locks import PostgresTargetLocks
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.connections import ResolvedConnection, resolve_connection
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, Shadow
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.local_run import LocalRun, new_local_run
from dpone_runtime.domain.publication import Swap
from dpone_runtime.lane_bootstrap import LANE_OPENER, LaneBootstrap, lane_bootstrap
from dpone_runtime.ports.connectors import SliceReader, SourceReader
from dpone_runtime.ports.diagnostics import TargetDiagnostics
from dpone_runtime.ports.lanes import LanePool
from dpone_runtime.ports.ledger import CampaignLedger
from dpone_runtime.services.open_campaign import require_another_round
from dpone_runtime.state_directory import state_directory


@dataclass(frozen=True)
class Connections:
    """Both ends of a process, resolved and not opened yet, and the folder that its files are in."""

    source: ResolvedConnection
    sink: ResolvedConnection
    folder: Path


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


def prepare_run(
    process: Process, planned: CampaignPlan, connections: Connections, *, restart: bool = False
) -> PreparedRun:
    """Look at both tables, create a missing target, shadow and ledger, and describe the campaign that this run wants.

    Errors: TableMissingError, TableUnsuitableError, ColumnsDifferError, NullsFoundError, LedgerMissingError,
    ConnectionFailedError; CampaignDriftError for a target or shadow that was dropped since; PublicationRefusedError; nothing was
    moved then, and but for an empty shadow nothing made.
    """
    manifest = process.manifest
    ends = _look_at_ends(manifest, planned, connections)
    in_a_file = manifest.backfill.state.in_a_file
    run = new_local_run(ends.target.shape.identity.relation) if in_a_file else None
    ledger = open_ledger(manifest, connections, run)
    ledger.ensure_schema()
    begun = ledger.read_campaign(planned.plan.run_key)
    if _looked_too_early(begun, ends):
        ends = _look_at_ends(manifest, planned, connections)
    if begun is None:
        require_no_nulls(connections.source, manifest, ends.column)
    loaded: LoadedTable | None = None
    try:
        if begun is None or not begun.finished or begun.publishable or restart:
            loaded = _loaded_aside(manifest, planned, connections, ledger, restart=restart)
    except (CampaignDriftError, PublicationRefusedError, TableMissingError):
        # Perhaps another run has published it since it was read: what was its shadow has no such name now, and the backup has.
        begun = ledger.read_campaign(planned.plan.run_key)
        if restart or not _looked_too_early(begun, ends):
            raise
        ends = _look_at_ends(manifest, planned, connections)
    return _prepared(process, planned, ends, ledger, loaded=loaded, run=run)


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
    ledger = open_ledger(manifest, connections)
    begun = ledger.read_campaign(planned.plan.run_key) if ledger.exists() else None
    if _looked_too_early(begun, ends):
        ends = look_at_ends(
            manifest, planned, connections.source, connections.sink, create=False, writes=repairs
        )
    loaded: LoadedTable | None = None
    if begun is not None and begun.shadow is not None:
        loaded = find_loaded_table(connections.sink, manifest.sink.table, begun, unchanged=repairs)
    return _prepared(process, planned, ends, ledger, loaded=loaded)


def describe_wanted(process: Process, planned: CampaignPlan, connections: Connections) -> Campaign:
    """Look at both tables and describe the campaign that a run would want; nothing is created.

    Errors: as `prepare_run`, but for a ledger that is missing.
    """
    prepared = prepare_verification(process, planned, connections, repairs=True)
    prepared.ledger.close()
    tables = publication_tables(process.manifest, planned.plan.run_key)
    if tables is None or prepared.wanted.shadow is not None:
        return prepared.wanted
    # There is none yet, or no more; what a run wants reaches the whole table all the same.
    return replace(prepared.wanted, shadow=Shadow("", str(tables[0]), ""))


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


def _looked_too_early(begun: Campaign | None, ends: PostgresEnds) -> bool:
    """Whether the target was exchanged after it was looked at, and before the campaign was read."""
    target = ends.target.shape.identity
    return (
        begun is not None
        and begun.status is CampaignStatus.PUBLISHED
        and not begun.target.same_object(target)
    )


def _loaded_aside(
    manifest: Manifest,
    planned: CampaignPlan,
    connections: Connections,
    ledger: CampaignLedger,
    *,
    restart: bool,
) -> LoadedTable | None:
    """Give the shadow that a run loads, made where nothing of its round has begun; None where it loads its target itself.

    Errors: PublicationRefusedError, CampaignDriftError.
    """
    if not manifest.backfill.publication.swaps:
        return None
    run_key, live = planned.plan.run_key, manifest.sink.table
    begun = ledger.read_campaign(run_key)
    if begun is not None and begun.shadow is not None:
        return find_loaded_table(connections.sink, live, begun)
    if begun is not None and not restart:
        return None
    if begun is not None:
        require_another_round(begun, ())
    kept = postgres_backup_name(live, run_key, 1 if begun is None else begun.round + 1)
    made, empty = make_loaded_table(
        connections.sink, live, run_key, column=planned.plan.spec.column, kept=kept
    )
    if empty:
        return made
    # Whoever has opened the campaign meanwhile may have loaded into it already; its row was there before the first of these.
    begun = ledger.read_campaign(run_key)
    if begun is not None and begun.shadow is not None:
        return find_loaded_table(connections.sink, live, begun)
    raise PublicationRefusedError(
        f"the table {made.shadow.name} holds rows that no campaign of this ledger has loaded",
        where=f"table {made.shadow.name}",
        next_step="perhaps a campaign of another audit schema loads it: let that be published, or cancel it; drop it only if none does, "
        "or load under another backfill_id",
    )


def _prepared(
    process: Process,
    planned: CampaignPlan,
    ends: PostgresEnds,
    ledger: CampaignLedger,
    *,
    loaded: LoadedTable | None = None,
    run: LocalRun | None = None,
) -> PreparedRun:
    bootstrap = lane_bootstrap(process, planned.plan.spec.kind, ends).replaced(local_run=run)
    wanted = _wanted(process.manifest, planned, ends)
    if loaded is None:
        return PreparedRun(ledger, wanted, bootstrap)
    columns = (*ends.matched.names, ends.into.name)
    sink = bootstrap.sink.replaced(table=loaded.seen.table, seen=loaded.seen.narrowed(columns))
    wanted = replace(wanted, shadow=loaded.shadow)
    return PreparedRun(ledger, wanted, bootstrap.replaced(sink=sink))


def publication_tables(manifest: Manifest, run_key: RunKey) -> tuple[TableName, TableName] | None:
    """Give the shadow of a campaign, and what its first publication keeps the live table as; None where there is none."""
    live = manifest.sink.table
    if not manifest.backfill.publication.swaps:
        return None
    return postgres_shadow_name(live, run_key), postgres_backup_name(live, run_key, 1)


def publication_swap(manifest: Manifest, campaign: Campaign) -> Swap | None:
    """Give what a campaign's publication exchanges; None where it has no shadow."""
    live, shadow = manifest.sink.table, campaign.shadow
    if shadow is None:
        return None
    return Swap(
        live=live,
        shadow=postgres_shadow_name(live, campaign.run_key),
        backup=postgres_backup_name(live, campaign.run_key, campaign.round),
        live_relation=campaign.target.relation,
        shadow_relation=shadow.relation,
        contract=shadow.contract,
        retain_backup=manifest.backfill.publication.retain_backup,
        unique_key=manifest.sink.strategy.unique_key or (),
    )


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
