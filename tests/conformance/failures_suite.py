"""What the port means for chunks that failed or lapsed: how they are listed and counted, and when they halt their campaign."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from dpone_contract.errors import CampaignStoppedError, OverlapError
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.claim import ClaimVerdict
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.lease import LEASE_TTL
from dpone_runtime.ports.ledger import CampaignLedger, FailureGroup
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import Opening, begin_round, cancel_campaign, open_campaign
from tests.campaign_factories import RUN_KEY, TARGET, make_campaign, make_plan
from tests.conformance.ledger_suite import PATIENCE_SECONDS, claimed, commit, commit_all, overlapping

CHUNKS = 5
FAILED, DIFFER = "DPONE_BACKFILL_CHUNK_FAILED", "DPONE_BACKFILL_ROWS_DIFFER"


def halting(ledger: CampaignLedger, limit: int) -> ChunkClaims:
    """The claims of a run that halts its campaign at so many failed chunks."""
    return ChunkClaims(ledger, make_plan(), max_active=None, dag_run_id=None, stop_after_failures=limit)


def fail(claims: ChunkClaims, index: int, code: str = FAILED, *, again: bool = False) -> None:
    assert claims.fail(claimed(claims, index), code, f"no {index}", again=again)


def status_of(ledger: CampaignLedger) -> CampaignStatus:
    campaign = ledger.read_campaign(RUN_KEY)
    assert campaign is not None
    return campaign.status


class FailuresConformance:
    """A subclass gives the fixtures of `LedgerConformance`."""

    # Looking.

    def test_what_failed_or_lapsed_comes_by_index_within_a_range(self, backend, ledger, claims):
        commit(backend, claims, 1)
        fail(claims, 4)
        lapsing = claimed(claims, 2)
        claimed(claims, 3)
        fail(claims, 5)
        backend.expire_lease(lapsing)
        found = ledger.failed_or_lapsed(RUN_KEY, 1, CHUNKS, 9)
        assert [2, 4, 5] == [record.chunk_index for record in found]
        assert [2, 4] == [record.chunk_index for record in ledger.failed_or_lapsed(RUN_KEY, 1, CHUNKS, 2)]
        assert [4] == [record.chunk_index for record in ledger.failed_or_lapsed(RUN_KEY, 3, 4, 9)]
        assert () == ledger.failed_or_lapsed("another", 1, CHUNKS, 9)

    def test_what_is_running_is_given_with_what_its_lease_has_left(self, backend, ledger, claims):
        lapsing = claimed(claims, 4)
        backend.expire_lease(lapsing)
        live = claimed(claims, 2)
        commit(backend, claims, 3)
        found = ledger.running(RUN_KEY, 9)
        assert [2, 4] == [chunk.record.chunk_index for chunk in found]
        assert timedelta() < found[0].lease_left <= LEASE_TTL
        assert found[1].lease_left <= timedelta()
        assert (live.owner, "scheduled__2013") == (found[0].record.owner, found[0].record.dag_run_id)
        assert [2] == [chunk.record.chunk_index for chunk in ledger.running(RUN_KEY, 1)]
        assert () == ledger.running("another", 9)

    def test_failures_are_grouped_by_code(self, backend, ledger, claims):
        for index, code in ((5, FAILED), (3, DIFFER), (2, FAILED)):
            fail(claims, index, code)
        assert (FailureGroup(FAILED, 2, 2), FailureGroup(DIFFER, 1, 3)) == ledger.failure_groups(RUN_KEY)
        commit(backend, claims, 5)
        commit(backend, claims, 2)
        assert (FailureGroup(DIFFER, 1, 3),) == ledger.failure_groups(RUN_KEY)

    def test_a_failure_of_an_earlier_round_is_none_of_this_one(self, ledger, claims):
        fail(claims, 1)
        assert 1 == ledger.failed_count(RUN_KEY)
        begin_round(ledger, make_campaign(), reason="again")
        assert {1: ChunkStatus.PENDING} == dict(ledger.chunk_statuses(RUN_KEY))
        assert {} == dict(ledger.counts(RUN_KEY, 2))
        assert () == ledger.failures(RUN_KEY, 9)
        assert () == ledger.failed_or_lapsed(RUN_KEY, 1, CHUNKS, 9)
        assert () == ledger.failure_groups(RUN_KEY)
        assert 0 == ledger.failed_count(RUN_KEY)

    def test_other_campaigns_of_a_target_are_seen_without_a_lock(self, backend, ledger, campaign, claims):
        claimed(claims, 1)
        (other,) = ledger.others(overlapping().run_key, TARGET)
        assert (RUN_KEY, 1, False) == (other.campaign.run_key, other.live_leases, other.foreign)
        assert () == ledger.others(RUN_KEY, TARGET)
        assert () == ledger.others("another", replace(TARGET, relation="9"))

    # Halting.

    def test_as_many_failures_as_may_be_halt_the_campaign(self, backend, ledger, campaign):
        claims = halting(ledger, 2)
        fail(claims, 1)
        assert CampaignStatus.OPEN is status_of(ledger)
        record = claimed(claims, 2)
        assert claims.fail(record, DIFFER, "no 2")
        halted = ledger.read_campaign(RUN_KEY)
        assert (CampaignStatus.HALTED, 2) == (halted.status, halted.revision)
        assert "2 chunks failed, and stop_after_failures is 2" == halted.reason
        assert [
            Event(RUN_KEY, EventKind.HALTED, 1, 2, detail=halted.reason),
            Event(RUN_KEY, EventKind.FAILED, 1, 2, 2, 1, record.owner, DIFFER),
        ] == backend.events()[-2:]
        assert (ChunkStatus.FAILED, DIFFER) == (
            ledger.read_chunk(RUN_KEY, 2).status,
            ledger.read_chunk(RUN_KEY, 2).error_code,
        )

    def test_a_halted_campaign_lets_no_chunk_begin_and_those_at_work_finish(self, backend, ledger, campaign):
        claims = halting(ledger, 1)
        at_work = claims.claim(3)
        failing = claimed(claims, 4)
        fail(claims, 1)
        assert ClaimVerdict.STOPPED is claims.claim(2).verdict
        assert ClaimVerdict.STOPPED is halting(backend.second, 1).claim(1).verdict
        backend.complete(at_work.request, 1, 1)
        assert claims.fail(failing, FAILED, "late")
        assert frozenset({3}) == ledger.committed(RUN_KEY, 1, 1, CHUNKS)
        assert 1 == sum(event.kind is EventKind.HALTED for event in backend.events())
        with pytest.raises(CampaignStoppedError, match="stop_after_failures is 1"):
            open_campaign(ledger, make_campaign())

    def test_a_resumption_begins_to_count_anew(self, backend, ledger, campaign):
        claims = halting(ledger, 2)
        still_failing = claimed(claims, 5)
        fail(claims, 1)
        fail(claims, 2)
        assert CampaignStatus.HALTED is status_of(ledger)
        backend.pass_time()
        assert Opening.RESUMED is open_campaign(ledger, make_campaign(), reason="mended").how
        assert 0 == ledger.failed_count(RUN_KEY)
        assert 2 == len(ledger.failures(RUN_KEY, 9))
        # An attempt from before the halt that fails after it is a failure of now.
        assert claims.fail(still_failing, FAILED, "late")
        assert CampaignStatus.OPEN is status_of(ledger)
        fail(claims, 3)
        assert CampaignStatus.HALTED is status_of(ledger)

    def test_a_chunk_counts_once_and_not_once_it_is_committed(self, backend, ledger, campaign):
        claims = halting(ledger, 3)
        for _ in range(4):
            fail(claims, 1)
        fail(claims, 2)
        assert CampaignStatus.OPEN is status_of(ledger)
        commit(backend, claims, 1)
        fail(claims, 3)
        assert CampaignStatus.OPEN is status_of(ledger)
        fail(claims, 4)
        assert CampaignStatus.HALTED is status_of(ledger)

    def test_a_failure_that_is_tried_again_halts_nothing_yet(self, ledger, campaign):
        claims = halting(ledger, 1)
        fail(claims, 1, again=True)
        assert CampaignStatus.OPEN is status_of(ledger)
        fail(claims, 1)
        assert CampaignStatus.HALTED is status_of(ledger)

    def test_without_a_limit_nothing_is_halted(self, ledger, claims):
        for index in range(1, CHUNKS + 1):
            fail(claims, index)
        assert CampaignStatus.OPEN is status_of(ledger)

    def test_a_campaign_that_is_cancelled_is_not_halted(self, ledger, campaign):
        claims = halting(ledger, 1)
        record = claimed(claims, 1)
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        assert claims.fail(record, FAILED, "no")
        assert CampaignStatus.CANCEL_REQUESTED is status_of(ledger)

    def test_failures_of_several_runs_at_once_count_together(self, backend, ledger, campaign):
        one, two = halting(backend.ledger, 2), halting(backend.second, 2)
        records = [(one, claimed(one, 1)), (two, claimed(two, 2))]
        together = threading.Barrier(2)

        def end(of) -> bool:
            claims, record = of
            together.wait(PATIENCE_SECONDS)
            return claims.fail(record, FAILED, "no")

        with ThreadPoolExecutor(2) as pool:
            assert [True, True] == list(pool.map(end, records))
        assert CampaignStatus.HALTED is status_of(ledger)
        assert 1 == sum(event.kind is EventKind.HALTED for event in backend.events())

    def test_a_round_that_is_begun_deliberately_lifts_a_halt(self, ledger, campaign):
        fail(halting(ledger, 1), 1)
        assert CampaignStatus.HALTED is status_of(ledger)
        begun = begin_round(ledger, make_campaign(), reason="from the beginning")
        assert (CampaignStatus.OPEN, 2) == (begun.status, begun.round)

    # Overlaps.

    def test_a_halted_campaign_is_in_the_way_and_is_not_closed_by_others(self, ledger, campaign):
        fail(halting(ledger, 1), 1)
        for reason in (None, "it is halted"):
            with pytest.raises(OverlapError, match="halted"):
                open_campaign(ledger, overlapping(), reason=reason)
        assert CampaignStatus.HALTED is status_of(ledger)

    @pytest.mark.parametrize("mode", ["partition_replace", "incremental_append", "incremental_merge"])
    def test_no_reason_lets_a_campaign_meet_one_that_is_not_over(self, ledger, campaign, mode):
        with pytest.raises(OverlapError):
            open_campaign(ledger, replace(overlapping(), inner_mode=mode), reason="never mind")
        assert ledger.read_campaign(overlapping().run_key) is None

    def test_a_new_round_of_a_templated_window_is_an_opening_and_looks_for_overlaps(self, backend, ledger):
        open_campaign(ledger, make_campaign(templated=True))
        commit_all(backend, halting(ledger, 9))
        open_campaign(ledger, overlapping())
        with pytest.raises(OverlapError, match="another"):
            open_campaign(ledger, make_campaign(templated=True))
        assert (CampaignStatus.COMPLETE, 1) == (status_of(ledger), ledger.read_campaign(RUN_KEY).round)

    def test_an_append_reads_what_a_cancelled_campaign_has_committed_after_closing_it(
        self, backend, ledger, campaign, claims
    ):
        commit(backend, claims, 5)
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        wanted = replace(overlapping(), inner_mode="incremental_append")
        with pytest.raises(OverlapError, match="load them twice"):
            open_campaign(ledger, wanted)
        assert CampaignStatus.CLOSED is status_of(ledger)
        assert Opening.CREATED is open_campaign(ledger, wanted, reason="deleted by hand").how
