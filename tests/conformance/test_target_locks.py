"""What a run over a folder holds in its target's database, and what ledgers beside the target make of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from dpone_contract.errors import CampaignBusyError
from dpone_runtime.adapters.postgres import target_locks as target_locks_module
from dpone_runtime.adapters.postgres.batches import lock_key
from dpone_runtime.adapters.postgres.completion import local_data_key, local_token_key
from dpone_runtime.adapters.postgres.target_locks import PostgresTargetLocks
from dpone_runtime.adapters.sql import ledger as sql_ledger_module
from dpone_runtime.domain.local_run import new_local_run
from dpone_runtime.services.open_campaign import Opening, open_campaign
from tests.campaign_factories import RUN_KEY, TARGET, make_campaign
from tests.conformance.postgres_backend import PostgresBackend, postgres_backend, resolved
from tests.waiting import wait_until

__all__ = ["postgres_backend"]

WAITING = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
TAKE = "SELECT pg_advisory_xact_lock(%s)"
SHARE = "SELECT pg_advisory_xact_lock_shared(%s)"
SOON = timedelta(milliseconds=200)


@pytest.fixture
def locks(shared_database: str) -> Iterator[PostgresTargetLocks]:
    opened = PostgresTargetLocks(resolved(shared_database), "dpone_audit")
    yield opened
    opened.close()


def free(uri: str, key: int) -> bool:
    with psycopg.connect(uri) as other:
        row = other.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)).fetchone()
        return bool(row and row[0])


def test_a_run_has_target_and_token_until_it_ends(shared_database, locks):
    run = new_local_run(TARGET.relation)
    keys = (lock_key("target", TARGET.relation), local_token_key(run))
    with locks.fence(RUN_KEY, run) as fence:
        assert fence.held()
        assert [False, False] == [free(shared_database, key) for key in keys]
        # Its own lanes are not kept out.
        assert free(shared_database, local_data_key(TARGET.relation))
    assert [True, True] == [free(shared_database, key) for key in keys]


def test_a_run_whose_session_was_ended_knows_it(shared_database, locks):
    run = new_local_run(TARGET.relation)
    with locks.fence(RUN_KEY, run) as fence, psycopg.connect(shared_database, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpone fence'"
        )
        wait_until(lambda: not fence.held())
        wait_until(lambda: free(shared_database, local_token_key(run)))


def test_an_opening_of_a_moment_is_waited_for(shared_database, locks):
    def take() -> bool:
        with locks.fence(RUN_KEY, new_local_run(TARGET.relation)) as fence:
            return fence.held()

    with (
        psycopg.connect(shared_database) as opener,
        psycopg.connect(shared_database, autocommit=True) as admin,
        ThreadPoolExecutor(1) as pool,
    ):
        opener.execute(TAKE, (lock_key("target", TARGET.relation),))
        taken = pool.submit(take)
        wait_until(lambda: admin.execute(WAITING).rowcount == 1)
        opener.rollback()
        assert taken.result(30)


def test_a_session_that_cannot_be_ended_is_not_passed_by(shared_database, locks, monkeypatch):
    """One that is not dpone's is left alone, and nothing begins beside it."""
    monkeypatch.setattr(target_locks_module, "LEFTOVER_WAIT", SOON)
    with psycopg.connect(shared_database, application_name="psql") as left:
        left.execute(SHARE, (local_data_key(TARGET.relation),))
        fence = locks.fence(RUN_KEY, new_local_run(TARGET.relation))
        with pytest.raises(CampaignBusyError, match="earlier run"), fence:
            pytest.fail("it began beside somebody's transaction")
        left.execute("SELECT 1")
    assert free(shared_database, lock_key("target", TARGET.relation))


def test_no_campaign_is_opened_beside_a_target_that_a_run_has(
    postgres_backend: PostgresBackend, locks, monkeypatch
):
    monkeypatch.setattr(sql_ledger_module, "OPENING_WAIT", SOON)
    with locks.fence(RUN_KEY, new_local_run(TARGET.relation)):
        with pytest.raises(CampaignBusyError) as refusal:
            open_campaign(postgres_backend.ledger, make_campaign())
        assert "local_file" in refusal.value.next_step
    assert Opening.CREATED is open_campaign(postgres_backend.ledger, make_campaign()).how


def test_an_opening_waits_for_what_a_run_has_left_at_work(postgres_backend: PostgresBackend):
    """Its rows would come in on top of those that are loaded next."""
    with psycopg.connect(postgres_backend.uri) as left, ThreadPoolExecutor(1) as pool:
        left.execute(SHARE, (local_data_key(TARGET.relation),))
        opening = pool.submit(open_campaign, postgres_backend.ledger, make_campaign())
        wait_until(lambda: postgres_backend.admin.execute(WAITING).rowcount == 1)
        assert not opening.done()
        left.rollback()
        assert Opening.CREATED is opening.result(30).how
