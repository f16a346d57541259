"""Publication: names beside a table, what is required before the swap, and that whatever happened is read from the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_contract.errors import (
    CampaignBusyError,
    CampaignDriftError,
    CampaignLeaseLostError,
    CampaignStoppedError,
    DatabaseFailedError,
    PublicationMismatchError,
)
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.memory.ledger import MemoryFence, MemoryLedger
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, moved
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.publication import (
    PublicationReceipt,
    ShadowContent,
    Swap,
    backup_name,
    publication_receipt,
    shadow_name,
)
from dpone_runtime.ports.ledger import Change
from dpone_runtime.services.publish_campaign import (
    OTHERS_WAIT,
    Publication,
    PublicationTools,
    publish_campaign,
)
from tests.campaign_factories import RUN_KEY, SHADOW, TARGET, FixedClock, make_campaign, make_plan

LIVE = TableName(schema="public", name="flights")
SWAP = Swap(
    live=LIVE,
    shadow=LIVE.replaced(name="flights_shadow"),
    backup=LIVE.replaced(name="flights_backup"),
    live_relation=TARGET.relation,
    shadow_relation=SHADOW.relation,
    contract=SHADOW.contract,
    retain_backup=True,
    unique_key=("id",),
)


class Stage:
    """A campaign of no chunk, complete in a ledger in memory, and whatever publishes it."""

    def __init__(self, **changes: object) -> None:
        self.clock = FixedClock()
        self.ledger = MemoryLedger(self.clock.now)
        self.told: list[str] = []
        self.fence: MemoryFence | None = None
        self.stopped = False
        self.campaign = make_campaign(
            make_plan(1), status=CampaignStatus.COMPLETE, shadow=SHADOW, chunks_total=0, **changes
        )
        self.write(self.campaign, EventKind.OPENED)

    def write(self, campaign: Campaign, kind: EventKind) -> None:
        """Write a campaign's row as somebody else would."""
        event = Event(campaign.run_key, kind, campaign.round, campaign.revision)
        self.ledger.transition(RUN_KEY, None, lambda _: Change(event=event, campaign=campaign))

    def publish(self, ledger: MemoryLedger | None = None) -> Campaign:
        """Publish it."""
        tools = PublicationTools(ledger or self.ledger, self.clock.elapsed, lambda: self.stopped, self.fence)
        return publish_campaign(tools, self.campaign, Publication(SWAP, self.told.append))


def test_a_publication_writes_its_receipt_and_tells_what_becomes_of_what_was_live():
    stage = Stage()
    after = stage.publish()
    assert ("published", 2, SHADOW.relation, None) == (
        after.status,
        after.revision,
        after.target.relation,
        after.shadow,
    )
    receipt = publication_receipt(stage.ledger.events[-1])
    assert PublicationReceipt("public.flights_backup", "16600", SHADOW.contract, "16500", 0) == receipt
    assert [SWAP] == stage.ledger.swapped
    assert [
        "publishing: public.flights_shadow is counted, and becomes public.flights",
        "  what is live now is kept as public.flights_backup, with what others have written to it since the load began",
        "published: public.flights is what was loaded",
    ] == stage.told


def test_it_is_published_once_whoever_finds_it():
    stage = Stage()
    stage.publish()
    assert "published" == stage.publish().status
    assert 1 == len(stage.ledger.swapped)


@pytest.mark.parametrize(
    "content, told",
    [
        (ShadowContent(rows=3, duplicate_keys=0), "holds 3 rows, and 0 were committed"),
        (ShadowContent(rows=0, duplicate_keys=2), r"2 values of the unique key \(id\) stand more than once"),
    ],
)
def test_a_shadow_that_is_not_what_was_committed_is_never_published(content, told):
    stage = Stage()
    stage.ledger.shadow_content = content
    with pytest.raises(PublicationMismatchError, match=told):
        stage.publish()
    assert ([], "complete") == (stage.ledger.swapped, stage.ledger.read_campaign(RUN_KEY).status)


def test_a_campaign_without_all_its_receipts_is_never_published():
    stage = Stage()
    stage.write(replace(moved(stage.campaign, CampaignStatus.COMPLETE)), EventKind.COMPLETED)
    stage.campaign = replace(stage.campaign, chunks_total=1)
    stage.ledger._campaigns[RUN_KEY] = replace(stage.ledger._campaigns[RUN_KEY], chunks_total=1)
    with pytest.raises(PublicationMismatchError, match="0 of 1 chunks"):
        stage.publish()
    assert [] == stage.ledger.swapped


def test_what_was_cancelled_meanwhile_is_not_published():
    stage = Stage()
    stage.write(
        moved(stage.campaign, CampaignStatus.CANCEL_REQUESTED, reason="no"), EventKind.CANCEL_REQUESTED
    )
    with pytest.raises(CampaignStoppedError, match="cancel_requested"):
        stage.publish()
    assert [] == stage.ledger.swapped


def test_a_round_that_has_begun_meanwhile_is_left_alone():
    stage = Stage()
    again = replace(moved(stage.campaign, CampaignStatus.OPEN), round=2)
    stage.write(again, EventKind.ROUND_BEGUN)
    assert ("open", 2) == (stage.publish().status, stage.ledger.read_campaign(RUN_KEY).round)
    assert [] == stage.ledger.swapped


def test_other_tables_than_those_that_were_looked_at_are_left_alone():
    stage = Stage(target=replace(TARGET, relation="17000"))
    with pytest.raises(CampaignDriftError, match="are not those"):
        stage.publish()
    assert [] == stage.ledger.swapped


def test_a_run_whose_session_lock_is_gone_publishes_nothing():
    stage = Stage()
    stage.fence = MemoryFence()
    stage.fence.lose()
    with pytest.raises(CampaignLeaseLostError):
        stage.publish()
    assert [] == stage.ledger.swapped


class LosesAnswers(MemoryLedger):
    """Its publications happen or not, and nobody hears of it."""

    def __init__(self, stage: Stage, *, happens: bool, times: int) -> None:
        super().__init__(stage.clock.now)
        self._campaigns = stage.ledger._campaigns
        self._happens, self._times = happens, times

    def publish(self, *arguments, **options):
        if self._happens or self._times <= 0:
            super().publish(*arguments, **options)
        if self._times > 0:
            self._times -= 1
            raise DatabaseFailedError("the connection broke", next_step="run it again", transient=True)


def test_a_lost_answer_to_a_commit_that_happened_is_a_publication():
    stage = Stage()
    ledger = LosesAnswers(stage, happens=True, times=1)
    assert "published" == stage.publish(ledger).status
    assert 1 == len(ledger.swapped)


@pytest.mark.parametrize("times, published", [(2, True), (3, False)])
def test_a_publication_that_breaks_is_tried_three_times(times, published):
    stage = Stage()
    ledger = LosesAnswers(stage, happens=False, times=times)
    if published:
        assert "published" == stage.publish(ledger).status
    else:
        with pytest.raises(DatabaseFailedError):
            stage.publish(ledger)
    assert published is bool(ledger.swapped)


class HeldByAnother(MemoryLedger):
    """Another run holds the campaign; it publishes after so many looks, or never."""

    def __init__(self, stage: Stage, looks: int | None) -> None:
        super().__init__(stage.clock.now)
        self._campaigns, self._stage, self._looks = stage.ledger._campaigns, stage, looks

    def publish(self, *_arguments, **_options):
        self._stage.clock.advance(timedelta(seconds=15))
        if self._looks is not None:
            self._looks -= 1
            if self._looks == 0:
                self._stage.publish()
        raise CampaignBusyError("held by another run", next_step="wait", run_key=RUN_KEY)


def test_a_run_waits_for_another_one_that_publishes():
    stage = Stage()
    assert "published" == stage.publish(HeldByAnother(stage, 3)).status
    assert 1 == stage.told.count("  waiting: held by another run")


def test_a_run_waits_ten_minutes_at_most():
    stage = Stage()
    with pytest.raises(CampaignBusyError):
        stage.publish(HeldByAnother(stage, None))
    assert OTHERS_WAIT == stage.clock.elapsed()


def test_a_run_that_is_told_to_stop_does_not_wait():
    stage = Stage()
    stage.stopped = True
    with pytest.raises(CampaignBusyError):
        stage.publish(HeldByAnother(stage, None))
    assert timedelta(seconds=15) == stage.clock.elapsed()


@given(name=st.text(min_size=1, max_size=80), run_key=st.text(min_size=1, max_size=100))
def test_names_beside_a_table_fit_and_tell_campaigns_and_rounds_apart(name, run_key):
    live = TableName(schema="s", name=name)
    names = [
        shadow_name(live, run_key, 63),
        backup_name(live, run_key, 1, 63),
        backup_name(live, run_key, 2, 63),
        backup_name(live, run_key + "x", 1, 63),
    ]
    assert 4 == len(set(map(str, names)))
    assert all(len(found.name.encode(errors="surrogatepass")) <= 63 for found in names)


def test_names_begin_like_the_table_and_say_what_they_are():
    live = TableName(schema="s", name="заказы" * 10)
    found = shadow_name(live, RUN_KEY, 63).name
    assert found.startswith("заказызаказы")
    assert "__dpone_shadow_" in found
    assert len(found.encode()) in (62, 63)


def test_no_two_tables_share_a_shadow_though_both_names_are_cut_off():
    one, two = (TableName(schema="s", name="x" * 60 + end) for end in "ab")
    assert shadow_name(one, RUN_KEY, 63) != shadow_name(two, RUN_KEY, 63)


@pytest.mark.parametrize("detail", [None, "", "365 rows", "{}", '{"rows": 1}', "[]"])
def test_an_event_that_says_something_else_is_no_receipt(detail):
    event = Event(RUN_KEY, EventKind.PUBLISHED, 1, 2, detail=detail)
    assert publication_receipt(event) is None


def test_no_other_event_is_a_receipt():
    text = PublicationReceipt(None, "1", "sha256:x", "2", 3).to_text()
    assert publication_receipt(Event(RUN_KEY, EventKind.COMPLETED, 1, 2, detail=text)) is None
    assert 3 == publication_receipt(Event(RUN_KEY, EventKind.PUBLISHED, 1, 2, detail=text)).rows
