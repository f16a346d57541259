"""The columns that a campaign is loaded with: the same from its first chunk to its last, unless somebody gives a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpone_contract.errors import CampaignDriftError
from dpone_runtime.adapters.memory.ledger import MemoryLedger
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.event import EventKind
from dpone_runtime.services.open_campaign import (
    Opening,
    begin_round,
    complete_campaign,
    open_campaign,
)
from tests.campaign_factories import FixedClock, make_campaign, make_plan

WANTED = make_campaign(columns=("a", "b"))


@pytest.fixture
def ledger() -> MemoryLedger:
    """A ledger with a campaign of the columns a and b that is open."""
    found = MemoryLedger(FixedClock().now)
    open_campaign(found, WANTED)
    return found


@pytest.mark.parametrize(
    "columns, told",
    [
        (("a",), "b was loaded when it began and is not now"),
        (("a", "b", "c"), "c is loaded now and was not when it began"),
        (("a", "c"), "b was loaded when it began and is not now; c is loaded now and was not when it began"),
    ],
    ids=str,
)
def test_other_columns_stop_a_campaign(ledger: MemoryLedger, columns: tuple[str, ...], told: str):
    with pytest.raises(CampaignDriftError, match=told) as refused:
        open_campaign(ledger, replace(WANTED, columns=columns))
    assert "--reason" in refused.value.next_step
    assert ("a", "b") == ledger.read_campaign(WANTED.run_key).columns


def test_their_order_is_no_matter(ledger: MemoryLedger):
    assert Opening.FOUND is open_campaign(ledger, replace(WANTED, columns=("b", "a"))).how


def test_a_reason_takes_them_in_and_is_kept(ledger: MemoryLedger):
    wanted = replace(WANTED, columns=("a", "b", "c"))
    opened = open_campaign(ledger, wanted, reason="c is new")
    assert (Opening.RESUMED, CampaignStatus.OPEN) == (opened.how, opened.campaign.status)
    assert (("a", "b", "c"), "c is new") == (
        ledger.read_campaign(WANTED.run_key).columns,
        ledger.read_campaign(WANTED.run_key).reason,
    )
    assert (EventKind.RESUMED, "c is new") == (ledger.events[-1].kind, ledger.events[-1].detail)
    assert Opening.FOUND is open_campaign(ledger, wanted).how


def test_a_reason_without_a_change_of_columns_changes_nothing(ledger: MemoryLedger):
    assert Opening.FOUND is open_campaign(ledger, WANTED, reason="again").how
    assert 1 == len(ledger.events)


def test_a_new_round_takes_them_as_they_are():
    found, wanted = MemoryLedger(FixedClock().now), replace(WANTED, templated=True)
    open_campaign(found, wanted)
    complete_campaign(found, wanted, wanted.chunks_total)
    opened = open_campaign(found, replace(wanted, columns=("a", "c")))
    assert (Opening.NEW_ROUND, ("a", "c")) == (opened.how, opened.campaign.columns)


def test_a_complete_campaign_does_not_care(ledger: MemoryLedger):
    complete_campaign(ledger, WANTED, WANTED.chunks_total)
    assert Opening.COMPLETE is open_campaign(ledger, replace(WANTED, columns=("a",))).how


def test_a_round_of_some_chunks_keeps_the_columns_of_the_others(ledger: MemoryLedger):
    complete_campaign(ledger, WANTED, WANTED.chunks_total)
    with pytest.raises(CampaignDriftError, match="c is loaded now"):
        begin_round(
            ledger,
            replace(WANTED, columns=("a", "b", "c")),
            reason="repair",
            only=frozenset({make_plan().chunks_total}),
        )
    begun = begin_round(ledger, replace(WANTED, columns=("a", "b", "c")), reason="all of it")
    assert ("a", "b", "c") == begun.columns
