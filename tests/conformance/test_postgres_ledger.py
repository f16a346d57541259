"""What only the ledger in PostgreSQL can get wrong: creation, privileges, locks, plans of its queries."""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from dpone_contract.errors import (
    CampaignBusyError,
    ChunkBusyError,
    ConnectionFailedError,
    DatabaseFailedError,
    LedgerMissingError,
    OverlapError,
    SessionUnsafeError,
)
from dpone_runtime.adapters.postgres.batches import lock_key, run_batch
from dpone_runtime.adapters.postgres.completion import RowCompletion
from dpone_runtime.adapters.postgres.connect import connect
from dpone_runtime.adapters.postgres.session import PostgresSession, ledger_ddl
from dpone_runtime.adapters.sql.tally import TALLY_SLOTS, tally_slot
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.claim import ClaimVerdict
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.ports.connectors import LoadReceipt
from dpone_runtime.ports.ledger import Change
from dpone_runtime.services.chunk_claims import ChunkClaims, RenewalVerdict
from dpone_runtime.services.open_campaign import Opening, begin_round, cancel_campaign, open_campaign
from tests.campaign_factories import RUN_KEY, make_campaign, make_plan
from tests.conformance.ledger_suite import claims_of, commit, commit_all, overlapping
from tests.conformance.postgres_backend import (
    SCHEMA,
    PostgresBackend,
    opened_ledger,
    postgres_backend,
    resolved,
)
from tests.waiting import wait_until

__all__ = ["postgres_backend"]

MANY_CHUNKS = 20_000
RIGHTS = "SELECT, INSERT, UPDATE"


@pytest.fixture
def stranger(database: str) -> Iterator[str]:
    """The URI of a user of the test's database who owns nothing and may create nothing."""
    name = f"stranger_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'pw'").format(sql.Identifier(name)))
        admin.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        parts = urlsplit(database)
        yield parts._replace(netloc=f"{name}:pw@{parts.hostname}:{parts.port}").geturl()
        admin.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def name_of(uri: str) -> sql.Identifier:
    return sql.Identifier(str(urlsplit(uri).username))


def plan_of(backend: PostgresBackend, text: bytes, values: dict[str, object]) -> list[dict[str, object]]:
    """The nodes of a statement's plan."""
    (document,) = backend.admin.execute(b"EXPLAIN (FORMAT JSON) " + text, values).fetchone() or ("[]",)
    found = json.loads(document) if isinstance(document, str) else document

    def nodes(node: dict[str, object]) -> list[dict[str, object]]:
        children = node.get("Plans", [])
        assert isinstance(children, list)
        return [node, *(below for child in children for below in nodes(child))]

    return nodes(found[0]["Plan"])


# Creation.


def test_twelve_sessions_create_one_ledger_at_once(database):
    together = threading.Barrier(12)

    def create(_: int) -> bool:
        with opened_ledger(database) as ledger:
            assert not ledger.exists()
            together.wait(30)
            ledger.ensure_schema()
            return ledger.exists()

    with ThreadPoolExecutor(12) as pool:
        assert [True] * 12 == list(pool.map(create, range(12)))


def test_ensuring_twice_keeps_what_is_there(postgres_backend):
    open_campaign(postgres_backend.ledger, make_campaign())
    postgres_backend.second.ensure_schema()
    assert postgres_backend.second.read_campaign(RUN_KEY) is not None


def test_a_half_created_ledger_is_completed(postgres_backend):
    postgres_backend.run("DROP TABLE {events}")
    with pytest.raises(LedgerMissingError, match="it has no events"):
        postgres_backend.ledger.exists()
    postgres_backend.ledger.ensure_schema()
    assert postgres_backend.ledger.exists()


def test_a_ledger_without_tallies_is_refused_by_name_and_counted_by_the_next_run(postgres_backend):
    backend, ledger = postgres_backend, postgres_backend.ledger
    open_campaign(ledger, make_campaign())
    claims = claims_of(ledger)
    commit_all(backend, claims)
    begin_round(ledger, make_campaign(), reason="two differ", only=frozenset({2, 4}))
    commit(backend, claims, 2)
    backend.run("DROP TABLE {tallies}")
    with pytest.raises(LedgerMissingError, match="it has no tallies") as refusal:
        ledger.exists()
    assert "dpone state ddl MANIFEST" in (refusal.value.next_step or "")
    for _ in range(2):
        ledger.ensure_schema()
        assert {ChunkStatus.COMMITTED: 4} == dict(ledger.counts(RUN_KEY, 2))
    commit(backend, claims, 4)
    # What creates a ledger may be run again over one that is in use.
    for statement in ledger_ddl(SCHEMA):
        backend.admin.execute(statement.encode())
    assert {ChunkStatus.COMMITTED: 5} == dict(ledger.counts(RUN_KEY, 2))


def test_commits_that_are_counted_in_one_place_wait_for_one_another_and_both_count(postgres_backend):
    backend, ledger = postgres_backend, postgres_backend.ledger
    plan = make_plan(40)
    open_campaign(ledger, make_campaign(plan))
    claims = ChunkClaims(ledger, plan, max_active=None, dag_run_id=None)
    first, second = [index for index in range(1, 41) if tally_slot(index) == tally_slot(40)][:2]
    requests = [claims.claim(index).request for index in (first, second)]
    assert first != second
    with connect(resolved(backend.uri), "sink") as sink, ThreadPoolExecutor(1) as pool:
        query = backend.queries.statement
        run_batch(sink, (query("begin"), *RowCompletion(SCHEMA).complete(requests[0], LoadReceipt(1, 1, 0))))
        other = pool.submit(backend.complete, requests[1], 1, 1)
        wait_until(lambda: backend.waits_for_a_row() or other.done())
        assert not other.done()
        assert {ChunkStatus.RUNNING: 2} == dict(ledger.counts(RUN_KEY, 1))
        run_batch(sink, (query("commit"),))
        other.result(10)
    assert {ChunkStatus.COMMITTED: 2} == dict(ledger.counts(RUN_KEY, 1))


def test_what_is_counted_comes_from_many_places():
    slots = Counter(tally_slot(index) for index in range(1, 1_001))
    assert set(range(TALLY_SLOTS)) == set(slots)
    assert max(slots.values()) < 2 * 1_000 / TALLY_SLOTS
    # Items of equal ranges that go through them at one pace.
    assert 8 < len({tally_slot(1 + item * 4_096) for item in range(TALLY_SLOTS)})


def test_a_user_who_may_not_create_is_told_what_to_do(database, stranger):
    with opened_ledger(stranger, "audit") as ledger:
        with pytest.raises(LedgerMissingError) as refusal:
            ledger.ensure_schema()
        assert "dpone state ddl" in refusal.value.next_step
        assert RIGHTS in refusal.value.next_step
        assert "audit" in refusal.value.message
        assert not ledger.exists()


def test_a_ledger_that_may_not_be_read_is_told_of_as_read(database, stranger):
    with opened_ledger(database, "audit") as ledger:
        ledger.ensure_schema()
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(sql.SQL("GRANT USAGE ON SCHEMA audit TO {}").format(name_of(stranger)))
    with opened_ledger(stranger, "audit") as ledger:
        assert ledger.exists()
        with pytest.raises(DatabaseFailedError, match="while reading the ledger"):
            ledger.read_campaign(RUN_KEY)
        with pytest.raises(DatabaseFailedError, match="while writing the ledger"):
            open_campaign_of(ledger)


def open_campaign_of(ledger):
    """Ask for a transition, which begins a transaction."""
    return ledger.transition(RUN_KEY, None, lambda view: None)


def test_a_user_needs_no_more_than_the_named_rights_where_the_ledger_is_there(database, stranger):
    with opened_ledger(database, "audit") as ledger:
        ledger.ensure_schema()
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(sql.SQL("GRANT USAGE ON SCHEMA audit TO {}").format(name_of(stranger)))
        grant = f"GRANT {RIGHTS} ON ALL TABLES IN SCHEMA audit TO {{}}"
        admin.execute(sql.SQL(grant).format(name_of(stranger)))
    with opened_ledger(stranger, "audit") as ledger:
        ledger.ensure_schema()
        assert Opening.CREATED is open_campaign(ledger, make_campaign()).how
        claims = claims_of(ledger)
        assert claims.release(claims.claim(1).record, "not sent")


def test_a_user_who_may_create_in_the_schema_needs_no_more(database, stranger):
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA audit")
        admin.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA audit TO {}").format(name_of(stranger)))
    with opened_ledger(stranger, "audit") as ledger:
        ledger.ensure_schema()
        assert ledger.exists()


# Several ledgers in one database.


def test_an_overlap_is_seen_in_every_audit_schema(database):
    with opened_ledger(database, "audit_a") as one, opened_ledger(database, "audit_b") as other:
        one.ensure_schema()
        other.ensure_schema()
        open_campaign(one, make_campaign())
        with pytest.raises(OverlapError) as refusal:
            open_campaign(other, overlapping())
        assert "audit_a" in refusal.value.where


def test_a_campaign_of_the_same_key_in_another_ledger_overlaps(database):
    with opened_ledger(database, "audit_a") as one, opened_ledger(database, "audit_b") as other:
        one.ensure_schema()
        other.ensure_schema()
        open_campaign(one, make_campaign())
        with pytest.raises(OverlapError):
            open_campaign(other, make_campaign())


@pytest.mark.parametrize(
    "granted",
    [
        "",
        "GRANT USAGE ON SCHEMA closed TO {}",
        "GRANT USAGE ON SCHEMA closed TO {}; GRANT SELECT ON closed.__dpone__backfill_campaigns TO {}",
    ],
)
def test_a_ledger_that_this_user_may_not_read_is_skipped(database, stranger, granted):
    with opened_ledger(database, "closed") as ledger:
        ledger.ensure_schema()
        open_campaign(ledger, make_campaign())
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA audit")
        admin.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA audit TO {}").format(name_of(stranger)))
        if granted:
            admin.execute(sql.SQL(granted).format(*[name_of(stranger)] * granted.count("{}")))
    with opened_ledger(stranger, "audit") as ledger:
        ledger.ensure_schema()
        assert Opening.CREATED is open_campaign(ledger, overlapping()).how


# Locks.


def test_lock_keys_are_64_bit_digests_of_purpose_and_scope():
    keys = {
        lock_key(purpose, schema, run_key, index)
        for purpose in ("transition", "close", "chunk", "fence", "target")
        for schema in ("a", "b")
        for run_key in ("one", "two")
        for index in range(1, 50)
    }
    assert 5 * 2 * 2 * 49 == len(keys)
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert any(key < 0 for key in keys)
    # Pinned: two releases at work on one campaign must meet at the same lock.
    assert -1683028380908918593 == lock_key("chunk", "dpone_audit", "flights-history", 7)
    assert lock_key("chunk", "a", "b:c") != lock_key("chunk", "a:b", "c")


def test_a_negative_lock_key_finds_its_holder(postgres_backend):
    claims = claims_of(postgres_backend.ledger)
    open_campaign(postgres_backend.ledger, make_campaign())
    signs = set()
    for index in range(1, 6):
        record = claims.claim(index).record
        hold = postgres_backend.hold_chunk(record)
        signs.add(lock_key("chunk", SCHEMA, RUN_KEY, index) < 0)
        assert 1 == postgres_backend.ledger.end_holders(RUN_KEY, index)
        assert hold.ended()
    assert {True, False} == signs


def test_only_sessions_of_dpone_are_ended(postgres_backend):
    lock = lock_key("chunk", SCHEMA, RUN_KEY, 1)
    with psycopg.connect(postgres_backend.uri, application_name="psql") as foreign:
        foreign.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        assert 0 == postgres_backend.ledger.end_holders(RUN_KEY, 1)
        foreign.execute("SELECT 1")


def test_a_waiter_for_a_chunk_is_not_its_holder(postgres_backend):
    take = "SELECT pg_advisory_xact_lock(%s)"
    key = (lock_key("chunk", SCHEMA, RUN_KEY, 1),)
    waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with (
        psycopg.connect(postgres_backend.uri, application_name="psql") as holder,
        psycopg.connect(postgres_backend.uri, application_name="dpone sink") as waiter,
        ThreadPoolExecutor(1) as pool,
    ):
        holder.execute(take, key)
        taken = pool.submit(waiter.execute, take, key)
        wait_until(lambda: postgres_backend.admin.execute(waiting).rowcount == 1)
        assert 0 == postgres_backend.ledger.end_holders(RUN_KEY, 1)
        holder.rollback()
        assert 1 == taken.result(30).rowcount


SLOW_RENEWALS = """
CREATE OR REPLACE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow_renewal AFTER UPDATE ON {chunks} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.revision = NEW.revision) EXECUTE FUNCTION wait_at_commit()
"""
"""A renewal has written the new expiry, and its COMMIT waits until somebody gives lock 42 back."""


@pytest.mark.parametrize("index, expected", [(1, ClaimVerdict.BUSY), (2, ClaimVerdict.NOT_NOW)])
def test_a_claim_sees_a_renewal_that_is_being_committed(postgres_backend, index, expected):
    """Else it takes a lease that was renewed in time, or begins one chunk too many."""
    open_campaign(postgres_backend.ledger, make_campaign())
    record = claims_of(postgres_backend.ledger).claim(1).record
    postgres_backend.run(SLOW_RENEWALS)
    waiting = "SELECT FROM pg_locks WHERE NOT granted"
    with psycopg.connect(postgres_backend.uri) as gate, ThreadPoolExecutor(2) as pool:
        gate.execute("SELECT pg_advisory_xact_lock(42)")
        # Two seconds are left of the lease: the renewal comes in time, its COMMIT does not.
        postgres_backend.run(
            "ALTER TABLE {chunks} DISABLE TRIGGER slow_renewal;"
            "UPDATE {chunks} SET lease_expires_at = clock_timestamp() + interval '2 s';"
            "ALTER TABLE {chunks} ENABLE TRIGGER slow_renewal"
        )
        renewal = pool.submit(postgres_backend.ledger.renew, record)
        lapsed = "SELECT FROM {chunks} WHERE lease_expires_at <= clock_timestamp()"
        wait_until(lambda: postgres_backend.run(waiting).rowcount == 1, what="the renewal's COMMIT")
        wait_until(lambda: postgres_backend.run(lapsed).rowcount == 1, what="the lapse")
        claim = pool.submit(claims_of(postgres_backend.second, max_active=1).claim, index)
        wait_until(lambda: claim.done() or postgres_backend.run(waiting).rowcount == 2, what="the claim")
        gate.commit()
        assert (True, expected) == (renewal.result(30), claim.result(30).verdict)
    postgres_backend.run("DROP FUNCTION wait_at_commit() CASCADE")


def test_a_fence_knows_that_its_session_was_ended(postgres_backend):
    with postgres_backend.ledger.fence(RUN_KEY) as fence:
        assert fence.held()
        postgres_backend.admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpone fence'"
        )
        assert not fence.held()
    with postgres_backend.second.fence(RUN_KEY):
        pass


def test_a_transaction_pooler_is_refused_by_name(postgres_backend, monkeypatch):
    backends = iter(range(10))
    monkeypatch.setattr("dpone_runtime.adapters.postgres.session._backend", lambda _: next(backends))
    with (
        pytest.raises(SessionUnsafeError, match="transaction-pooling"),
        postgres_backend.ledger.fence(RUN_KEY),
    ):
        pytest.fail("a fence through a pooler")


def test_protocol_transactions_bound_their_waits_and_leave_the_session_as_it_was(postgres_backend):
    session = PostgresSession(resolved(postgres_backend.uri), SCHEMA)
    show = session.queries.statement("clock").__class__(
        "show",
        "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'), "
        "current_setting('synchronous_commit'), current_setting('statement_timeout')",
        {},
    )
    inside = session.batch((*session.begin_statements(timedelta(seconds=15)), show))[-1]
    session.batch((session.queries.statement("rollback"),))
    assert [("15s", "10s", "on", "0")] == inside
    assert [("0", "0", "on", "0")] == session.batch((show,))[-1]
    session.close()


@pytest.fixture
def impatient(monkeypatch):
    """Locks are waited for no longer than a moment."""
    for wait in ("TRANSITION_WAIT", "OPENING_WAIT", "RENEWAL_WAIT"):
        monkeypatch.setattr(f"dpone_runtime.adapters.sql.ledger.{wait}", timedelta(milliseconds=200))


@contextmanager
def held(backend: PostgresBackend, text: str) -> Iterator[None]:
    """Hold what a statement locks, as a forgotten session does."""
    with backend.admin.transaction():
        backend.run(text)
        yield


def test_a_transition_that_is_locked_out_is_busy_and_leaves_nothing(postgres_backend, impatient):
    campaign = open_campaign(postgres_backend.ledger, make_campaign()).campaign
    claims = claims_of(postgres_backend.ledger)
    with held(postgres_backend, f"SELECT pg_advisory_xact_lock({lock_key('transition', SCHEMA, RUN_KEY)})"):
        with pytest.raises(ChunkBusyError):
            claims.claim(1)
        with pytest.raises(CampaignBusyError):
            open_campaign(
                postgres_backend.ledger, make_campaign(make_plan(run_key=RUN_KEY), status=campaign.status)
            ) if False else postgres_backend.ledger.open_campaign(RUN_KEY, campaign.target, lambda view: None)
    assert claims.claim(1).request is not None


def test_a_row_that_is_locked_is_busy_for_its_end_and_no_loss_for_its_lease(postgres_backend, impatient):
    open_campaign(postgres_backend.ledger, make_campaign())
    claims = claims_of(postgres_backend.ledger)
    record = claims.claim(1).record
    with held(postgres_backend, "SELECT FROM {chunks} FOR UPDATE"):
        assert RenewalVerdict.RENEWED is claims.renew(record)
        with pytest.raises(ChunkBusyError):
            claims.release(record, "not sent")
    assert claims.release(record, "not sent")


# Plans.


def test_no_statement_of_the_protocol_reads_all_chunks(postgres_backend):
    run_key, backend = RUN_KEY, postgres_backend
    open_campaign(backend.ledger, make_campaign(make_plan(MANY_CHUNKS)))
    backend.run(
        "INSERT INTO {chunks} (run_key, chunk_index, status, revision, round, attempt, owner, lease_expires_at, "
        "idempotency_key, lower_bound, upper_bound) SELECT %(run_key)s, i, "
        "CASE WHEN i %% 1000 = 0 THEN 'running' WHEN i %% 900 = 0 THEN 'failed' ELSE 'committed' END, "
        "2, 1, 1, 'o', CASE WHEN i %% 1000 = 0 THEN clock_timestamp() + interval '1 min' END, 'k', 'a', 'b' "
        "FROM generate_series(1, 20000) i",
        run_key=run_key,
    )
    backend.run("ANALYZE {chunks}")
    claim = dict.fromkeys(
        [
            "status",
            "idempotency_key",
            "lower_bound",
            "upper_bound",
            "dag_run_id",
            "event_kind",
            "event_detail",
            "event_owner",
        ],
        "x",
    )
    common = {"run_key": run_key, "chunk_index": 1000, "revision": 2, "round": 1, "attempt": 1, "owner": "o"}
    further = {
        "lease_ttl": timedelta(seconds=90),
        "rows_extracted": 1,
        "rows_loaded": 1,
        "content_digest": None,
        "slot": 0,
    }
    values = {
        **claim,
        **common,
        **further,
        "detail": "x",
        "error_code": None,
        "error_message": None,
        "has_finished": True,
        "count": 5,
        "first": 10,
        "last": 20,
    }
    names = [
        "read_chunk",
        "count_live",
        "insert_chunk",
        "claim_chunk",
        "end_chunk",
        "guard_chunk",
        "complete_chunk",
        "renew_chunk",
        "claimed_chunks",
        "list_failures",
        "committed_chunks",
    ]
    for name in names:
        statement = backend.queries.statement(name)
        scans = [
            node
            for node in plan_of(backend, statement.text.encode(), values)
            if node.get("Relation Name") == "__dpone__backfill_chunks"
        ]
        assert all(node["Node Type"] != "Seq Scan" for node in scans), name
        assert scans, name


# Errors.


def test_a_server_that_is_away_is_a_connection_that_failed():
    with (
        pytest.raises(ConnectionFailedError) as failure,
        opened_ledger("postgresql://dpone:hunter2@127.0.0.1:1/x"),
    ):
        pytest.fail("connected")
    assert "hunter2" not in str(failure.value)
    assert failure.value.__cause__ is None


def test_a_refused_row_of_the_ledger_writes_no_event(postgres_backend):
    open_campaign(postgres_backend.ledger, make_campaign())
    postgres_backend.run("ALTER TABLE {chunks} ADD CHECK (chunk_index < 3)")
    with pytest.raises(Exception, match="violates check constraint"):
        claims_of(postgres_backend.ledger).claim(3)
    assert [EventKind.OPENED] == [event.kind for event in postgres_backend.events()]
    assert claims_of(postgres_backend.ledger).claim(1).request is not None


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the operating system has no such bound")
def test_a_peer_that_acknowledges_nothing_is_given_up_before_a_lease_lapses(postgres_backend):
    with psycopg.connect(postgres_backend.uri) as plain:
        assert 0 == unacknowledged_ms(plain)
    session = postgres_backend.ledger._session
    assert 40_000 == unacknowledged_ms(session._connection)
    with postgres_backend.ledger.fence(RUN_KEY) as fence:
        assert 40_000 == unacknowledged_ms(fence._connection)


def unacknowledged_ms(connection) -> int:
    """Ask the operating system how long a session waits for an acknowledgement."""
    with socket.socket(fileno=os.dup(connection.fileno())) as found:
        return found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


# Overlaps with what another ledger keeps.


def test_a_cancelled_campaign_of_a_foreign_ledger_is_in_the_way_and_is_never_closed(database):
    with opened_ledger(database, "audit_a") as one, opened_ledger(database, "audit_b") as other:
        one.ensure_schema()
        other.ensure_schema()
        campaign = open_campaign(one, make_campaign()).campaign
        cancel_campaign(one, campaign, reason="stop", by=None)
        with pytest.raises(OverlapError, match="cancel_requested"):
            open_campaign(other, overlapping())
        assert CampaignStatus.CANCEL_REQUESTED is one.read_campaign(RUN_KEY).status
        (seen,) = other.others(overlapping().run_key, make_campaign().target)
        assert (True, "audit_a") == (seen.foreign, seen.ledger)


def test_a_cancelled_campaign_of_the_same_key_elsewhere_closes_nothing_here(database):
    """One cancelled campaign in each of two ledgers; what the opener closes are those of its own, and never itself."""
    with opened_ledger(database, "audit_a") as one, opened_ledger(database, "audit_b") as other:
        for ledger in (one, other):
            ledger.ensure_schema()
            ledger.transition(RUN_KEY, None, lambda view: created_as_cancelled())
        with pytest.raises(OverlapError, match="cancel_requested"):
            open_campaign(other, make_campaign(), reason="go on")
        for ledger in (one, other):
            assert CampaignStatus.CANCEL_REQUESTED is ledger.read_campaign(RUN_KEY).status


def created_as_cancelled() -> Change:
    """The row of a campaign that was cancelled before the other ledger had one of its key."""
    cancelled = make_campaign(status=CampaignStatus.CANCEL_REQUESTED)
    return Change(Event(RUN_KEY, EventKind.OPENED, 1, 1), campaign=cancelled)
