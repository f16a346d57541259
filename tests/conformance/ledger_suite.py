"""What the port `CampaignLedger` means, written once; a backend brings a `LedgerBackend` and runs every test."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from dpone_contract.errors import (
    CampaignBusyError,
    CampaignDriftError,
    CampaignStoppedError,
    ChunkLeaseLostError,
    MappingStateUnsupportedError,
    OverlapError,
)
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, TableIdentity, Window, moved
from dpone_runtime.domain.capabilities import require_mapped_execution
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus, failed, released
from dpone_runtime.domain.claim import ClaimVerdict, LedgerView
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.lease import LEASE_TTL
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.ledger import CampaignLedger, Change, OpeningView, StaleRevisionError
from dpone_runtime.services.chunk_claims import ChunkClaims, Claim, RenewalVerdict
from dpone_runtime.services.open_campaign import (
    Opening,
    cancel_campaign,
    close_cancelled,
    complete_campaign,
    open_campaign,
)
from tests.campaign_factories import RUN_KEY, TARGET, make_campaign, make_plan
from tests.waiting import wait_until

PATIENCE_SECONDS = 30


class Hold(ABC):
    """A data transaction that holds a chunk's lock."""

    @abstractmethod
    def ended(self) -> bool:
        """Whether the ledger has ended it."""


class LedgerBackend(ABC):
    """What the suite needs beyond the port; `ledger` is one coordinator's, `second` another's over the same state."""

    ledger: CampaignLedger
    second: CampaignLedger

    def on_another_target(self) -> CampaignLedger:
        """Give a ledger for a campaign of another target, where that is another one."""
        return self.second

    @abstractmethod
    def expire_lease(self, record: ChunkRecord) -> None:
        """Let a lease lapse without waiting."""

    @abstractmethod
    def pass_time(self) -> None:
        """Let a moment pass."""

    @abstractmethod
    def complete(self, request: LoadRequest, rows_extracted: int, rows_loaded: int) -> None:
        """Do what a sink does at the end of its data transaction; ChunkLeaseLostError where a guard refuses."""

    @abstractmethod
    def hold_chunk(self, record: ChunkRecord) -> Hold:
        """Take a chunk's lock as a sink does."""

    @abstractmethod
    def events(self) -> list[Event]:
        """Give the whole history in order."""


class LedgerConformance:
    """The meaning of the port. A subclass gives the fixture `backend`, its ledger created and empty."""

    # Arranging.

    @pytest.fixture
    def ledger(self, backend: LedgerBackend) -> CampaignLedger:
        return backend.ledger

    @pytest.fixture
    def campaign(self, ledger: CampaignLedger) -> Campaign:
        """A campaign of five chunks, open, nothing claimed."""
        return open_campaign(ledger, make_campaign()).campaign

    @pytest.fixture
    def claims(self, ledger: CampaignLedger, campaign: Campaign) -> ChunkClaims:
        return claims_of(ledger)

    # Claiming.

    def test_a_first_claim_inserts_the_row(self, ledger, claims):
        assert ledger.read_chunk(RUN_KEY, 1) is None
        record = claimed(claims, 1)
        found = ledger.read_chunk(RUN_KEY, 1)
        assert (1, 1, 1) == (found.revision, found.attempt, found.round)
        assert (ChunkStatus.RUNNING, record.owner) == (found.status, found.owner)
        assert ("2013-01-01", "2013-01-02", record.idempotency_key) == (
            found.lower,
            found.upper,
            found.idempotency_key,
        )
        assert abs(LEASE_TTL - (found.lease_expires_at - found.started_at)) < timedelta(seconds=1)

    def test_every_claim_counts_an_attempt_under_a_fresh_owner(self, ledger, claims):
        first = claimed(claims, 1)
        assert claims.release(first, "not sent")
        second = claimed(claims, 1)
        assert (3, 2) == (second.revision, second.attempt)
        assert first.owner != second.owner

    def test_a_live_lease_is_busy(self, backend, claims):
        record = claimed(claims, 1)
        assert ClaimVerdict.BUSY is claims_of(backend.second).claim(1).verdict
        assert record.owner == backend.ledger.read_chunk(RUN_KEY, 1).owner

    def test_a_lapsed_chunk_is_claimed_anew(self, backend, claims):
        old = claimed(claims, 1)
        backend.expire_lease(old)
        assert {1: ChunkStatus.LEASE_EXPIRED} == backend.ledger.chunk_statuses(RUN_KEY)
        new = claimed(claims_of(backend.second), 1)
        assert (2, 2) == (new.attempt, new.revision)
        assert {1: ChunkStatus.RUNNING} == backend.ledger.chunk_statuses(RUN_KEY)

    def test_the_holder_of_a_lapsed_chunk_is_ended_before_it_is_claimed(self, backend, claims):
        old = claimed(claims, 1)
        hold = backend.hold_chunk(old)
        backend.expire_lease(old)
        other = claims_of(backend.second)
        assert ClaimVerdict.BUSY is other.claim(1).verdict
        assert hold.ended()
        assert old.owner == backend.ledger.read_chunk(RUN_KEY, 1).owner
        assert "claimed" == eventually(lambda: other.claim(1).verdict is ClaimVerdict.CLAIM and "claimed")

    def test_end_holders_ends_the_holder_of_one_chunk_alone(self, backend, claims):
        first, second = claimed(claims, 1), claimed(claims, 2)
        hold, kept = backend.hold_chunk(first), backend.hold_chunk(second)
        assert 1 == backend.ledger.end_holders(RUN_KEY, 1)
        assert hold.ended()
        assert not kept.ended()
        assert eventually(lambda: backend.ledger.end_holders(RUN_KEY, 1) == 0)

    def test_holders_may_be_ended_inside_a_decision(self, backend, ledger, claims):
        hold = backend.hold_chunk(claimed(claims, 1))
        ended: list[int] = []

        def decide(view: LedgerView) -> Change:
            ended.append(ledger.end_holders(RUN_KEY, 1))
            row = released(view.chunk)
            return Change(event_of(row, EventKind.RELEASED), chunk=row)

        assert ledger.transition(RUN_KEY, 1, decide) is not None
        assert ([1], True) == (ended, hold.ended())
        assert ChunkStatus.PENDING is ledger.read_chunk(RUN_KEY, 1).status

    def test_holders_are_ended_by_the_owner_of_the_row_alone(self, backend, claims):
        old = claimed(claims, 1)
        backend.expire_lease(old)
        new = claimed(claims_of(backend.second), 1)
        hold = backend.hold_chunk(new)
        assert 0 == claims.end_holders(old)
        assert not hold.ended()
        assert 1 == claims.end_holders(new)
        assert hold.ended()

    def test_max_active_counts_live_leases_alone(self, backend, claims):
        limited = claims_of(backend.second, max_active=2)
        first, second = claimed(claims, 1), claimed(claims, 2)
        assert ClaimVerdict.NOT_NOW is limited.claim(3).verdict
        assert backend.ledger.read_chunk(RUN_KEY, 3) is None
        assert claims.fail(first, "DPONE_BACKFILL_CHUNK_FAILED", "no")
        claimed(limited, 3)
        assert ClaimVerdict.NOT_NOW is limited.claim(4).verdict
        backend.expire_lease(second)
        claimed(limited, 4)

    def test_max_active_is_of_one_campaign(self, backend, ledger, claims):
        claimed(claims, 1)
        other = make_plan(run_key="another")
        open_campaign(ledger, make_campaign(other, target=replace(TARGET, relation="9")))
        claimed(ChunkClaims(ledger, other, max_active=1, dag_run_id=None), 1)

    def test_a_chunk_committed_in_this_round_is_skipped(self, backend, claims):
        commit(backend, claims, 1)
        assert ClaimVerdict.COMMITTED is claims_of(backend.second).claim(1).verdict

    def test_a_chunk_committed_in_an_earlier_round_is_claimed(self, backend, ledger):
        open_campaign(ledger, make_campaign(templated=True))
        claims = claims_of(ledger)
        commit_all(backend, claims)
        begin_second_round(ledger)
        assert {} == dict(ledger.counts(RUN_KEY, 2))
        record = claimed(claims, 1)
        assert (2, 2, 3) == (record.round, record.attempt, record.revision)
        found = ledger.read_chunk(RUN_KEY, 1)
        assert (None, None, None) == (found.rows_loaded, found.rows_extracted, found.finished_at)

    def test_a_chunk_of_no_campaign_is_not_claimed(self, ledger):
        assert ClaimVerdict.STOPPED is claims_of(ledger).claim(1).verdict
        assert ledger.read_chunk(RUN_KEY, 1) is None

    @pytest.mark.parametrize(
        "status", [CampaignStatus.CANCEL_REQUESTED, CampaignStatus.HALTED, CampaignStatus.CLOSED]
    )
    def test_a_stopped_campaign_lets_no_chunk_begin(self, ledger, claims, status):
        set_status(ledger, status)
        assert ClaimVerdict.STOPPED is claims.claim(1).verdict
        assert ledger.read_chunk(RUN_KEY, 1) is None

    def test_two_claims_of_one_chunk_have_one_winner(self, backend, campaign):
        together = threading.Barrier(2)

        def claim(ledger: CampaignLedger) -> ClaimVerdict:
            together.wait(PATIENCE_SECONDS)
            return claims_of(ledger).claim(1).verdict

        with ThreadPoolExecutor(2) as pool:
            verdicts = list(pool.map(claim, (backend.ledger, backend.second)))
        assert sorted([ClaimVerdict.CLAIM, ClaimVerdict.BUSY]) == sorted(verdicts)
        assert 1 == backend.ledger.read_chunk(RUN_KEY, 1).attempt

    # Ending an attempt.

    def test_a_release_gives_the_chunk_back(self, ledger, claims):
        record = claimed(claims, 1)
        assert claims.release(record, "not sent")
        found = ledger.read_chunk(RUN_KEY, 1)
        assert (ChunkStatus.PENDING, 2, None, None) == (
            found.status,
            found.revision,
            found.owner,
            found.lease_expires_at,
        )

    def test_a_failure_is_kept_with_its_reason(self, ledger, claims):
        record = claimed(claims, 1)
        assert claims.fail(record, "DPONE_BACKFILL_CHUNK_FAILED", "the target refused it")
        found = ledger.read_chunk(RUN_KEY, 1)
        assert (ChunkStatus.FAILED, 2, None) == (found.status, found.revision, found.lease_expires_at)
        assert ("DPONE_BACKFILL_CHUNK_FAILED", "the target refused it") == (
            found.error_code,
            found.error_message,
        )
        assert found.finished_at is not None

    @pytest.mark.parametrize("change", [{"owner": "somebody-else"}, {"revision": 7}])
    def test_only_the_exact_attempt_ends_its_chunk(self, backend, ledger, claims, change):
        record = claimed(claims, 1)
        before = ledger.read_chunk(RUN_KEY, 1), backend.events()
        stranger = replace(record, **change)
        assert not claims.release(stranger, "not mine")
        assert not claims.fail(stranger, "DPONE_BACKFILL_CHUNK_FAILED", "not mine")
        assert before == (ledger.read_chunk(RUN_KEY, 1), backend.events())

    def test_what_has_ended_is_not_ended_twice(self, backend, ledger, claims):
        record = commit(backend, claims, 1)
        before = ledger.read_chunk(RUN_KEY, 1), backend.events()
        assert not claims.fail(record, "DPONE_BACKFILL_CHUNK_FAILED", "late")
        assert not claims.release(record, "late")
        assert before == (ledger.read_chunk(RUN_KEY, 1), backend.events())

    # Renewing.

    def test_a_renewal_moves_the_expiry_alone(self, backend, ledger, claims):
        record = claimed(claims, 1)
        before, history = ledger.read_chunk(RUN_KEY, 1), backend.events()
        assert ledger.renew(record)
        after = ledger.read_chunk(RUN_KEY, 1)
        assert before == replace(after, lease_expires_at=before.lease_expires_at)
        assert before.lease_expires_at <= after.lease_expires_at
        assert history == backend.events()

    @pytest.mark.parametrize("change", [{"owner": "somebody-else"}, {"revision": 7}])
    def test_only_the_exact_attempt_renews(self, ledger, claims, change):
        record = claimed(claims, 1)
        before = ledger.read_chunk(RUN_KEY, 1)
        assert not ledger.renew(replace(record, **change))
        assert before == ledger.read_chunk(RUN_KEY, 1)

    def test_a_lapsed_lease_is_never_renewed(self, backend, ledger, claims):
        record = claimed(claims, 1)
        backend.expire_lease(record)
        before = ledger.read_chunk(RUN_KEY, 1)
        assert not ledger.renew(record)
        assert before == ledger.read_chunk(RUN_KEY, 1)
        assert {ChunkStatus.LEASE_EXPIRED: 1} == dict(ledger.counts(RUN_KEY, 1))
        assert RenewalVerdict.LOST is claims.renew(record)

    def test_a_commit_ends_renewals_and_is_no_loss(self, backend, claims):
        record = commit(backend, claims, 1)
        assert RenewalVerdict.COMMITTED is claims.renew(record)
        assert RenewalVerdict.LOST is claims.renew(replace(record, owner="somebody-else"))

    def test_a_released_or_failed_chunk_is_not_renewed(self, ledger, claims):
        first, second = claimed(claims, 1), claimed(claims, 2)
        claims.release(first, "not sent")
        claims.fail(second, "DPONE_BACKFILL_CHUNK_FAILED", "no")
        assert [False, False] == [ledger.renew(first), ledger.renew(second)]

    # Completing.

    def test_a_completion_keeps_owner_and_rows(self, backend, ledger, claims):
        claim = claims.claim(1)
        backend.complete(claim.request, 12, 11)
        found = ledger.read_chunk(RUN_KEY, 1)
        assert (ChunkStatus.COMMITTED, 2, claim.record.owner) == (found.status, found.revision, found.owner)
        assert (12, 11, None) == (found.rows_extracted, found.rows_loaded, found.lease_expires_at)
        assert found.finished_at is not None
        assert found == claims.read_back(claim.record)

    @pytest.mark.parametrize("change", [{"owner": "somebody-else"}, {"revision": 2}, {"round": 2}])
    def test_only_the_exact_attempt_completes(self, backend, ledger, claims, change):
        claim = claims.claim(1)
        before = ledger.read_chunk(RUN_KEY, 1), backend.events()
        with pytest.raises(ChunkLeaseLostError):
            backend.complete(replace(claim.request, **change), 1, 1)
        assert before == (ledger.read_chunk(RUN_KEY, 1), backend.events())

    def test_a_replaced_attempt_cannot_complete(self, backend, ledger, claims):
        old = claims.claim(1)
        backend.expire_lease(old.record)
        new = claims_of(backend.second).claim(1)
        with pytest.raises(ChunkLeaseLostError):
            backend.complete(old.request, 1, 1)
        backend.complete(new.request, 2, 2)
        assert 2 == ledger.read_chunk(RUN_KEY, 1).rows_loaded

    def test_a_completion_after_its_lease_lapsed_stands_where_nobody_took_the_chunk(self, backend, claims):
        claim = claims.claim(1)
        backend.expire_lease(claim.record)
        backend.complete(claim.request, 1, 1)
        assert claims.committed(claim.record)

    def test_nothing_completes_twice(self, backend, claims):
        claim = claims.claim(1)
        backend.complete(claim.request, 1, 1)
        with pytest.raises(ChunkLeaseLostError):
            backend.complete(claim.request, 1, 1)

    def test_nothing_completes_in_a_closed_campaign(self, backend, ledger, claims):
        claim = claims.claim(1)
        set_status(ledger, CampaignStatus.CLOSED)
        with pytest.raises(ChunkLeaseLostError):
            backend.complete(claim.request, 1, 1)
        assert ChunkStatus.RUNNING is ledger.read_chunk(RUN_KEY, 1).status

    @pytest.mark.parametrize("status", [CampaignStatus.CANCEL_REQUESTED, CampaignStatus.HALTED])
    def test_chunks_at_work_may_complete_in_a_stopped_campaign(self, backend, ledger, claims, status):
        claim = claims.claim(1)
        set_status(ledger, status)
        backend.complete(claim.request, 1, 1)
        assert frozenset({1}) == ledger.committed(RUN_KEY, 1, 1, 5)

    def test_nothing_completes_in_another_round_than_that_of_its_claim(self, backend, ledger):
        open_campaign(ledger, make_campaign(templated=True))
        claims = claims_of(ledger)
        claim = claims.claim(1)
        set_status(ledger, CampaignStatus.COMPLETE)
        begin_second_round(ledger)
        for request in (claim.request, replace(claim.request, round=2)):
            with pytest.raises(ChunkLeaseLostError):
                backend.complete(request, 1, 1)
        assert frozenset() == ledger.committed(RUN_KEY, 1, 1, 5) | ledger.committed(RUN_KEY, 2, 1, 5)

    # Revisions, events, decisions.

    def test_a_stale_chunk_transition_writes_neither_row_nor_event(self, backend, ledger, claims):
        old = claimed(claims, 1)
        claims.release(old, "not sent")
        new = claimed(claims, 1)
        before = ledger.read_chunk(RUN_KEY, 1), backend.events()
        for row in (
            released(old),
            failed(old, "DPONE_INTERNAL", "late", new.started_at),
            replace(old, revision=2),
        ):
            change = Change(event_of(row, EventKind.RELEASED), chunk=row)
            with pytest.raises(StaleRevisionError):
                ledger.transition(RUN_KEY, 1, lambda view, change=change: change)
        assert before == (ledger.read_chunk(RUN_KEY, 1), backend.events())
        assert new.owner == before[0].owner

    def test_a_stale_campaign_transition_writes_neither_row_nor_event(self, backend, ledger, campaign):
        set_status(ledger, CampaignStatus.HALTED)
        before = ledger.read_campaign(RUN_KEY), backend.events()
        stale = moved(campaign, CampaignStatus.CANCEL_REQUESTED)
        change = Change(Event(RUN_KEY, EventKind.CANCEL_REQUESTED, 1, stale.revision), campaign=stale)
        with pytest.raises(StaleRevisionError):
            ledger.transition(RUN_KEY, None, lambda view: change)
        with pytest.raises(StaleRevisionError):
            ledger.open_campaign(RUN_KEY, TARGET, lambda view: change)
        assert before == (ledger.read_campaign(RUN_KEY), backend.events())

    def test_a_change_of_both_rows_is_written_whole_or_not_at_all(self, backend, ledger, campaign, claims):
        record = claimed(claims, 1)
        claims.release(record, "not sent")
        before = ledger.read_campaign(RUN_KEY), ledger.read_chunk(RUN_KEY, 1), backend.events()
        halted = moved(campaign, CampaignStatus.HALTED)
        stale = released(record)
        change = Change(event_of(stale, EventKind.HALTED), campaign=halted, chunk=stale)
        with pytest.raises(StaleRevisionError):
            ledger.transition(RUN_KEY, 1, lambda view: change)
        assert before == (ledger.read_campaign(RUN_KEY), ledger.read_chunk(RUN_KEY, 1), backend.events())

    def test_a_chunk_that_has_no_row_cannot_be_ended(self, backend, ledger, claims):
        record = claimed(claims, 1)
        never = replace(released(record), chunk_index=4, revision=1)
        with pytest.raises(StaleRevisionError):
            ledger.transition(
                RUN_KEY, 4, lambda view: Change(event_of(never, EventKind.RELEASED), chunk=never)
            )
        assert ledger.read_chunk(RUN_KEY, 4) is None

    def test_a_decision_for_nothing_writes_nothing(self, backend, ledger, campaign):
        before = ledger.read_campaign(RUN_KEY), backend.events()
        assert ledger.transition(RUN_KEY, 1, lambda view: None) is None
        assert ledger.open_campaign(RUN_KEY, TARGET, lambda view: None) is None
        assert before == (ledger.read_campaign(RUN_KEY), backend.events())

    def test_a_decision_that_raises_leaves_no_lock_and_nothing_written(self, backend, ledger, campaign):
        def refuse(view: object) -> None:
            raise OverlapError("no")

        before = backend.events()
        for attempt in (
            lambda: ledger.transition(RUN_KEY, 1, refuse),
            lambda: ledger.open_campaign(RUN_KEY, TARGET, refuse),
            lambda: ledger.close_campaign(RUN_KEY, refuse),
        ):
            with pytest.raises(OverlapError):
                attempt()
            # Another session needs the same locks.
            in_time(lambda: backend.second.transition(RUN_KEY, 1, lambda view: None))
            in_time(lambda: backend.second.open_campaign(RUN_KEY, TARGET, lambda view: None))
            assert before == backend.events()
        assert ledger.transition(RUN_KEY, 1, lambda view: None) is None

    def test_transitions_of_one_campaign_are_one_at_a_time(self, backend, ledger, campaign):
        entered, leave = threading.Event(), threading.Event()

        def wait(view: LedgerView) -> None:
            entered.set()
            assert leave.wait(PATIENCE_SECONDS)

        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(lambda: ledger.transition(RUN_KEY, 1, wait))
            assert entered.wait(PATIENCE_SECONDS)
            second = pool.submit(lambda: claims_of(backend.second).claim(1))
            with pytest.raises(TimeoutError):
                second.result(0.3)
            leave.set()
            first.result(PATIENCE_SECONDS)
            assert ClaimVerdict.CLAIM is second.result(PATIENCE_SECONDS).verdict

    def test_a_decision_sees_campaign_chunk_live_leases_and_clock(self, backend, ledger, claims):
        first, second = claimed(claims, 1), claimed(claims, 2)
        backend.expire_lease(second)
        views: list[LedgerView] = []
        ledger.transition(RUN_KEY, 1, views.append)
        (view,) = views
        assert ledger.read_campaign(RUN_KEY) == view.campaign
        assert first.owner == view.chunk.owner
        assert view.chunk.lease_live(view.now) is (view.live_leases == 1)
        assert timedelta(0) <= view.now - view.chunk.started_at

    def test_every_transition_leaves_one_event_in_order(self, backend, ledger, campaign, claims):
        first = claimed(claims, 1)
        claims.release(first, "not sent")
        second = claims.claim(1)
        backend.complete(second.request, 3, 3)
        third = claimed(claims, 2)
        claims.fail(third, "DPONE_BACKFILL_CHUNK_FAILED", "no")
        cancel_campaign(ledger, campaign, reason="wrong day", by="ops")
        close_cancelled(ledger, campaign, "closed")
        owner = second.record.owner
        assert [
            Event(RUN_KEY, EventKind.OPENED, 1, 1),
            Event(RUN_KEY, EventKind.CLAIMED, 1, 1, 1, 1, first.owner),
            Event(RUN_KEY, EventKind.RELEASED, 1, 2, 1, 1, first.owner, "not sent"),
            Event(RUN_KEY, EventKind.CLAIMED, 1, 3, 1, 2, owner),
            Event(RUN_KEY, EventKind.COMMITTED, 1, 4, 1, 2, owner, "3 rows"),
            Event(RUN_KEY, EventKind.CLAIMED, 1, 1, 2, 1, third.owner),
            Event(RUN_KEY, EventKind.FAILED, 1, 2, 2, 1, third.owner, "DPONE_BACKFILL_CHUNK_FAILED"),
            Event(RUN_KEY, EventKind.CANCEL_REQUESTED, 1, 2, detail="wrong day"),
            Event(RUN_KEY, EventKind.CLOSED, 1, 3, detail="closed"),
        ] == backend.events()

    # Reading.

    def test_absence_of_state_is_never_done(self, ledger):
        assert ledger.read_campaign(RUN_KEY) is None
        assert ledger.read_chunk(RUN_KEY, 1) is None
        assert frozenset() == ledger.committed(RUN_KEY, 1, 1, 5)
        assert {} == dict(ledger.counts(RUN_KEY, 1))
        assert {} == dict(ledger.chunk_statuses(RUN_KEY))
        assert () == ledger.failures(RUN_KEY, 5)

    def test_views_show_each_chunk_as_it_is(self, backend, ledger, claims):
        commit(backend, claims, 1)
        claimed(claims, 2)
        backend.expire_lease(ledger.read_chunk(RUN_KEY, 2))
        claimed(claims, 3)
        claims.fail(claimed(claims, 4), "DPONE_BACKFILL_CHUNK_FAILED", "no")
        statuses = ledger.chunk_statuses(RUN_KEY)
        assert [1, 2, 3, 4] == list(statuses)
        assert [
            ChunkStatus.COMMITTED,
            ChunkStatus.LEASE_EXPIRED,
            ChunkStatus.RUNNING,
            ChunkStatus.FAILED,
        ] == list(statuses.values())
        assert {
            ChunkStatus.COMMITTED: 1,
            ChunkStatus.LEASE_EXPIRED: 1,
            ChunkStatus.RUNNING: 1,
            ChunkStatus.FAILED: 1,
        } == dict(ledger.counts(RUN_KEY, 1))

    def test_failures_come_by_index_and_are_bounded(self, ledger, claims):
        for index in (5, 2, 3):
            claims.fail(claimed(claims, index), "DPONE_BACKFILL_CHUNK_FAILED", f"no {index}")
        assert [2, 3] == [record.chunk_index for record in ledger.failures(RUN_KEY, 2)]
        assert ["no 2", "no 3", "no 5"] == [record.error_message for record in ledger.failures(RUN_KEY, 9)]

    def test_committed_is_of_one_round_and_range(self, backend, ledger):
        open_campaign(ledger, make_campaign(templated=True))
        claims = claims_of(ledger)
        commit_all(backend, claims)
        assert frozenset({2, 3, 4}) == ledger.committed(RUN_KEY, 1, 2, 4)
        begin_second_round(ledger)
        commit(backend, claims, 3)
        assert frozenset({3}) == ledger.committed(RUN_KEY, 2, 1, 5)
        assert frozenset({1, 2, 4, 5}) == ledger.committed(RUN_KEY, 1, 1, 5)
        assert ChunkStatus.COMMITTED is ledger.chunk_statuses(RUN_KEY)[3]
        assert ChunkStatus.PENDING is ledger.chunk_statuses(RUN_KEY)[4]
        assert {ChunkStatus.COMMITTED: 1} == dict(ledger.counts(RUN_KEY, 2))

    # Opening.

    def test_a_campaign_is_created_then_found(self, ledger):
        created = open_campaign(ledger, make_campaign())
        found = open_campaign(ledger, make_campaign())
        assert (Opening.CREATED, Opening.FOUND) == (created.how, found.how)
        stored = ledger.read_campaign(RUN_KEY)
        assert make_campaign() == replace(stored, created_at=None, updated_at=None)
        assert stored.created_at is not None

    def test_a_complete_campaign_has_nothing_to_do(self, backend, ledger, campaign, claims):
        commit_all(backend, claims)
        assert CampaignStatus.COMPLETE is ledger.read_campaign(RUN_KEY).status
        history = backend.events()
        assert Opening.COMPLETE is open_campaign(ledger, make_campaign()).how
        assert history == backend.events()
        assert EventKind.COMPLETED is history[-1].kind

    def test_completion_needs_every_chunk(self, ledger, campaign):
        assert CampaignStatus.OPEN is complete_campaign(ledger, campaign, 4).status

    def test_a_complete_campaign_of_a_templated_window_begins_a_round(self, backend, ledger):
        open_campaign(ledger, make_campaign(templated=True))
        commit_all(backend, claims_of(ledger))
        opened = begin_second_round(ledger)
        assert (2, CampaignStatus.OPEN) == (opened.campaign.round, opened.campaign.status)
        assert EventKind.ROUND_BEGUN is backend.events()[-1].kind
        assert Opening.FOUND is open_campaign(ledger, make_campaign(templated=True)).how

    def test_a_stopped_campaign_is_resumed_with_a_reason_alone(self, backend, ledger, campaign):
        cancel_campaign(ledger, campaign, reason="wrong day", by="ops")
        with pytest.raises(CampaignStoppedError, match="wrong day"):
            open_campaign(ledger, make_campaign())
        resumed = open_campaign(ledger, make_campaign(), reason="the right day after all")
        assert (Opening.RESUMED, CampaignStatus.OPEN, 1) == (
            resumed.how,
            resumed.campaign.status,
            resumed.campaign.round,
        )
        assert (
            Event(RUN_KEY, EventKind.RESUMED, 1, 3, detail="the right day after all") == backend.events()[-1]
        )

    @pytest.mark.parametrize(
        "change",
        [
            {"plan_hash": "sha256:" + "e" * 64},
            {"config_hash": "sha256:" + "e" * 64},
            {"chunks_total": 6},
            {"source": TableIdentity("server-9", "shop", "16400", "public.flights")},
            {"source": TableIdentity("server-1", "shop", "9", "public.flights")},
            {"target": TableIdentity("server-2", "other", "16500", "public.flights")},
            {"target": TableIdentity("server-2", "warehouse", "9", "public.flights")},
        ],
    )
    def test_a_campaign_that_has_drifted_is_refused(self, backend, ledger, campaign, change):
        before = backend.events()
        with pytest.raises(CampaignDriftError):
            open_campaign(ledger, make_campaign(**change))
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        with pytest.raises(CampaignDriftError):
            open_campaign(ledger, make_campaign(**change), reason="go on")
        assert [*before, Event(RUN_KEY, EventKind.CANCEL_REQUESTED, 1, 2, detail="stop")] == backend.events()

    def test_a_campaign_that_another_opener_created_meanwhile_is_compared(self, backend, monkeypatch):
        def created_after_the_look(run_key: str) -> None:
            monkeypatch.undo()
            open_campaign(backend.second, make_campaign())

        monkeypatch.setattr(backend.ledger, "read_campaign", created_after_the_look)
        with pytest.raises(CampaignDriftError):
            open_campaign(backend.ledger, make_campaign(config_hash="sha256:" + "e" * 64))
        assert [EventKind.OPENED] == [event.kind for event in backend.events()]

    def test_a_renamed_table_is_the_same_table(self, ledger, campaign):
        renamed = replace(TARGET, name="public.flights_2013")
        assert Opening.FOUND is open_campaign(ledger, make_campaign(target=renamed)).how

    def test_an_overlapping_campaign_is_refused(self, backend, ledger, campaign):
        before = backend.events()
        with pytest.raises(OverlapError, match=RUN_KEY):
            open_campaign(ledger, overlapping())
        assert before == backend.events()
        assert ledger.read_campaign(overlapping().run_key) is None

    @pytest.mark.parametrize(
        "change",
        [
            {"window": Window("flight_date", "date", "2013-01-06", "2013-02-01")},
            {"target": replace(TARGET, relation="9")},
            {"target": replace(TARGET, database="other")},
        ],
    )
    def test_adjacent_windows_and_other_targets_do_not_overlap(self, ledger, campaign, change):
        assert Opening.CREATED is open_campaign(ledger, replace(overlapping(), **change)).how

    @pytest.mark.parametrize(
        "status", [CampaignStatus.COMPLETE, CampaignStatus.PUBLISHED, CampaignStatus.CLOSED]
    )
    def test_a_campaign_that_is_over_overlaps_nothing(self, ledger, campaign, status):
        set_status(ledger, status)
        assert Opening.CREATED is open_campaign(ledger, overlapping()).how

    def test_a_resumption_is_an_opening_and_looks_for_overlaps(self, ledger, campaign):
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        open_campaign(ledger, overlapping())
        with pytest.raises(OverlapError, match="another"):
            open_campaign(ledger, make_campaign(), reason="go on")
        assert CampaignStatus.CLOSED is ledger.read_campaign(RUN_KEY).status

    def test_an_opener_closes_an_overlapping_cancelled_campaign(self, ledger, campaign):
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        assert Opening.CREATED is open_campaign(ledger, overlapping()).how
        closed = ledger.read_campaign(RUN_KEY)
        assert CampaignStatus.CLOSED is closed.status
        assert overlapping().run_key in closed.reason

    def test_a_cancelled_campaign_with_a_chunk_at_work_is_not_closed(self, backend, ledger, campaign, claims):
        claim = claims.claim(1)
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        with pytest.raises(OverlapError, match="1 chunks at work"):
            open_campaign(ledger, overlapping())
        assert CampaignStatus.CANCEL_REQUESTED is ledger.read_campaign(RUN_KEY).status
        backend.complete(claim.request, 1, 1)
        assert Opening.CREATED is open_campaign(ledger, overlapping()).how

    def test_only_a_cancelled_campaign_without_a_chunk_at_work_is_closed(
        self, backend, ledger, campaign, claims
    ):
        close_cancelled(ledger, campaign, "never asked for")
        assert CampaignStatus.OPEN is ledger.read_campaign(RUN_KEY).status
        record = claimed(claims, 1)
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        close_cancelled(ledger, campaign, "too early")
        assert CampaignStatus.CANCEL_REQUESTED is ledger.read_campaign(RUN_KEY).status
        backend.expire_lease(record)
        close_cancelled(ledger, campaign, "gone")
        assert CampaignStatus.CLOSED is ledger.read_campaign(RUN_KEY).status

    def test_two_openers_of_one_campaign_create_it_once(self, backend):
        together = threading.Barrier(2)

        def opener(ledger: CampaignLedger) -> Opening:
            together.wait(PATIENCE_SECONDS)
            return open_campaign(ledger, make_campaign()).how

        with ThreadPoolExecutor(2) as pool:
            hows = list(pool.map(opener, (backend.ledger, backend.second)))
        assert sorted([Opening.CREATED, Opening.FOUND]) == sorted(hows)
        assert [EventKind.OPENED] == [event.kind for event in backend.events()]

    def test_two_openers_of_overlapping_campaigns_leave_one(self, backend):
        together = threading.Barrier(2)

        def opener(of: tuple[CampaignLedger, Campaign]) -> bool:
            together.wait(PATIENCE_SECONDS)
            try:
                open_campaign(*of)
            except OverlapError:
                return False
            return True

        pairs = ((backend.ledger, make_campaign()), (backend.second, overlapping()))
        with ThreadPoolExecutor(2) as pool:
            assert [False, True] == sorted(pool.map(opener, pairs))

    def test_an_opening_sees_the_others_on_its_target(self, backend, ledger, campaign, claims):
        claimed(claims, 1)
        views: list[OpeningView] = []
        ledger.open_campaign(overlapping().run_key, TARGET, views.append)
        ledger.open_campaign(RUN_KEY, TARGET, views.append)
        (other,) = views[0].others
        assert (RUN_KEY, 1, False) == (other.campaign.run_key, other.live_leases, other.foreign)
        assert other.ledger
        assert (None, ()) == (views[0].campaign, views[1].others)
        assert RUN_KEY == views[1].campaign.run_key

    @pytest.mark.parametrize("status", [CampaignStatus.COMPLETE, CampaignStatus.PUBLISHED])
    def test_an_append_over_a_finished_campaign_needs_a_reason(self, backend, ledger, campaign, status):
        set_status(ledger, status)
        before = backend.events()
        with pytest.raises(OverlapError, match="load them twice"):
            open_campaign(ledger, appending("2013-01-05", "2013-02-01"))
        assert before == backend.events()
        opened = open_campaign(ledger, appending("2013-01-05", "2013-02-01"), reason="deleted by hand")
        assert Opening.CREATED is opened.how
        assert "deleted by hand" == backend.events()[-1].detail

    def test_an_append_that_adjoins_what_is_loaded_is_opened(self, ledger, campaign):
        set_status(ledger, CampaignStatus.COMPLETE)
        assert Opening.CREATED is open_campaign(ledger, appending("2013-01-06", "2013-02-01")).how

    def test_an_append_over_a_finished_campaign_elsewhere_is_opened(self, ledger, campaign):
        set_status(ledger, CampaignStatus.COMPLETE)
        elsewhere = replace(appending("2013-01-01", "2013-02-01"), target=replace(TARGET, relation="9"))
        assert Opening.CREATED is open_campaign(ledger, elsewhere).how

    @pytest.mark.parametrize(
        "lower, upper, free",
        [
            ("2013-01-01", "2013-01-02", False),
            ("2013-01-02", "2013-01-03", False),
            ("2013-01-03", "2013-01-04", True),
            ("2013-01-04", "2013-01-05", False),
            ("2013-01-05", "2013-01-06", True),
            ("2012-12-01", "2013-02-01", False),
        ],
    )
    def test_an_append_meets_only_what_a_closed_campaign_has_committed(
        self, backend, ledger, campaign, claims, lower, upper, free
    ):
        for index in (1, 2, 4):
            backend.complete(claims.claim(index).request, 1, 1)
        claimed(claims, 5)
        set_status(ledger, CampaignStatus.CLOSED)
        if free:
            assert Opening.CREATED is open_campaign(ledger, appending(lower, upper)).how
        else:
            with pytest.raises(OverlapError, match="closed"):
                open_campaign(ledger, appending(lower, upper))

    def test_an_opening_sees_what_others_have_committed_where_it_asks(
        self, backend, ledger, campaign, claims
    ):
        for index in (1, 2, 4):
            backend.complete(claims.claim(index).request, 1, 1)
        views: list[OpeningView] = []
        ledger.open_campaign(overlapping().run_key, TARGET, views.append, with_committed=True)
        set_status(ledger, CampaignStatus.COMPLETE)
        ledger.open_campaign(overlapping().run_key, TARGET, views.append, with_committed=True)
        ledger.open_campaign(overlapping().run_key, TARGET, views.append)
        ranges = [("2013-01-01", "2013-01-03"), ("2013-01-04", "2013-01-05")]
        assert ranges == [(window.lower, window.upper) for window in views[0].others[0].committed]
        assert (campaign.window,) == views[1].others[0].committed
        assert () == views[2].others

    def test_a_round_that_has_not_come_so_far_leaves_the_last_one_committed(
        self, backend, ledger, campaign, claims
    ):
        """Of the first round all is in the target, also where the second one has claimed or failed."""
        for index in range(1, 6):
            backend.complete(claims.claim(index).request, 1, 1)
        set_status(ledger, CampaignStatus.COMPLETE)
        assert Opening.NEW_ROUND is open_campaign(ledger, make_campaign(templated=True)).how
        assert 2 == claimed(claims_of(ledger), 3).round
        set_status(ledger, CampaignStatus.CLOSED)
        for day in (3, 5):
            with pytest.raises(OverlapError, match="closed"):
                open_campaign(ledger, appending(f"2013-01-0{day}", f"2013-01-0{day + 1}"))

    def test_an_append_never_begins_a_second_round(self, backend, ledger):
        wanted = make_campaign(templated=True, inner_mode="incremental_append")
        open_campaign(ledger, wanted)
        set_status(ledger, CampaignStatus.COMPLETE)
        before = backend.events()
        for reason in (None, "again"):
            assert Opening.COMPLETE is open_campaign(ledger, wanted, reason=reason).how
        assert before == backend.events()
        assert 1 == ledger.read_campaign(RUN_KEY).round

    def test_a_reason_to_resume_an_append_is_none_to_load_what_another_has_loaded_since(
        self, backend, ledger
    ):
        wanted = make_campaign(inner_mode="incremental_append")
        campaign = open_campaign(ledger, wanted).campaign
        backend.complete(claims_of(ledger).claim(1).request, 1, 1)
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        later = appending("2013-01-03", "2013-01-06")
        assert Opening.CREATED is open_campaign(ledger, later).how
        set_status(ledger, CampaignStatus.COMPLETE, later.run_key)
        with pytest.raises(OverlapError, match="load them twice") as refused:
            open_campaign(ledger, wanted, reason="go on")
        assert "another backfill_id" in refused.value.next_step
        assert CampaignStatus.CLOSED is ledger.read_campaign(RUN_KEY).status

    def test_an_append_is_not_resumed_over_what_an_older_campaign_has_loaded_since(self, backend, ledger):
        """The older one was closed when this one began, and took the window back."""
        older, wanted = appending("2013-01-03", "2013-01-06"), make_campaign(inner_mode="incremental_append")
        cancel_campaign(ledger, open_campaign(ledger, older).campaign, reason="stop", by=None)
        backend.pass_time()
        cancel_campaign(ledger, open_campaign(ledger, wanted).campaign, reason="stop", by=None)
        backend.pass_time()
        assert Opening.RESUMED is open_campaign(ledger, older, reason="go on").how
        set_status(ledger, CampaignStatus.COMPLETE, older.run_key)
        with pytest.raises(OverlapError, match="load them twice"):
            open_campaign(ledger, wanted, reason="go on")
        assert CampaignStatus.CLOSED is ledger.read_campaign(RUN_KEY).status

    def test_an_append_that_began_with_a_reason_is_resumed(self, backend, ledger):
        earlier = open_campaign(ledger, appending("2013-01-03", "2013-01-06")).campaign
        set_status(ledger, CampaignStatus.COMPLETE, earlier.run_key)
        backend.pass_time()
        wanted = make_campaign(inner_mode="incremental_append")
        campaign = open_campaign(ledger, wanted, reason="deleted by hand").campaign
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        assert Opening.RESUMED is open_campaign(ledger, wanted, reason="go on").how

    def test_a_cancelled_append_is_resumed_and_not_stopped_by_itself(self, backend, ledger):
        wanted = make_campaign(inner_mode="incremental_append")
        campaign = open_campaign(ledger, wanted).campaign
        backend.complete(claims_of(ledger).claim(1).request, 1, 1)
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        assert Opening.RESUMED is open_campaign(ledger, wanted, reason="go on").how

    # Closing and fencing.

    def test_closing_ends_the_holders_of_every_chunk_of_the_campaign(self, backend, ledger, campaign, claims):
        records = [claimed(claims, index) for index in (1, 4)]
        holds = [backend.hold_chunk(record) for record in records]
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        for record in records:
            backend.expire_lease(record)
        close_cancelled(ledger, campaign, "gone")
        assert [True, True] == [hold.ended() for hold in holds]
        assert CampaignStatus.CLOSED is ledger.read_campaign(RUN_KEY).status

    def test_a_fence_is_exclusive_and_given_back(self, backend):
        with backend.ledger.fence(RUN_KEY) as fence:
            assert fence.held()
            with pytest.raises(CampaignBusyError), backend.second.fence(RUN_KEY):
                pytest.fail("two runs hold one fence")
            with backend.on_another_target().fence("another-campaign"):
                pass
            assert fence.held()
        with backend.second.fence(RUN_KEY) as fence:
            assert fence.held()

    def test_a_fence_is_given_back_by_a_run_that_raises(self, backend):
        with pytest.raises(OverlapError), backend.ledger.fence(RUN_KEY):
            raise OverlapError("no")
        with backend.second.fence(RUN_KEY):
            pass

    # Capabilities: what is missing is refused, not skipped.

    def test_mapped_execution_is_allowed_or_refused_by_name(self, ledger):
        capabilities = ledger.capabilities()
        needed = ("distributed_lock", "distributed_chunk_lease", "compare_and_set_completion")
        missing = [name for name in needed if not getattr(capabilities, name)]
        if not missing:
            assert ledger.authority()["dialect"] == capabilities.dialect
            require_mapped_execution(capabilities)
            return
        with pytest.raises(MappingStateUnsupportedError) as refusal:
            require_mapped_execution(capabilities)
        assert all(name in refusal.value.message for name in missing)

    def test_the_ledger_exists_once_it_was_ensured(self, ledger):
        ledger.ensure_schema()
        assert ledger.exists()


def claims_of(ledger: CampaignLedger, max_active: int | None = None) -> ChunkClaims:
    """The claims of a run on the campaign of the suite."""
    return ChunkClaims(ledger, make_plan(), max_active=max_active, dag_run_id="scheduled__2013")


def claimed(claims: ChunkClaims, index: int) -> ChunkRecord:
    """Claim a chunk that is free."""
    claim = claims.claim(index)
    assert ClaimVerdict.CLAIM is claim.verdict
    return _record(claim)


def commit(backend: LedgerBackend, claims: ChunkClaims, index: int) -> ChunkRecord:
    """Claim and complete a chunk; give the claimed row."""
    claim = claims.claim(index)
    assert claim.request is not None
    backend.complete(claim.request, 1, 1)
    return _record(claim)


def commit_all(backend: LedgerBackend, claims: ChunkClaims) -> None:
    """Complete all five chunks, and record the campaign as complete."""
    for index in range(1, 6):
        commit(backend, claims, index)
    campaign = backend.ledger.read_campaign(RUN_KEY)
    assert campaign is not None
    complete_campaign(backend.ledger, campaign, 5)


def begin_second_round(ledger: CampaignLedger):
    """Open a complete templated campaign again."""
    opened = open_campaign(ledger, make_campaign(templated=True))
    assert Opening.NEW_ROUND is opened.how
    return opened


def set_status(ledger: CampaignLedger, status: CampaignStatus, run_key: str = RUN_KEY) -> None:
    """Move a campaign to a state by a bare transition."""

    def decide(view: LedgerView) -> Change:
        assert view.campaign is not None
        after = moved(view.campaign, status)
        return Change(Event(after.run_key, EventKind.HALTED, after.round, after.revision), campaign=after)

    ledger.transition(run_key, None, decide)


def overlapping() -> Campaign:
    """Another campaign on the same target whose window shares a day with the suite's."""
    plan = make_plan(run_key="another")
    return make_campaign(plan, window=Window("flight_date", "date", "2013-01-05", "2013-02-01"))


def appending(lower: str, upper: str) -> Campaign:
    """Another campaign on the same target, which appends."""
    window = Window("flight_date", "date", lower, upper)
    return replace(overlapping(), window=window, inner_mode="incremental_append")


def event_of(record: ChunkRecord, kind: EventKind) -> Event:
    """An event of a chunk's row."""
    return Event(
        RUN_KEY, kind, record.round, record.revision, record.chunk_index, record.attempt, record.owner
    )


def in_time(act: Callable[[], object]) -> None:
    """Require an act on another session to end soon: nobody left a lock behind."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(act).result(5)


def eventually(look: Callable[[], object]) -> object:
    """Look until something true is there; an ended session needs a moment to be gone."""
    found: list[object] = []
    wait_until(lambda: bool(found.append(look()) or found[-1]))
    return found[-1]


def _record(claim: Claim) -> ChunkRecord:
    assert claim.record is not None
    return claim.record
