"""What one data transaction requires of the ledger, asked of the sink itself: not mine any more, then neither rows nor status."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpone_contract.errors import ChunkBusyError, ChunkLeaseLostError
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.lease import new_owner
from dpone_runtime.ports.connectors import CommitUnknownError, LoadRequest
from dpone_runtime.services.open_campaign import cancel_campaign, close_cancelled
from tests.integration.attempts import CAMPAIGNS, CHUNKS, Attempt


def test_an_attempt_that_owns_its_chunk_commits(attempt: Attempt) -> None:
    attempt.load()
    assert {1: ("committed", 1)} == attempt.history.chunks()
    attempt.history.require_loaded(1)


@pytest.mark.parametrize(
    "stale",
    [
        lambda request: replace(request, owner=new_owner()),
        lambda request: replace(request, revision=request.revision - 1),
        lambda request: replace(request, revision=request.revision + 1),
        lambda request: replace(request, round=request.round + 1),
    ],
    ids=["another owner", "an earlier revision", "a later revision", "another round"],
)
def test_a_stale_request_changes_nothing(
    attempt: Attempt, stale: Callable[[LoadRequest], LoadRequest]
) -> None:
    before, steps = attempt.state(), list[str]()
    with pytest.raises(ChunkLeaseLostError):
        attempt.load(stale(attempt.request), steps.append)
    assert [] == steps, "the guard let it through"
    assert before == attempt.state()


# Statements of somebody else between the guard and the commit: the last of them has to be found then.
TAKEN = {
    "another owner": f"UPDATE {CHUNKS} SET owner = 'another'",
    "another revision": f"UPDATE {CHUNKS} SET revision = revision + 1",
    "another round": f"UPDATE {CHUNKS} SET round = round + 1",
    "released": f"UPDATE {CHUNKS} SET status = 'pending'",
    "committed by another": f"UPDATE {CHUNKS} SET status = 'committed'",
    "closed": f"UPDATE {CAMPAIGNS} SET status = 'closed'",
    "campaign in another round": f"UPDATE {CAMPAIGNS} SET round = round + 1",
    "gone": f"DELETE FROM {CHUNKS}",
}


@pytest.mark.parametrize("statement", TAKEN.values(), ids=TAKEN)
def test_a_chunk_taken_during_the_load_is_found_at_the_commit(attempt: Attempt, statement: str) -> None:
    taken: list[tuple[object, ...]] = []

    def take(step: str) -> None:
        if step == "before commit":
            attempt.history.sql(statement)
            taken.append(attempt.state())

    with pytest.raises(ChunkLeaseLostError):
        attempt.load(after=take)
    assert taken == [attempt.state()]


def test_the_commit_is_not_lost_by_a_renewal_on_the_way(attempt: Attempt) -> None:
    record = attempt.prepared.ledger.read_chunk(attempt.request.run_key, 1)
    assert record is not None

    def renew(step: str) -> None:
        if step == "copied":
            assert attempt.prepared.ledger.renew(record)

    attempt.load(after=renew)
    attempt.history.require_loaded(1)


def test_a_lapsed_lease_is_never_renewed(attempt: Attempt) -> None:
    record = attempt.prepared.ledger.read_chunk(attempt.request.run_key, 1)
    assert record is not None
    attempt.history.lapse_leases()
    assert not attempt.prepared.ledger.renew(record)


def test_a_lapsed_attempt_that_nobody_replaced_may_still_commit(attempt: Attempt) -> None:
    attempt.history.lapse_leases()
    attempt.load()
    attempt.history.require_loaded(1)


def test_two_attempts_never_load_one_chunk_at_once(attempt: Attempt) -> None:
    """The chunk's lock is what tells them apart; the one that waits is busy, not failed."""
    busy: list[BaseException] = []

    def second(step: str) -> None:
        if step == "guarded":
            with pytest.raises(ChunkBusyError) as raised:
                attempt.load()
            busy.append(raised.value)

    attempt.load(after=second)
    assert 1 == len(busy)
    assert ["claimed", "committed"] == attempt.history.events(1)
    attempt.history.require_loaded(1)


def test_a_campaign_that_is_being_closed_ends_the_data_transactions_of_its_chunks(attempt: Attempt) -> None:
    """As an opener of the same target does with a cancelled campaign whose lease has lapsed."""
    before, ledger = attempt.history.versions(1), attempt.prepared.ledger

    def close(step: str) -> None:
        if step == "copied":
            attempt.history.lapse_leases()
            campaign = ledger.read_campaign(attempt.request.run_key)
            assert campaign is not None
            cancelled = cancel_campaign(ledger, campaign, reason="test", by=None)
            close_cancelled(ledger, cancelled, "test")

    with pytest.raises(CommitUnknownError):  # its session was ended; what the row says is what counts
        attempt.load(after=close)
    campaign = ledger.read_campaign(attempt.request.run_key)
    assert campaign is not None
    assert CampaignStatus.CLOSED is campaign.status
    assert before == attempt.history.versions(1)
    assert {1: ("running", 1)} == attempt.history.chunks()


def test_an_attempt_whose_session_was_ended_reads_back_what_it_did(attempt: Attempt) -> None:
    """Ending a holder finds exactly the session that holds the chunk's lock."""
    ended: list[int] = []
    record = attempt.prepared.ledger.read_chunk(attempt.request.run_key, 1)
    assert record is not None

    def end(step: str) -> None:
        if step == "before commit":
            ended.append(attempt.claims.end_holders(record))

    with pytest.raises(CommitUnknownError):
        attempt.load(after=end)
    assert [1] == ended
    assert not attempt.claims.committed(record)
    assert 0 == attempt.claims.end_holders(record)
    attempt.load()
    assert attempt.claims.committed(record)
