"""What the port means for rounds that are begun deliberately and for what verifications write; every backend runs it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dpone_contract.errors import (
    CampaignDriftError,
    CampaignMissingError,
    CampaignStoppedError,
    ChunkLeaseLostError,
    OverlapError,
)
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.services.open_campaign import begin_round, complete_campaign, open_campaign
from tests.campaign_factories import RUN_KEY, make_campaign
from tests.conformance.ledger_suite import appending, claimed, claims_of, commit, commit_all, overlapping

CHUNKS = 5


class RoundsConformance:
    """A subclass gives the fixtures of `LedgerConformance`."""

    def test_a_deliberate_round_makes_every_chunk_pending(self, backend, ledger, claims):
        commit_all(backend, claims)
        begun = begin_round(ledger, make_campaign(), reason="rows were changed by hand")
        assert (2, CampaignStatus.OPEN) == (begun.round, begun.status)
        found = ledger.read_campaign(RUN_KEY)
        assert (2, "rows were changed by hand") == (found.round, found.reason)
        assert dict.fromkeys(range(1, CHUNKS + 1), ChunkStatus.PENDING) == ledger.chunk_statuses(RUN_KEY)
        assert "rows were changed by hand" == ledger.campaign_events(RUN_KEY)[-1].event.detail

    def test_the_columns_of_a_campaign_are_kept_and_change_for_a_reason(self, ledger, campaign):
        assert make_campaign().columns == ledger.read_campaign(RUN_KEY).columns
        other = make_campaign(columns=("flight_date", "n", ""))
        with pytest.raises(CampaignDriftError):
            open_campaign(ledger, other)
        open_campaign(ledger, other, reason="n is new")
        assert ("flight_date", "n", "") == ledger.read_campaign(RUN_KEY).columns

    def test_a_round_of_some_chunks_carries_the_others(self, backend, ledger, claims):
        commit_all(backend, claims)
        before = {record.chunk_index: record for record in ledger.read_chunks(RUN_KEY, 1, CHUNKS)}
        begin_round(ledger, make_campaign(), reason="two differ", only=frozenset({2, 4}))
        assert frozenset({1, 3, 5}) == ledger.committed(RUN_KEY, 2, 1, CHUNKS)
        for record in ledger.read_chunks(RUN_KEY, 1, CHUNKS):
            old = before[record.chunk_index]
            carried = record.chunk_index in (1, 3, 5)
            assert (old.revision + carried, old.round + carried) == (record.revision, record.round)
            assert (old.attempt, old.owner, old.rows_loaded, old.finished_at) == (
                record.attempt,
                record.owner,
                record.rows_loaded,
                record.finished_at,
            )
        carried_events = [event for event in backend.events() if event.kind is EventKind.CARRIED]
        assert [(1, 2), (3, 2), (5, 2)] == [(event.chunk_index, event.round) for event in carried_events]

    def test_a_round_of_some_chunks_ends_with_those(self, backend, ledger, claims):
        commit_all(backend, claims)
        begin_round(ledger, make_campaign(), reason="one differs", only=frozenset({2}))
        assert {ChunkStatus.COMMITTED: CHUNKS - 1} == dict(ledger.counts(RUN_KEY, 2))
        commit(backend, claims_of(ledger), 2)
        counts = ledger.counts(RUN_KEY, 2)
        assert {ChunkStatus.COMMITTED: CHUNKS} == dict(counts)
        found = complete_campaign(ledger, ledger.read_campaign(RUN_KEY), CHUNKS)
        assert (CampaignStatus.COMPLETE, 2) == (found.status, found.round)
        assert (2, 2) == (ledger.read_chunk(RUN_KEY, 2).attempt, ledger.read_chunk(RUN_KEY, 2).round)

    def test_an_attempt_of_the_round_before_can_commit_nothing(self, backend, ledger, claims):
        record = claims.claim(1)
        begin_round(ledger, make_campaign(), reason="again")
        with pytest.raises(ChunkLeaseLostError):
            backend.complete(record.request, 3, 3)
        assert frozenset() == ledger.committed(RUN_KEY, 2, 1, CHUNKS)

    def test_chunks_that_were_not_committed_are_not_carried(self, backend, ledger, claims):
        commit(backend, claims, 1)
        failing = claimed(claims, 2)
        claims.fail(failing, "DPONE_BACKFILL_CHUNK_FAILED", "no")
        begin_round(ledger, make_campaign(), reason="again", only=frozenset({1}))
        assert frozenset() == ledger.committed(RUN_KEY, 2, 1, CHUNKS)
        assert 1 == ledger.read_chunk(RUN_KEY, 2).round

    def test_what_appends_begins_no_second_round(self, ledger):
        wanted = appending("2013-01-01", "2013-01-06")
        open_campaign(ledger, wanted)
        with pytest.raises(CampaignStoppedError):
            begin_round(ledger, wanted, reason="again")
        assert 1 == ledger.read_campaign(wanted.run_key).round

    def test_a_round_of_nothing_is_refused(self, ledger):
        with pytest.raises(CampaignMissingError):
            begin_round(ledger, make_campaign(), reason="again")
        assert ledger.read_campaign(RUN_KEY) is None

    def test_a_round_of_another_plan_is_refused(self, ledger, campaign):
        with pytest.raises(CampaignDriftError):
            begin_round(ledger, make_campaign(plan_hash="sha256:" + "0" * 64), reason="again")
        assert campaign.revision == ledger.read_campaign(RUN_KEY).revision

    def test_a_round_that_would_meet_another_campaign_is_refused(self, backend, ledger, claims):
        commit_all(backend, claims)
        open_campaign(ledger, overlapping())
        with pytest.raises(OverlapError):
            begin_round(ledger, make_campaign(), reason="again")
        assert CampaignStatus.COMPLETE is ledger.read_campaign(RUN_KEY).status

    # What verifications write.

    def test_verdicts_are_kept_in_order_and_change_no_row(self, backend, ledger, claims):
        commit(backend, claims, 1)
        commit(backend, claims, 2)
        rows = ledger.read_chunks(RUN_KEY, 1, CHUNKS)
        ledger.add_event(Event(RUN_KEY, EventKind.VERIFICATION_BEGUN, 1, 1, detail="content"))
        begun = ledger.campaign_events(RUN_KEY)[-1]
        for index, kind in ((2, EventKind.VERIFIED), (1, EventKind.DIFFERS), (1, EventKind.VERIFIED)):
            ledger.add_event(Event(RUN_KEY, kind, 1, 2, chunk_index=index, attempt=1, detail="3 rows"))
        found = ledger.verdicts(RUN_KEY, 1, CHUNKS, begun.event_id)
        assert [(2, "verified"), (1, "differs"), (1, "verified")] == [
            (past.event.chunk_index, past.event.kind.value) for past in found
        ]
        assert (1, 1, 2, 1, "3 rows") == (
            found[0].event.attempt,
            found[0].event.round,
            found[0].event.revision,
            found[1].event.chunk_index,
            found[0].event.detail,
        )
        assert [2] == [past.event.chunk_index for past in ledger.verdicts(RUN_KEY, 2, 5, begun.event_id)]
        assert [1] == [past.event.chunk_index for past in ledger.verdicts(RUN_KEY, 1, 5, found[1].event_id)]
        assert rows == ledger.read_chunks(RUN_KEY, 1, CHUNKS)

    def test_the_campaigns_own_history_has_times_and_no_chunk(self, backend, ledger, claims):
        commit(backend, claims, 1)
        history = ledger.campaign_events(RUN_KEY)
        assert [EventKind.OPENED] == [past.event.kind for past in history]
        assert timedelta() <= history[0].at - ledger.read_campaign(RUN_KEY).created_at < timedelta(minutes=1)
        assert () == ledger.campaign_events("another")

    def test_rows_are_read_by_index(self, backend, ledger, claims):
        for index in (4, 1, 3):
            commit(backend, claims, index)
        assert [3, 4] == [record.chunk_index for record in ledger.read_chunks(RUN_KEY, 2, 4)]
        assert ledger.read_chunk(RUN_KEY, 3) == ledger.read_chunks(RUN_KEY, 3, 3)[0]
