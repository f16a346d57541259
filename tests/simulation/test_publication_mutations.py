"""Each guard of the publication taken away: the simulation notices, or it is said which other guard stands in for it, and proved."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.services import open_campaign, publish_campaign, run_campaign
from tests.simulation import exchange
from tests.simulation.mutating import conditions, failure, rewrite, without
from tests.simulation.stories import Family
from tests.simulation.weakening import SOUND, Weakening

FAMILIES = (Family.PUBLISHING, Family.REPUBLISHING)

Change = Callable[[pytest.MonkeyPatch], None]


def no_lock(purpose: str, scope: str) -> Change:
    """Take no lock of a purpose in the publication."""
    text = f'    query("lock", lock={scope}),\n'
    return lambda patch: rewrite(patch, SqlLedger, "publish", (text, ""))


def decides(*changes: tuple[str, str]) -> Change:
    return lambda patch: rewrite(patch, publish_campaign, "_publish", *changes)


def ignores(name: str) -> Change:
    """Let everything pass that a function of the publication refuses."""
    return lambda patch: patch.setattr(publish_campaign, name, lambda *_asked: None)


def together(*changes: Change) -> Change:
    def change(patch: pytest.MonkeyPatch) -> None:
        for one in changes:
            one(patch)

    return change


def any_relation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exchange, "require_relation", lambda batch, table, relation: None)


STATUS = ("require_open(current)\n        if not current.publishable:", "if current.shadow is None:")
ROUND = (" or current.round != campaign.round", "")
TRANSITION = no_lock("transition", 'self._lock("transition", run_key)')
TARGET = no_lock("target", 'session.lock_value("target", swap.live_relation)')
CLOSE = no_lock("close", 'self._lock("close", run_key)')
REVISION = without(conditions("update_campaign", "revision = :revision - 1"))
ROWS = ("    if view.content.rows != view.receipts.rows:", "    if False:")
RECEIPTS = ("    if view.receipts.chunks != current.chunks_total:", "    if False:")


def two_transactions(patch: pytest.MonkeyPatch) -> None:
    """The swap is committed before the campaign's row says so."""
    swap = "self._decided(lambda: session.swap_tables(swap))"
    rewrite(patch, SqlLedger, "publish", (swap, f'{swap}; session.batch((query("commit"), query("begin")))'))


def no_count_of_rows(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, publish_campaign, "_require_whole", ROWS)


def completes_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    shadow = "current.shadow is not None and current.status is not CampaignStatus.OPEN"
    rewrite(patch, open_campaign, "complete_campaign", (shadow, "False"))
    patch.setattr(run_campaign, "complete_campaign", open_campaign.complete_campaign)


def believes_any_refusal(patch: pytest.MonkeyPatch) -> None:
    """A refusal is reported before the campaign's row is read."""
    found = "    found = tools.ledger.read_campaign"
    told = "    if refusal is not None and not isinstance(refusal, CampaignBusyError):\n            raise refusal\n    "
    rewrite(patch, publish_campaign, "publish_campaign", (found, told + found))
    patch.setattr(run_campaign, "publish_campaign", publish_campaign.publish_campaign)


@dataclass(frozen=True)
class Mutation:
    """What is missing, and as what it is noticed."""

    change: Change
    broken: tuple[str, ...]
    missing: Weakening = SOUND


NOTICED = {
    "the status of the campaign": Mutation(decides(STATUS), ("stopped",)),
    "the count of rows": Mutation(no_count_of_rows, ("whole",)),
    "the lock of the shadow against writers": Mutation(
        lambda patch: None, ("whole",), Weakening(table_locks=frozenset({"SHARE"}))
    ),
    "the relations of the swap": Mutation(any_relation, ("receipt",)),
    "the swap in one transaction with its receipt": Mutation(two_transactions, ("receipt",)),
    "a cancelled campaign is not completed": Mutation(completes_what_was_cancelled, ("stopped",)),
    "the row is read before a refusal is believed": Mutation(believes_any_refusal, ("untrue",)),
}


@pytest.mark.parametrize("mutation", NOTICED.values(), ids=NOTICED)
def test_what_is_missing_is_noticed(monkeypatch, mutation):
    mutation.change(monkeypatch)
    failed = failure(mutation.missing, FAMILIES)
    assert failed is not None
    assert failed.name in mutation.broken, failed.found
