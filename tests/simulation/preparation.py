"""What a run does before it opens its campaign: look at the live table, and make the shadow that it loads, or find it.

The steps, and their order, of `bootstrap.prepare_run` and `make_shadow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import (
    CampaignDriftError,
    DatabaseFailedError,
    PublicationRefusedError,
    TableMissingError,
)
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.batches import lock_key
from dpone_runtime.adapters.postgres.connect import DATA_LOCK_WAIT_MS
from dpone_runtime.adapters.postgres.shadow import IDLE_MS
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.adapters.sql.rows import Row
from dpone_runtime.adapters.sql.session import LockTimeoutError
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, Shadow, TableIdentity
from dpone_runtime.domain.publication import Swap, backup_name, shadow_name
from dpone_runtime.ports.ledger import CampaignLedger
from dpone_runtime.services.open_campaign import require_another_round
from tests.campaign_factories import TARGET
from tests.simulation.database import Session
from tests.simulation.exchange import lock_table, named, settings
from tests.simulation.processes import Process
from tests.simulation.session import QUERIES, asked

LIVE = TableName.model_validate(dict(zip(("schema", "name"), TARGET.name.split("."), strict=True)))
CONTRACT = "sha256:" + "d" * 64
_LONGEST = 63
_AGAIN = "run it again"


@dataclass(frozen=True)
class LoadedTable:
    """What the lanes of a run load: a name, and the table that it stood for when it was looked at."""

    name: TableName
    relation: str


@dataclass(frozen=True)
class Prepared:
    """The campaign that a run wants, and the table that its lanes load."""

    wanted: Campaign
    table: LoadedTable


NOTHING_TO_LOOK_AT = LoadedTable(LIVE, TARGET.relation)
"""Where nobody ever exchanges a table."""


def shadow_of(run_key: str) -> TableName:
    """Give the name of a campaign's shadow."""
    return shadow_name(LIVE, RunKey(run_key), _LONGEST)


def swap_of(campaign: Campaign) -> Swap | None:
    """Give what a campaign's publication exchanges, as `publication_swap` does."""
    if campaign.shadow is None:
        return None
    return Swap(
        live=LIVE,
        shadow=shadow_of(campaign.run_key),
        backup=backup_name(LIVE, campaign.run_key, campaign.round, _LONGEST),
        live_relation=campaign.target.relation,
        shadow_relation=campaign.shadow.relation,
        contract=campaign.shadow.contract,
        retain_backup=True,
    )


def prepare(
    process: Process, ledger: CampaignLedger, wanted: Campaign, *, swaps: bool, restart: bool
) -> Prepared:
    """Look at the live table, and make or find the shadow where the campaign is loaded into one.

    Errors: TableMissingError, CampaignDriftError, PublicationRefusedError, DatabaseFailedError.
    """
    looking, shadow = _Looking(process), None
    try:
        target = looking.target()
        begun = ledger.read_campaign(wanted.run_key)
        if _looked_too_early(begun, target):
            target = looking.target()
        try:
            if swaps and (begun is None or not begun.finished or begun.publishable or restart):
                shadow = _loaded_aside(looking, ledger, wanted.run_key, restart=restart)
        except (CampaignDriftError, PublicationRefusedError, TableMissingError):
            begun = ledger.read_campaign(wanted.run_key)
            if restart or not _looked_too_early(begun, target):
                raise
            target = looking.target()
    finally:
        looking.close()
    wanted = replace(wanted, target=target)
    if shadow is None:
        return Prepared(wanted, LoadedTable(LIVE, target.relation))
    loaded = LoadedTable(shadow_of(wanted.run_key), shadow.relation)
    return Prepared(replace(wanted, shadow=shadow), loaded)


def _looked_too_early(begun: Campaign | None, target: TableIdentity) -> bool:
    published = begun is not None and begun.status is CampaignStatus.PUBLISHED
    return published and begun is not None and not begun.target.same_object(target)


def _loaded_aside(
    looking: _Looking, ledger: CampaignLedger, run_key: RunKey, *, restart: bool
) -> Shadow | None:
    name = shadow_of(run_key)
    begun = ledger.read_campaign(run_key)
    if begun is not None and begun.shadow is not None:
        return looking.found(name, begun.shadow)
    if begun is not None and not restart:
        return None
    if begun is not None:
        require_another_round(begun, ())
    made = looking.made(name, backup_name(LIVE, run_key, 1 if begun is None else begun.round + 1, _LONGEST))
    if looking.is_empty(name):
        return made
    begun = ledger.read_campaign(run_key)
    if begun is not None and begun.shadow is not None:
        return looking.found(name, begun.shadow)
    raise PublicationRefusedError(f"{name} holds rows that no campaign has loaded", next_step=_AGAIN)


class _Looking:
    """A session that looks at tables before a run, and makes them."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._server: Session = process.connect("prepare")

    def ask(self, statements: Sequence[Statement]) -> list[list[Row]]:
        try:
            return asked(self._server, statements, self._process.wait)
        except LockTimeoutError as error:
            raise DatabaseFailedError(
                "a table is held by others", next_step=_AGAIN, transient=True
            ) from error

    def target(self) -> TableIdentity:
        relation = self.relation(LIVE)
        if relation is None:
            raise TableMissingError(f"there is no table {LIVE}", next_step=_AGAIN)
        return TableIdentity(TARGET.server, TARGET.database, relation, TARGET.name)

    def relation(self, name: TableName) -> str | None:
        found = self.ask((named("find_table", table=str(name)),))[0]
        return str(found[0][0]) if found else None

    def found(self, name: TableName, shadow: Shadow) -> Shadow:
        if self.relation(name) != shadow.relation:
            raise CampaignDriftError(f"{name} is gone or was replaced", next_step=_AGAIN)
        return shadow

    def made(self, name: TableName, kept: TableName) -> Shadow:
        lock = QUERIES.statement("lock", lock=lock_key("ddl"))
        bounds = settings(timedelta(milliseconds=DATA_LOCK_WAIT_MS), IDLE_MS)
        self.ask((QUERIES.statement("begin"), bounds, lock))
        self.ask((lock_table(LIVE, "ACCESS SHARE"),))
        if self.relation(kept) is not None:
            raise PublicationRefusedError(f"there is a table {kept} already", next_step=_AGAIN)
        if self.relation(name) is None:
            self.ask((named("create_table", table=str(name)),))
        relation = self.relation(name)
        self.ask((QUERIES.statement("commit"),))
        return Shadow(str(relation), str(name), CONTRACT)

    def is_empty(self, name: TableName) -> bool:
        rows: int = self.ask((named("count_table", table=str(name)),))[0][0][0]
        return rows == 0

    def close(self) -> None:
        self._server.hang_up()
