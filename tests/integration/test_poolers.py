"""Behind a proxy that pools transactions a run of mode internal is refused by name, and mapped items load as ever."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

from dpone_contract.errors import SessionUnsafeError
from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.connections import ResolvedConnection
from tests.integration.campaigns import History, mapped_process
from tests.integration.fault_lane import FREEZE
from tests.integration.pgbouncer import PGBOUNCER, PgBouncer
from tests.integration.publications import require_live, swapped
from tests.integration.transaction_pooler import TransactionPooler

# Handed out in turn, a session changes from one transaction to the next; handed out last in first out, only under load.
POLICIES = {"in turn": True, "last in first out": False}


REAL = "PgBouncer"


class Pooler(Protocol):
    """A proxy before a test's database."""

    @property
    def uri(self) -> str: ...


@pytest.fixture(params=[*POLICIES, REAL])
def pooler(history: History, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pooler]:
    """A proxy of few sessions before the history's server: the stand-in always, the real one where it is installed."""
    if request.param != REAL:
        with TransactionPooler(history.uri, in_turn=POLICIES[request.param]) as found:
            yield found
        return
    if PGBOUNCER is None:
        pytest.skip("pgbouncer is not on the path; the stand-in was tested")
    folder = tmp_path / "pgbouncer"
    folder.mkdir()
    with PgBouncer(history.uri, folder) as real:
        yield real


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
        assert not session.ledger_tables()
        # What psycopg sends after a pipeline whose results are late: a Flush, for which a proxy keeps the session.
        session._connection.pgconn.send_flush_request()
        session._connection.pgconn.flush()
        with pytest.raises(SessionUnsafeError), session.fence(1, "history"):
            pytest.fail("a fence through a pooler")
        session.close()


def test_an_internal_run_is_refused_by_name(history: History, pooler: Pooler) -> None:
    told = history.run("run", history.manifest(), environ={"DPONE_CONN_TARGET_DB": pooler.uri})
    assert (2, "DPONE_BACKFILL_SESSION_UNSAFE") == (told.exit_code, told.error_code), told.output
    assert "transaction-pooling proxy" in told.stderr
    assert "  at: connection target_db\n" in told.stderr
    assert "use a mapped mode" in told.stderr
    assert "Traceback" not in told.output
    assert not history.has_ledger_rows()


def test_a_source_behind_it_hinders_nobody(history: History, pooler: Pooler) -> None:
    told = history.run("run", history.manifest(), environ={"DPONE_CONN_SOURCE_DB": pooler.uri})
    assert 0 == told.exit_code, told.output
    history.require_loaded(3)


def test_a_mapped_item_loads_through_it(history: History, pooler: Pooler) -> None:
    environ = {"DPONE_CONN_SOURCE_DB": pooler.uri, "DPONE_CONN_TARGET_DB": pooler.uri}
    told = history.start_item(mapped_process(3), environ=environ).finish()
    assert 0 == told.exit_code, told.output
    history.require_loaded(3)


def test_many_items_share_few_sessions(history: History, pooler: Pooler) -> None:
    """Five items at once, each with three sessions of its own, over a pool of eight."""
    environ = {"DPONE_CONN_SOURCE_DB": pooler.uri, "DPONE_CONN_TARGET_DB": pooler.uri}
    process = mapped_process(10, items=5, max_active=5)
    runs = [history.start_item(process, index, environ=environ) for index in range(5)]
    assert [0] * 5 == [run.finish(120).exit_code for run in runs]
    history.require_loaded(10)


def test_items_publish_through_it(history: History, pooler: Pooler) -> None:
    environ = {"DPONE_CONN_SOURCE_DB": pooler.uri, "DPONE_CONN_TARGET_DB": pooler.uri}
    process = mapped_process(items=5, max_active=5, text=swapped(5))
    runs = [history.start_item(process, index, environ=environ) for index in range(5)]
    finished = [run.finish(120) for run in runs]
    assert [0] * 5 == [done.exit_code for done in finished], [done.output for done in finished]
    require_live(history, 5)


def test_ending_a_lapsed_attempt_hits_no_other_client(history: History, pooler: Pooler) -> None:
    """The session of a frozen lane is ended; other clients of the same proxy, in transactions of their own, are not."""
    environ = {"DPONE_CONN_SOURCE_DB": pooler.uri, "DPONE_CONN_TARGET_DB": pooler.uri}
    process = mapped_process(3)
    frozen = history.start_item(process, environ=environ, faults=[("copying", 2, FREEZE)])
    frozen.wait_for("copying", 2)
    frozen.signal(signal.SIGSTOP)
    others = [
        psycopg.connect(pooler.uri, autocommit=True, prepare_threshold=None, application_name="dpone other")
        for _ in range(3)
    ]
    sessions = []
    for other in others:
        other.execute("BEGIN")
        sessions.append(backend(other))
    history.lapse_leases()
    told = history.start_item(process, environ=environ).finish(120)
    assert 0 == told.exit_code, told.output
    assert sessions == [backend(other) for other in others]
    for other in others:
        other.execute("COMMIT")
        other.close()
    frozen.kill()
    history.require_loaded(3)
    assert 2 == history.chunks()[2][1]
