"""What the port means for publications, written once; a backend brings its tables and runs every test, or refuses them all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import pytest

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import (
    CampaignBusyError,
    CampaignDriftError,
    CampaignStoppedError,
    OverlapError,
    PublicationMismatchError,
)
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.sql import ledger as sql_ledger
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, Shadow, Window, published
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.publication import Swap
from dpone_runtime.ports.ledger import CampaignLedger, Change, PublicationView, StaleRevisionError
from dpone_runtime.services.open_campaign import (
    Opening,
    begin_round,
    cancel_campaign,
    complete_campaign,
    open_campaign,
)
from dpone_runtime.services.publish_campaign import Publication, PublicationTools, publish_campaign
from tests.campaign_factories import RUN_KEY, make_campaign, make_plan
from tests.conformance.ledger_suite import claims_of, commit, commit_all

SOON = timedelta(seconds=0.2)
MANY = 8
ROWS = 5


class PublicationTables(Protocol):
    """The tables of a suite: one live table, and the shadows of its campaigns."""

    def wanted(self, run_key: RunKey) -> Campaign:
        """Look at the live table and make a shadow, or find it; give the campaign that loads it."""

    def swap(self, campaign: Campaign) -> Swap:
        """Give what a campaign's publication exchanges."""

    def write(self, swap: Swap, rows: int) -> None:
        """Add rows to a shadow."""

    def live(self) -> str:
        """Give the relation that the live table's name stands for."""

    def ledgers(self, count: int) -> list[CampaignLedger]:
        """Give as many ledgers of other coordinators."""


def publishing(ledger: CampaignLedger, seen: list[PublicationView], off: int = 0) -> Callable[..., Change]:
    """Give the decision that publishes whatever it sees; `off` is how far its revision is from the next one."""

    def decide(view: PublicationView) -> Change:
        seen.append(view)
        assert view.campaign is not None
        after = published(view.campaign)
        after = replace(after, revision=after.revision + off)
        event = Event(after.run_key, EventKind.PUBLISHED, after.round, after.revision, detail="{}")
        return Change(event, campaign=after)

    return decide


def publish(ledger: CampaignLedger, tables: PublicationTables, campaign: Campaign) -> Campaign:
    """Publish as a mapped item does."""
    tools = PublicationTools(ledger, elapsed, lambda: False, None)
    return publish_campaign(tools, campaign, Publication(tables.swap(campaign), lambda _line: None))


def make_swap(live_relation: str, shadow: Shadow) -> Swap:
    """A swap of two tables of a suite that has none."""
    live, aside, backup = (
        TableName.model_validate({"schema": "public", "name": name})
        for name in ("flights", "aside", "backup")
    )
    return Swap(live, aside, backup, live_relation, shadow.relation, shadow.contract, retain_backup=True)


def elapsed() -> timedelta:
    """Give the time of this process."""
    return timedelta(seconds=time.monotonic())


def beside(campaign: Campaign) -> Campaign:
    """Another campaign on the same target, which loads it directly, days that nobody else does."""
    window = Window("flight_date", "date", "2014-01-01", "2014-01-06")
    return make_campaign(make_plan(run_key="another"), target=campaign.target, window=window)


class PublicationConformance:
    """A subclass gives the fixtures of `LedgerConformance`, and `tables`."""

    @pytest.fixture
    def complete(self, backend, ledger, tables) -> Campaign:
        """A campaign of five chunks of one row each, all committed into its shadow."""
        campaign = open_campaign(ledger, tables.wanted(RUN_KEY)).campaign
        commit_all(backend, claims_of(ledger))
        tables.write(tables.swap(campaign), ROWS)
        return ledger.read_campaign(RUN_KEY)

    def test_what_a_campaign_loads_is_kept(self, ledger, tables):
        wanted = tables.wanted(RUN_KEY)
        open_campaign(ledger, wanted)
        found = ledger.read_campaign(RUN_KEY)
        assert (wanted.shadow, wanted.target) == (found.shadow, found.target)
        assert found.shadow is not None

    def test_a_change_is_written_with_the_swap(self, backend, ledger, tables, complete):
        before, seen = tables.live(), []
        change = ledger.publish(RUN_KEY, tables.swap(complete), publishing(ledger, seen), fenced=False)
        assert change is not None
        found = ledger.read_campaign(RUN_KEY)
        assert (CampaignStatus.PUBLISHED, complete.revision + 1) == (found.status, found.revision)
        assert (complete.shadow.relation, None) == (found.target.relation, found.shadow)
        assert complete.shadow.relation == tables.live() != before
        assert EventKind.PUBLISHED is backend.events()[-1].kind

    def test_a_decision_sees_the_receipts_of_the_round_and_what_the_shadow_holds(
        self, ledger, tables, complete
    ):
        tables.write(tables.swap(complete), 2)
        seen = []
        ledger.publish(RUN_KEY, tables.swap(complete), publishing(ledger, seen), fenced=False)
        (view,) = seen
        assert (ROWS, ROWS, ROWS + 2) == (view.receipts.chunks, view.receipts.rows, view.content.rows)
        assert complete == view.campaign

    def test_without_a_change_nothing_happens(self, backend, ledger, tables, complete):
        self._leaves_all(
            backend,
            tables,
            lambda: ledger.publish(RUN_KEY, tables.swap(complete), lambda _: None, fenced=False),
        )

    def test_a_refusal_leaves_everything_and_goes_on(self, backend, ledger, tables, complete):
        def refuse(_view: PublicationView) -> None:
            raise OverlapError("no")

        def act() -> None:
            with pytest.raises(OverlapError):
                ledger.publish(RUN_KEY, tables.swap(complete), refuse, fenced=False)

        self._leaves_all(backend, tables, act)

    @pytest.mark.parametrize("off", [-1, 1])
    def test_a_revision_that_has_moved_leaves_the_tables(self, backend, ledger, tables, complete, off):
        def act() -> None:
            with pytest.raises(StaleRevisionError):
                ledger.publish(RUN_KEY, tables.swap(complete), publishing(ledger, [], off), fenced=False)

        self._leaves_all(backend, tables, act)

    def _leaves_all(self, backend, tables, act: Callable[[], object]) -> None:
        """Require that nothing has changed, and that no lock is left: another one publishes at once."""
        before = tables.live(), backend.events(), backend.ledger.read_campaign(RUN_KEY)
        act()
        assert before == (tables.live(), backend.events(), backend.second.read_campaign(RUN_KEY))
        swap = tables.swap(before[2])
        assert backend.second.publish(RUN_KEY, swap, publishing(backend.second, []), fenced=False) is not None
        assert before[0] != tables.live()

    @pytest.mark.parametrize("fenced", [False, True])
    def test_an_item_waits_for_the_fence_of_a_run_and_the_run_does_not(
        self, backend, ledger, tables, complete, monkeypatch, fenced
    ):
        monkeypatch.setattr(sql_ledger, "PUBLICATION_WAIT", SOON)
        refusal = nullcontext() if fenced else pytest.raises(CampaignBusyError)
        with backend.second.fence(RUN_KEY), refusal:
            ledger.publish(RUN_KEY, tables.swap(complete), publishing(ledger, []), fenced=fenced)
        status = CampaignStatus.PUBLISHED if fenced else CampaignStatus.COMPLETE
        assert status is ledger.read_campaign(RUN_KEY).status

    def test_many_that_publish_at_once_publish_once(self, backend, tables, complete):
        together = threading.Barrier(MANY)

        def act(ledger: CampaignLedger) -> CampaignStatus:
            together.wait(30)
            return publish(ledger, tables, complete).status

        with ThreadPoolExecutor(MANY) as pool:
            statuses = list(pool.map(act, tables.ledgers(MANY)))
        assert [CampaignStatus.PUBLISHED] * MANY == statuses
        assert 1 == sum(event.kind is EventKind.PUBLISHED for event in backend.events())
        assert complete.shadow.relation == tables.live()

    def test_what_is_published_is_not_published_again(self, backend, ledger, tables, complete):
        publish(ledger, tables, complete)
        before = backend.events()
        assert CampaignStatus.PUBLISHED is publish(ledger, tables, complete).status
        assert before == backend.events()

    def test_rows_that_no_chunk_has_committed_are_not_published(self, backend, ledger, tables, complete):
        tables.write(tables.swap(complete), 1)
        before = tables.live(), backend.events()
        with pytest.raises(PublicationMismatchError, match="6 rows, and 5 were committed"):
            publish(ledger, tables, complete)
        assert before == (tables.live(), backend.events())

    def test_a_campaign_that_is_cancelled_is_neither_completed_nor_published(self, backend, ledger, tables):
        campaign = open_campaign(ledger, tables.wanted(RUN_KEY)).campaign
        for index in range(1, ROWS + 1):
            commit(backend, claims_of(ledger), index)
        cancel_campaign(ledger, campaign, reason="stop", by=None)
        assert CampaignStatus.CANCEL_REQUESTED is complete_campaign(ledger, campaign, ROWS).status
        before = tables.live()
        with pytest.raises(CampaignStoppedError):
            publish(ledger, tables, campaign)
        assert before == tables.live()

    def test_what_is_complete_may_be_cancelled_until_it_is_published(self, ledger, tables, complete):
        cancel_campaign(ledger, complete, reason="stop", by=None)
        with pytest.raises(CampaignStoppedError):
            publish(ledger, tables, complete)
        resumed = open_campaign(ledger, tables.wanted(RUN_KEY), reason="go on").campaign
        assert (
            CampaignStatus.PUBLISHED
            is publish(ledger, tables, complete_campaign(ledger, resumed, ROWS)).status
        )
        with pytest.raises(CampaignStoppedError, match="nothing to cancel"):
            cancel_campaign(ledger, complete, reason="stop", by=None)

    # Beside other campaigns.

    def test_what_is_complete_and_not_published_is_in_the_way_of_everything(self, ledger, tables, complete):
        elsewhere = beside(complete)
        assert [RUN_KEY] == [
            other.campaign.run_key for other in ledger.others(elsewhere.run_key, complete.target)
        ]
        with pytest.raises(OverlapError, match="everything"):
            open_campaign(ledger, elsewhere)

    def test_what_is_published_is_found_on_its_new_target(self, ledger, tables, complete):
        publish(ledger, tables, complete)
        target = ledger.read_campaign(RUN_KEY).target
        append = replace(
            beside(complete), target=target, inner_mode="incremental_append", window=complete.window
        )
        with pytest.raises(OverlapError, match="load them twice"):
            open_campaign(ledger, append)
        assert Opening.CREATED is open_campaign(ledger, replace(append, window=beside(complete).window)).how

    def test_nothing_of_a_shadow_is_in_the_target_before_it_is_published(self, ledger, tables, complete):
        cancel_campaign(ledger, complete, reason="stop", by=None)
        append = replace(beside(complete), inner_mode="incremental_append", window=complete.window)
        assert Opening.CREATED is open_campaign(ledger, append).how

    # Runs that come later.

    def test_a_run_that_looked_before_the_swap_has_nothing_to_do(self, backend, ledger, tables, complete):
        looked = tables.wanted(RUN_KEY)
        publish(ledger, tables, complete)
        before = backend.events()
        for reason in (None, "go on"):
            assert Opening.COMPLETE is open_campaign(ledger, looked, reason=reason).how
        assert before == backend.events()

    def test_a_round_that_is_begun_anew_has_another_shadow_and_is_published_too(
        self, backend, ledger, tables, complete
    ):
        publish(ledger, tables, complete)
        first = tables.live()
        wanted = tables.wanted(RUN_KEY)
        with pytest.raises(CampaignStoppedError, match="is published"):
            begin_round(ledger, wanted, reason="again", only=frozenset({1}))
        begun = begin_round(ledger, wanted, reason="again")
        assert (2, wanted.shadow, first) == (begun.round, begun.shadow, begun.target.relation)
        commit_all(backend, claims_of(ledger))
        campaign = ledger.read_campaign(RUN_KEY)
        tables.write(tables.swap(campaign), ROWS)
        assert CampaignStatus.PUBLISHED is publish(ledger, tables, campaign).status
        assert wanted.shadow.relation == tables.live() != first

    def test_a_publication_of_a_round_that_is_over_does_nothing(self, ledger, tables, complete):
        publish(ledger, tables, complete)
        live = tables.live()
        begin_round(ledger, tables.wanted(RUN_KEY), reason="again")
        assert 2 == publish(ledger, tables, complete).round
        assert live == tables.live()

    def test_a_run_without_a_shadow_does_not_load_what_another_loads_into_one(self, ledger, tables):
        wanted = tables.wanted(RUN_KEY)
        open_campaign(ledger, wanted)
        with pytest.raises(CampaignDriftError):
            open_campaign(ledger, replace(wanted, shadow=None))
