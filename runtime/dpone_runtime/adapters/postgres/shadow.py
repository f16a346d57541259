"""The shadow of a table: a second one that is like it in everything but its rows, loaded by one campaign and then put in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import CampaignDriftError, DatabaseFailedError, PublicationRefusedError
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import run_batch, settings_statement
from dpone_runtime.adapters.postgres.connect import (
    DATA_LOCK_WAIT_MS,
    PgConnection,
    connect,
    session_settings,
    translated,
)
from dpone_runtime.adapters.postgres.created_target import ddl_lock
from dpone_runtime.adapters.postgres.identifiers import LONGEST_NAME_BYTES, literal, quoted, quoted_table
from dpone_runtime.adapters.postgres.seen_table import SeenTable, see_table
from dpone_runtime.adapters.postgres.shadow_indexes import drop_deferred
from dpone_runtime.adapters.postgres.table_contract import (
    FoundTable,
    contract_digest,
    differences,
    publication_queries,
    require_no_surfaces,
    shortened,
    table_contract,
    table_of_name,
)
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.domain.campaign import Campaign, Shadow
from dpone_runtime.domain.publication import CANCEL_AND_BEGIN_ANOTHER, backup_name, shadow_name

IDLE_MS = 10_000
"""After how long the server ends a run that is stopped while it makes a shadow: it holds the live table, which nobody could exchange."""


@dataclass(frozen=True)
class LoadedTable:
    """The shadow that a run loads, and what its lanes compare with."""

    shadow: Shadow
    seen: SeenTable


def make_loaded_table(
    connection: ResolvedConnection, live: TableName, run_key: RunKey, *, column: str, kept: TableName
) -> tuple[LoadedTable, bool]:
    """Make a campaign's shadow, or find an earlier run's; say whether nothing is in it.

    Errors: as `make_shadow`.
    """
    with connect(connection, "prepare") as session:
        shadow = make_shadow(session, live, run_key, column, kept)
        return _loaded(session, live, run_key, shadow), is_empty(session, live, run_key)


def find_loaded_table(
    connection: ResolvedConnection, live: TableName, campaign: Campaign, *, unchanged: bool = True
) -> LoadedTable:
    """Find the shadow of a campaign that has begun; `unchanged`: it and the live table have to be what they were.

    Errors: as `find_shadow`.
    """
    with connect(connection, "prepare") as session:
        shadow = find_shadow(session, live, campaign, unchanged=unchanged)
        return _loaded(session, live, campaign.run_key, shadow)


def _loaded(connection: PgConnection, live: TableName, run_key: RunKey, shadow: Shadow) -> LoadedTable:
    name = postgres_shadow_name(live, run_key)
    seen = see_table(connection, name)
    if seen is None or str(seen.relation) != shadow.relation:
        raise _gone(name, run_key)
    return LoadedTable(shadow, seen)


def postgres_backup_name(live: TableName, run_key: RunKey, round_number: int) -> TableName:
    """Give the name under which what was live is kept."""
    return backup_name(live, run_key, round_number, LONGEST_NAME_BYTES)


def postgres_shadow_name(live: TableName, run_key: RunKey) -> TableName:
    """Give the name of a campaign's shadow."""
    return shadow_name(live, run_key, LONGEST_NAME_BYTES)


def make_shadow(
    connection: PgConnection, live: TableName, run_key: RunKey, column: str, kept: TableName
) -> Shadow:
    """Make a campaign's shadow like the live table, or find the one that an earlier run has made and not begun to load.

    It is cut along a column; indexes that keep no row out and do not begin with that are left for later. `kept` is the name that
    the live table is to have after the swap.

    Errors: PublicationRefusedError for what no other table can be given, for a table of the shadow's name that is none, and where
    this user may not exchange tables; DatabaseFailedError.
    """
    with translated(f"making the shadow of {live}", f"table {live}"), connection.transaction():
        settings = session_settings(connection, DATA_LOCK_WAIT_MS, IDLE_MS)
        # What is not said is where the live table has it: in the database's own tablespace, wherever this user's tables go.
        run_batch(connection, (settings_statement({**settings, "default_tablespace": ""}), ddl_lock()))
        # Nobody changes it while it is copied.
        _run(connection, f"LOCK TABLE {quoted_table(live)} IN ACCESS SHARE MODE")
        found = _require(connection, live)
        _require_may_exchange(found)
        require_no_surfaces(connection, found)
        require_free_name(connection, kept)
        name = postgres_shadow_name(live, run_key)
        shadow = table_of_name(connection, name)
        if shadow is None:
            shadow = _create(connection, found, name, run_key)
            drop_deferred(connection, name, shadow.relation, column)
        elif shadow.comment != _mark(live, run_key):
            raise PublicationRefusedError(
                f"there is a table {name} that is not the shadow of campaign {run_key}",
                where=f"table {name}",
                next_step="rename it, or drop it if nobody needs it; then run this again",
            )
        # Event triggers may have given it what no table may have that is exchanged.
        require_no_surfaces(connection, shadow)
        return Shadow(str(shadow.relation), str(name), _common_contract(connection, found, shadow))


def is_empty(connection: PgConnection, live: TableName, run_key: RunKey) -> bool:
    """Whether nothing is in a campaign's shadow yet."""
    name = postgres_shadow_name(live, run_key)
    with translated(f"looking into {name}", f"table {name}"):
        found = _run(connection, f"SELECT EXISTS (SELECT FROM {quoted_table(name)})")
    return found == [(False,)]


def find_shadow(
    connection: PgConnection, live: TableName, campaign: Campaign, *, unchanged: bool = True
) -> Shadow:
    """Find the shadow of a campaign that has begun, and require both tables to be what they were.

    Errors: CampaignDriftError for a shadow that is gone or was replaced, PublicationRefusedError naming what has changed.
    """
    if campaign.shadow is None:
        raise ValueError(f"campaign {campaign.run_key} has no shadow")
    name = postgres_shadow_name(live, campaign.run_key)
    with translated(f"looking at {name}", f"table {name}"), connection.transaction():
        found, shadow = _require(connection, live), table_of_name(connection, name)
        if shadow is None or str(shadow.relation) != campaign.shadow.relation:
            raise _gone(name, campaign.run_key)
        if unchanged:
            require_unchanged(connection, found, shadow, campaign.shadow.contract, indexed=False)
        return campaign.shadow


def require_free_name(connection: PgConnection, kept: TableName) -> None:
    """Require that nothing has the name under which the live table is to be kept.

    Errors: PublicationRefusedError.
    """
    if table_of_name(connection, kept) is not None:
        raise PublicationRefusedError(
            f"there is a table {kept} already, whose name the live table is to be kept under",
            where=f"table {kept}",
            next_step="rename it, or drop it if nobody needs it; then run this again",
        )


def require_unchanged(
    connection: PgConnection, live: FoundTable, shadow: FoundTable, contract: str, *, indexed: bool
) -> None:
    """Require a live table to be what it was when its shadow was made, and the shadow to be like it, but for `differences`.

    Errors: PublicationRefusedError.
    """
    require_no_surfaces(connection, live)
    require_no_surfaces(connection, shadow)
    found = table_contract(connection, live.relation)
    told = differences(found, table_contract(connection, shadow.relation), indexed=indexed)
    if not told and contract_digest(found) != contract:
        told = ("it has another comment or index, or both were changed alike",)
    if told:
        raise PublicationRefusedError(
            f"{live.name} has changed since the load into its shadow began, or the shadow has: {shortened(told)}",
            where=f"table {live.name}",
            next_step=f"make both what they were when the load began, and run this again; or {CANCEL_AND_BEGIN_ANOTHER}",
        )


def shadow_lines(connection: PgConnection, live: TableName) -> Iterator[str]:
    """Look at a live table without changing anything; say what a publication would make of it.

    Errors: PublicationRefusedError where it cannot be exchanged.
    """
    with translated(f"looking at {live}", f"table {live}"):
        found = table_of_name(connection, live)
        if found is None:
            return
        _require_may_exchange(found)
        require_no_surfaces(connection, found)
        contract = table_contract(connection, found.relation)
    yield f"{live} can be exchanged by a swap: {len(contract)} properties, contract {contract_digest(contract)}"


def _create(connection: PgConnection, live: FoundTable, name: TableName, run_key: RunKey) -> FoundTable:
    query = publication_queries().statement
    options = run_batch(connection, (query("shadow_options", relation=live.relation),))[0].fetchone()
    like, made = quoted_table(live.name), quoted_table(name)
    _run(connection, f"CREATE TABLE {made} (LIKE {like} INCLUDING ALL){options[0] if options else ''}")
    _run(connection, f"COMMENT ON TABLE {made} IS {literal(_mark(live.name, run_key))}")
    for details in ("shadow_details", "shadow_privileges"):
        statement = query(details, relation=live.relation, shadow=made)
        for (text,) in run_batch(connection, (statement,))[0].fetchall():
            _run(connection, str(text))
    return _require(connection, name)


def _common_contract(connection: PgConnection, live: FoundTable, shadow: FoundTable) -> str:
    contract = table_contract(connection, live.relation)
    told = differences(contract, table_contract(connection, shadow.relation), indexed=False)
    if told:
        raise PublicationRefusedError(
            f"no table can be made like {live.name}, or its shadow {shadow.name} is older than a change of it: {shortened(told)}",
            where=f"table {live.name}",
            next_step=f"if there is a table {shadow.name} that is empty and that no campaign loads, drop it; else take this away, or load "
            "with publication.mode: direct",
        )
    return contract_digest(contract)


def _require(connection: PgConnection, table: TableName) -> FoundTable:
    found = table_of_name(connection, table)
    if found is None:
        raise PublicationRefusedError(
            f"table {table} was dropped while it was looked at",
            where=f"table {table}",
            next_step="run it again",
        )
    return found


def _require_may_exchange(live: FoundTable) -> None:
    if not live.is_owner:
        raise DatabaseFailedError(
            f"this user may not rename {live.name}: it belongs to {live.owner}",
            where=f"table {live.name}",
            next_step=f"connect as {live.owner}, or GRANT {quoted(live.owner)} to this user",
        )
    if not (live.may_create and live.owner_may_create):
        who, to = (
            ("this user", "to this user")
            if not live.may_create
            else (f"its owner {live.owner}", f"TO {quoted(live.owner)}")
        )
        raise DatabaseFailedError(
            f"{who} may not create a table in the schema of {live.name}, which its shadow and its backup need",
            where=f"table {live.name}",
            next_step=f"GRANT CREATE ON SCHEMA {quoted(live.name.schema_)} {to}",
        )


def _gone(name: TableName, run_key: RunKey) -> CampaignDriftError:
    return CampaignDriftError(
        f"the table {name} that campaign {run_key} loads is gone or was replaced, with what was loaded into it",
        where=f"table {name}",
        next_step=f"restore it, or {CANCEL_AND_BEGIN_ANOTHER}",
        run_key=run_key,
    )


def _mark(live: TableName, run_key: RunKey) -> str:
    return f"dpone: what campaign {run_key} loads, to become {live}; write nothing to it"


def _run(connection: PgConnection, text: str) -> list[tuple[object, ...]]:
    cursor = run_batch(connection, (Statement("shadow", text.replace("%", "%%"), {}),))[0]
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
