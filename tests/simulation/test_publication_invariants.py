"""That a round is published once is an invariant that can fail: no guard taken away alone leads there, so it is shown what it says."""

import pytest

from tests.campaign_factories import NOON
from tests.simulation.publication_invariants import Publications, a_round_is_published_once
from tests.simulation.tables import Commit, Tables, Transaction
from tests.simulation.violations import ViolationError

CAMPAIGNS = {name: {"target_relation": f"target of {name}"} for name in "ab"}
STATE = Tables(campaigns=CAMPAIGNS, chunks={}, rows={}, tallies={}, names={})


def publish(publications: Publications, *rounds: tuple[str, int]) -> None:
    """Commit what says that rounds are published, and ask the invariant."""
    events = [{"kind": "published", "run_key": run_key, "round": number} for run_key, number in rounds]
    commit = Commit(STATE, STATE, Transaction(events=events), NOON)
    publications.follow(commit)
    a_round_is_published_once(commit, publications)


def test_each_round_of_each_campaign_may_be_published():
    publications = Publications()
    for place in (("a", 1), ("a", 2), ("b", 1)):
        publish(publications, place)


def test_a_round_that_is_published_again_is_noticed():
    publications = Publications()
    publish(publications, ("a", 1))
    publish(publications, ("b", 1))
    with pytest.raises(ViolationError, match="a was published 2 times in round 1") as noticed:
        publish(publications, ("a", 1))
    assert "published once" == noticed.value.name


def test_a_round_that_one_commit_publishes_twice_is_noticed():
    with pytest.raises(ViolationError, match="a was published 2 times in round 1"):
        publish(Publications(), ("a", 1), ("a", 1))
