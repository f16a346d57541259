"""What only the ledger in PostgreSQL can get wrong of a publication: whose fence is taken, and who is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from dpone_contract.errors import CampaignBusyError, PublicationBusyError, PublicationRefusedError
from dpone_runtime.adapters.sql import ledger as sql_ledger
from dpone_runtime.domain.campaign import Campaign, CampaignStatus
from dpone_runtime.services.open_campaign import open_campaign
from tests.campaign_factories import RUN_KEY
from tests.conformance.ledger_suite import claims_of, commit_all
from tests.conformance.postgres_backend import PostgresBackend, postgres_backend
from tests.conformance.postgres_tables import LIVE, PostgresTables, identifier, postgres_tables
from tests.conformance.publication_suite import ROWS, SOON, publish, publishing

__all__ = ["postgres_backend", "postgres_tables"]


@pytest.fixture
def complete(postgres_backend: PostgresBackend, postgres_tables: PostgresTables) -> Campaign:
    """A campaign of five chunks of one row each, all committed into its shadow."""
    ledger = postgres_backend.ledger
    campaign = open_campaign(ledger, postgres_tables.wanted(RUN_KEY)).campaign
    commit_all(postgres_backend, claims_of(ledger))
    postgres_tables.write(postgres_tables.swap(campaign), ROWS)
    found = ledger.read_campaign(RUN_KEY)
    assert found is not None
    return found


@pytest.fixture
def somebody(postgres_backend: PostgresBackend) -> Iterator[psycopg.Connection]:
    """A session in a transaction, which no run knows."""
    with psycopg.connect(postgres_backend.uri) as connection:
        yield connection
        connection.rollback()


@pytest.mark.parametrize("silent", [True, False])
def test_an_item_publishes_once_the_run_that_holds_the_fence_has_been_silent_for_long(
    postgres_backend, postgres_tables, complete, monkeypatch, silent
):
    monkeypatch.setattr(sql_ledger, "PUBLICATION_WAIT", SOON)
    if silent:
        monkeypatch.setattr(sql_ledger, "LEASE_TTL", timedelta())
    ledger, swap = postgres_backend.ledger, postgres_tables.swap(complete)
    with postgres_backend.second.fence(RUN_KEY) as fence:
        with pytest.raises(CampaignBusyError):
            ledger.publish(RUN_KEY, swap, publishing(ledger, []), fenced=False)
        assert fence.held() is not silent
        if silent:
            ledger.publish(RUN_KEY, swap, publishing(ledger, []), fenced=False)
    status = CampaignStatus.PUBLISHED if silent else CampaignStatus.COMPLETE
    assert status is ledger.read_campaign(RUN_KEY).status


def test_a_writer_to_the_shadow_is_waited_for_and_its_rows_are_counted(
    postgres_backend, postgres_tables, complete, somebody, monkeypatch
):
    monkeypatch.setattr(sql_ledger, "PUBLICATION_WAIT", SOON)
    ledger, swap, seen = postgres_backend.ledger, postgres_tables.swap(complete), []
    insert = sql.SQL("INSERT INTO {} VALUES ('2013-01-01', 1)").format(identifier(swap.shadow))
    somebody.execute(insert)
    with pytest.raises(PublicationBusyError):
        ledger.publish(RUN_KEY, swap, publishing(ledger, seen), fenced=False)
    assert [] == seen
    somebody.commit()
    ledger.publish(RUN_KEY, swap, publishing(ledger, seen), fenced=False)
    assert ROWS + 1 == seen[0].content.rows


@pytest.mark.parametrize("which", ["live", "shadow"])
def test_another_table_of_the_name_is_not_exchanged(
    postgres_backend, postgres_tables, complete, somebody, which
):
    table = LIVE if which == "live" else postgres_tables.swap(complete).shadow
    name = identifier(table)
    somebody.execute(sql.SQL("ALTER TABLE {} RENAME TO kept").format(name))
    somebody.execute(
        sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(name, sql.Identifier(LIVE.schema_, "kept"))
    )
    somebody.commit()
    before = postgres_tables.live(), postgres_backend.events()
    with pytest.raises(PublicationRefusedError, match="another table"):
        publish(postgres_backend.ledger, postgres_tables, complete)
    assert before == (postgres_tables.live(), postgres_backend.events())
