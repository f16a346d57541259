"""A live table in a real database with the shadows of its campaigns, as the suite of publications drives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from dpone_contract.chunk_plan import RunKey
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.connect import connect
from dpone_runtime.adapters.postgres.shadow import make_shadow, postgres_backup_name, postgres_shadow_name
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.publication import Swap
from dpone_runtime.ports.ledger import CampaignLedger
from tests.campaign_factories import TARGET, make_campaign, make_plan
from tests.conformance.postgres_backend import opened_ledger, resolved

LIVE = TableName.model_validate({"schema": "live tables", "name": "flights %"})
FREE = TableName.model_validate({"schema": "live tables", "name": "free"})
"""A name that nothing has."""


class PostgresTables:
    """The tables, over one session of the test's own; every ledger that it gives has another."""

    def __init__(self, uri: str, stack: ExitStack) -> None:
        self._uri, self._stack = uri, stack
        self._admin = stack.enter_context(psycopg.connect(uri, autocommit=True))
        self._admin.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(LIVE.schema_)))
        self._admin.execute(sql.SQL("CREATE TABLE {} (flight_date date, n integer)").format(identifier(LIVE)))
        # One that may be built once the shadow is loaded.
        self._admin.execute(sql.SQL("CREATE INDEX ON {} (n)").format(identifier(LIVE)))
        stack.callback(
            self._admin.execute, sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(LIVE.schema_))
        )

    def wanted(self, run_key: RunKey) -> Campaign:
        with connect(resolved(self._uri), "prepare") as session:
            shadow = make_shadow(session, LIVE, run_key, "flight_date", FREE)
        target = replace(TARGET, relation=self.live(), name=str(LIVE))
        return make_campaign(make_plan(run_key=run_key), target=target, shadow=shadow)

    def swap(self, campaign: Campaign) -> Swap:
        assert campaign.shadow is not None
        return Swap(
            live=LIVE,
            shadow=postgres_shadow_name(LIVE, campaign.run_key),
            backup=postgres_backup_name(LIVE, campaign.run_key, campaign.round),
            live_relation=campaign.target.relation,
            shadow_relation=campaign.shadow.relation,
            contract=campaign.shadow.contract,
            retain_backup=True,
        )

    def write(self, swap: Swap, rows: int) -> None:
        insert = sql.SQL("INSERT INTO {} SELECT date '2013-01-01' + n, n FROM generate_series(1, {}) n")
        # Without parameters, so that a % of the name is none.
        self._admin.execute(insert.format(identifier(swap.shadow), sql.Literal(rows)))

    def live(self) -> str:
        found = self._admin.execute(
            "SELECT %s::regclass::oid::text", [identifier(LIVE).as_string(self._admin)]
        ).fetchone()
        assert found is not None
        return str(found[0])

    def ledgers(self, count: int) -> list[CampaignLedger]:
        return [self._stack.enter_context(opened_ledger(self._uri)) for _ in range(count)]


def identifier(table: TableName) -> sql.Identifier:
    """Quote a table's name."""
    return sql.Identifier(table.schema_, table.name)


@pytest.fixture
def postgres_tables(shared_database: str) -> Iterator[PostgresTables]:
    """An empty live table, dropped afterwards with everything beside it."""
    with ExitStack() as stack:
        yield PostgresTables(shared_database, stack)
