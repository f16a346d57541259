"""Behind a proxy that pools transactions a run of mode internal is refused by name, and mapped items load as ever."""

from collections.abc import Iterator

import psycopg
import pytest

from dpone_contract.errors import SessionUnsafeError
from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.connections import ResolvedConnection
from tests.integration.campaigns import History, mapped_process
from tests.integration.transaction_pooler import TransactionPooler

# Handed out in turn, a session changes from one transaction to the next; handed out last in first out, only under load.
POLICIES = {"in turn": True, "last in first out": False}


@pytest.fixture(params=POLICIES.values(), ids=POLICIES)
def pooler(history: History, request: pytest.FixtureRequest) -> Iterator[TransactionPooler]:
    """A proxy of few sessions before the history's server."""
    with TransactionPooler(history.uri, in_turn=request.param) as found:
        yield found


def backend(connection: psycopg.Connection) -> object:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row and row[0]


@pytest.mark.parametrize("in_turn", POLICIES.values(), ids=POLICIES)
def test_the_stand_in_shares_sessions_by_transaction(history: History, *, in_turn: bool) -> None:
    with (
        TransactionPooler(history.uri, in_turn=in_turn, size=2) as pooler,
        psycopg.connect(pooler.uri, autocommit=True, prepare_threshold=None) as one,
        psycopg.connect(pooler.uri, autocommit=True, prepare_threshold=None) as other,
        psycopg.connect(pooler.uri, autocommit=True, prepare_threshold=None) as third,
    ):
        seen = {backend(connection) for connection in (one, other, third) for _ in range(3)}
        assert len(seen) <= 2
        one.execute("BEGIN")
        assert 1 == len({backend(one) for _ in range(3)})
        assert backend(one) not in {backend(connection) for connection in (other, third)}
        one.execute("ROLLBACK")


@pytest.mark.parametrize("in_turn", POLICIES.values(), ids=POLICIES)
def test_two_sessions_are_enough_to_be_seen(history: History, *, in_turn: bool) -> None:
    with TransactionPooler(history.uri, in_turn=in_turn, size=2) as pooler:
        session = PostgresSession(
            ResolvedConnection("target_db", pooler.uri, "test", "DPONE_CONN_TARGET_DB"), "dpone_audit"
        )
        assert not session.ledger_exists()
        # What psycopg sends after a pipeline whose results are late: a Flush, for which a proxy keeps the session.
        session._connection.pgconn.send_flush_request()
        session._connection.pgconn.flush()
        with pytest.raises(SessionUnsafeError), session.fence(1, "history"):
            pytest.fail("a fence through a pooler")
        session.close()


def test_an_internal_run_is_refused_by_name(history: History, pooler: TransactionPooler) -> None:
    told = history.run("run", history.manifest(), environ={"DPONE_CONN_TARGET_DB": pooler.uri})
    assert (2, "DPONE_BACKFILL_SESSION_UNSAFE") == (told.exit_code, told.error_code), told.output
    assert "transaction-pooling proxy" in told.stderr
    assert "  at: connection target_db\n" in told.stderr
    assert "use a mapped mode" in told.stderr
    assert "Traceback" not in told.output
    assert not history.has_ledger_rows()


def test_a_source_behind_it_hinders_nobody(history: History, pooler: TransactionPooler) -> None:
    told = history.run("run", history.manifest(), environ={"DPONE_CONN_SOURCE_DB": pooler.uri})
    assert 0 == told.exit_code, told.output
    history.require_loaded(3)


def test_a_mapped_item_loads_through_it(history: History, pooler: TransactionPooler) -> None:
    environ = {"DPONE_CONN_SOURCE_DB": pooler.uri, "DPONE_CONN_TARGET_DB": pooler.uri}
    told = history.start_item(mapped_process(3), environ=environ).finish()
    assert 0 == told.exit_code, told.output
    history.require_loaded(3)
