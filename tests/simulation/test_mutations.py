"""Each guard of the protocol taken away: the simulation notices, or it is said which other guard stands in for it, and proved.

With nothing taken away no schedule breaks anything: that is `test_schedules`.
"""

from dataclasses import dataclass

import pytest

from dpone_runtime.domain.claim import ClaimVerdict
from dpone_runtime.services import chunk_claims, open_campaign, run_campaign
from tests.simulation.mutating import conditions, failure, without, without_locks
from tests.simulation.stories import Family
from tests.simulation.weakening import Weakening


@dataclass(frozen=True)
class Mutation:
    """What is missing, where its lack shows, and as what."""

    missing: Weakening
    families: tuple[Family, ...]
    broken: tuple[str, ...]


COMPLETE_OWNER = conditions("complete_chunk", "c.owner = :owner")
COMPLETE_REVISION = conditions("complete_chunk", "c.revision = :revision")
CLAIM_REVISION = conditions("claim_chunk", "revision = :revision - 1")
CAMPAIGN_REVISION = conditions("update_campaign", "revision = :revision - 1")
RENEW_OWNER = conditions("renew_chunk", "owner = :owner")
RENEW_REVISION = conditions("renew_chunk", "revision = :revision")
LIVE = "lease_expires_at > clock_timestamp()"

NOTICED = {
    "owner at the commit": Mutation(
        without(COMPLETE_OWNER, COMPLETE_REVISION), (Family.TAKEOVER,), ("replaced", "revision")
    ),
    "campaign not closed at the commit": Mutation(
        without(conditions("complete_chunk: campaign", "g.status <> 'closed'")),
        (Family.CLOSING,),
        ("closed", "exactly once"),
    ),
    "campaign's round at the commit": Mutation(
        without(conditions("complete_chunk: campaign", "g.round = :round")), (Family.ROUNDS,), ("closed",)
    ),
    "revision of a claim": Mutation(without(CLAIM_REVISION), (Family.TAKEOVER,), ("revision", "transition")),
    "a lapsed lease is not renewed": Mutation(
        without(conditions("renew_chunk", LIVE)), (Family.RENEWAL,), ("max_active", "live lease")
    ),
    "a lease is renewed by its owner": Mutation(
        without(RENEW_OWNER, RENEW_REVISION), (Family.RENEWAL,), ("renewal",)
    ),
    "lapsed leases are not counted": Mutation(
        without(conditions("count_live", LIVE)), (Family.TAKEOVER, Family.ITEMS), ("stuck",)
    ),
    "only of this round is a chunk skipped": Mutation(
        without(conditions("committed_chunks", "round = :round")), (Family.ROUNDS,), ("stuck",)
    ),
    "only what is committed is carried": Mutation(
        without(conditions("carry_chunks", "status = 'committed'")),
        (Family.ROUNDS,),
        ("live lease", "transition"),
    ),
    "only of the round before is carried": Mutation(
        without(conditions("carry_chunks", "round = :round - 1")), (Family.ROUNDS,), ("transition",)
    ),
    "lock of the chunk": Mutation(without_locks("chunk"), (Family.TAKEOVER,), ("one data transaction",)),
    "lock of the transition": Mutation(
        without_locks("transition"), (Family.ITEMS,), ("max_active", "crash", "revision")
    ),
    "lock of the transition, shared by renewals": Mutation(
        Weakening(shared_locks=frozenset({"transition"})), (Family.RENEWAL,), ("max_active", "live lease")
    ),
    "lock of the close": Mutation(without_locks("close"), (Family.CLOSING,), ("closed",)),
    "a commit is counted": Mutation(Weakening(tallies=True), (Family.ITEMS,), ("tally",)),
    "a holder is ended": Mutation(Weakening(endings=True), (Family.TAKEOVER,), ("stuck",)),
    "the database's clock": Mutation(
        Weakening(own_clock=True), (Family.ITEMS, Family.TAKEOVER), ("live lease", "max_active", "stuck")
    ),
}


@pytest.mark.parametrize("mutation", NOTICED.values(), ids=NOTICED)
def test_what_is_missing_is_noticed(mutation):
    failed = failure(mutation.missing, mutation.families)
    assert failed is not None
    assert failed.name in mutation.broken, failed.found


@dataclass(frozen=True)
class Redundant:
    """A guard behind another one, `also`, that stands in for it; without both, something is `broken` in a family."""

    missing: Weakening
    also: Weakening
    family: Family
    broken: tuple[str, ...]


REDUNDANT = {
    # Every claim is another revision, and every attempt another owner: either tells them apart.
    "owner at the commit, revision left": Redundant(
        without(COMPLETE_OWNER),
        without(COMPLETE_OWNER, COMPLETE_REVISION),
        Family.TAKEOVER,
        ("replaced", "revision"),
    ),
    "revision at the commit, owner left": Redundant(
        without(COMPLETE_REVISION),
        without(COMPLETE_OWNER, COMPLETE_REVISION),
        Family.TAKEOVER,
        ("replaced", "revision"),
    ),
    "owner of a renewal, revision left": Redundant(
        without(RENEW_OWNER), without(RENEW_OWNER, RENEW_REVISION), Family.RENEWAL, ("renewal",)
    ),
    "revision of a renewal, owner left": Redundant(
        without(RENEW_REVISION), without(RENEW_OWNER, RENEW_REVISION), Family.RENEWAL, ("renewal",)
    ),
    # The guard before the rows saves work; the completion asks the same again.
    "guard before the rows": Redundant(
        without(
            conditions(
                "guard_chunk",
                "status = 'running'",
                "revision = :revision",
                "owner = :owner",
                "round = :round",
            )
        ),
        without(
            conditions(
                "guard_chunk",
                "status = 'running'",
                "revision = :revision",
                "owner = :owner",
                "round = :round",
            ),
            COMPLETE_OWNER,
            COMPLETE_REVISION,
        ),
        Family.TAKEOVER,
        ("replaced", "revision"),
    ),
    # An opening waits for runs over a folder by a lock of its own, which it takes alone.
    "lock of the target": Redundant(
        without_locks("target"), without_locks("target", "runs over a folder"), Family.OPENING, ("overlap",)
    ),
    # A campaign's row changes under the transition lock alone.
    "revision of a campaign": Redundant(
        without(CAMPAIGN_REVISION),
        Weakening(conditions=CAMPAIGN_REVISION, locks=frozenset({"transition"})),
        Family.ROUNDS,
        ("revision", "crash"),
    ),
}


@pytest.mark.parametrize("guard", REDUNDANT.values(), ids=REDUNDANT)
def test_one_of_two_guards_is_enough_and_one_is_needed(guard):
    assert failure(guard.missing, (guard.family,), 300) is None
    failed = failure(guard.also, (guard.family,))
    assert failed is not None
    assert failed.name in guard.broken, failed.found


# No other guard stands in for these; what else the row or the plan says makes them true already.
IMPLIED = {
    # A row's status and round never change without its revision.
    "status at the commit": conditions("complete_chunk", "c.status = 'running'"),
    "round of the chunk at the commit": conditions("complete_chunk", "c.round = :round"),
    # What has ended has another revision, and no lease that could be live.
    "status of a renewal": conditions("renew_chunk", "status = 'running'"),
    # Without it the lock of a chunk is looked at that nobody holds.
    "status of the chunks whose holders are ended": conditions("claimed_chunks", "status = 'running'"),
}


@pytest.mark.parametrize("implied", IMPLIED.values(), ids=IMPLIED)
def test_what_the_revision_implies_is_asked_for_clarity_alone(implied):
    families = (Family.TAKEOVER, Family.ROUNDS, Family.CLOSING)
    assert failure(without(implied), families, 300) is None


def test_correctness_does_not_rest_on_the_fence():
    """It refuses a second run at once; two that run at once do no harm."""
    assert failure(Weakening(fence=True), (Family.INTERNAL, Family.OPENING), 400) is None


# Guards that are no condition of a query: a rule of the services.


def test_the_end_of_a_lapsed_holder_is_made_up_for_by_the_next_owner(monkeypatch):
    """Where the claim did not end it, the new owner's lane finds the lock held, and its coordinator ends the holder."""
    decide = chunk_claims.decide_claim

    def claims_at_once(view, *, max_active, lapsed_holder_ended=False):
        return decide(view, max_active=max_active, lapsed_holder_ended=True)

    monkeypatch.setattr(chunk_claims, "decide_claim", claims_at_once)
    assert failure(Weakening(), (Family.TAKEOVER,), 300) is None
    monkeypatch.setattr(chunk_claims.ChunkClaims, "end_holders", lambda claims, record: 0)
    failed = failure(Weakening(), (Family.TAKEOVER,))
    assert failed is not None
    assert "stuck" == failed.name


def test_the_revision_of_a_failure_stands_behind_the_wait_for_the_end_of_a_holder(monkeypatch):
    """Who judges a chunk while its COMMIT is under way finds another revision; nobody does, since the lock is looked at first."""
    failing = without(conditions("end_chunk", "revision = :revision - 1"))
    assert failure(failing, (Family.TAKEOVER,), 200) is None
    end_holders = chunk_claims.ChunkClaims.end_holders
    monkeypatch.setattr(chunk_claims.ChunkClaims, "end_holders", lambda *asked: end_holders(*asked) * 0)
    assert failure(Weakening(), (Family.TAKEOVER,), 200) is None
    failed = failure(failing, (Family.TAKEOVER,))
    assert failed is not None
    assert "revision" == failed.name


def test_completion_without_a_count_is_noticed(monkeypatch):
    complete = run_campaign.complete_campaign
    monkeypatch.setattr(
        run_campaign,
        "complete_campaign",
        lambda ledger, campaign, _count: complete(ledger, campaign, campaign.chunks_total),
    )
    failed = failure(Weakening(), (Family.ITEMS,))
    assert failed is not None
    assert "completion" == failed.name


def test_an_opening_that_allows_overlaps_is_noticed(monkeypatch):
    monkeypatch.setattr(open_campaign, "_require_no_overlap", lambda wanted, others: None)
    failed = failure(Weakening(), (Family.OPENING,))
    assert failed is not None
    assert "overlap" == failed.name


def test_an_append_to_what_another_has_loaded_is_noticed(monkeypatch):
    monkeypatch.setattr(open_campaign, "_require_nothing_committed", lambda wanted, others, *, resumed: None)
    failed = failure(Weakening(), (Family.OPENING, Family.CLOSING))
    assert failed is not None
    assert "exactly once" == failed.name


@pytest.mark.parametrize(
    "rule, broken",
    [("a live lease is busy", "live lease"), ("no more than max_active", "max_active")],
)
def test_a_claim_that_ignores_a_rule_is_noticed(monkeypatch, rule, broken):
    decide = chunk_claims.decide_claim

    def claims_all_the_same(view, *, max_active, lapsed_holder_ended=False):
        if broken == "max_active":
            max_active = None
        verdict = decide(view, max_active=max_active, lapsed_holder_ended=lapsed_holder_ended)
        ignored = broken == "live lease" and verdict is ClaimVerdict.BUSY
        return ClaimVerdict.CLAIM if ignored else verdict

    monkeypatch.setattr(chunk_claims, "decide_claim", claims_all_the_same)
    failed = failure(Weakening(), (Family.ITEMS,))
    assert failed is not None
    assert broken == failed.name
