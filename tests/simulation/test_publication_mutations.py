"""Each guard of the publication taken away: the simulation notices, or it is said which other guard stands in for it, and proved."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.services import open_campaign, publish_campaign, run_campaign
from tests.simulation import exchange, invariants, world
from tests.simulation.invariants import completion_is_recorded_when_all_is_committed
from tests.simulation.mutating import conditions, failure, rewrite, without, without_locks
from tests.simulation.preparation import LIVE, LoadedTable, Prepared
from tests.simulation.stories import Family
from tests.simulation.weakening import SOUND, Weakening

FAMILIES = (Family.PUBLISHING, Family.REPUBLISHING)

Change = Callable[[pytest.MonkeyPatch], None]
Texts = tuple[str, str]


def publishes(*changes: Texts) -> Change:
    """Change what comes around the swap in a publication's transaction."""
    return lambda patch: rewrite(patch, SqlLedger, "publish", *changes)


def exchanges(*changes: Texts) -> Change:
    """Change how a publication is decided, and the tables are exchanged."""
    return lambda patch: rewrite(patch, SqlLedger, "_exchanged", *changes)


def decides(*changes: Texts) -> Change:
    """Change what a publication asks before it is decided."""
    return lambda patch: rewrite(patch, publish_campaign, "_publish", *changes)


def counts(*changes: Texts) -> Change:
    """Change what of the shadow and its receipts has to agree."""
    return lambda patch: rewrite(patch, publish_campaign, "_require_whole", *changes)


def swaps(*changes: Texts) -> Change:
    """Change the exchange of the two tables."""
    return lambda patch: rewrite(patch, exchange, "swap_tables", *changes)


def together(*changes: Change) -> Change:
    def change(patch: pytest.MonkeyPatch) -> None:
        for one in changes:
            one(patch)

    return change


def nothing(_patch: pytest.MonkeyPatch) -> None:
    """Change no code."""


def no_lock(scope: str) -> Texts:
    return f'    query("lock", lock={scope}),\n', ""


def never(condition: str) -> Texts:
    return f"if {condition}:", "if False:"


TARGET = no_lock('session.lock_value("target", swap.live_relation)')
TRANSITION = no_lock('self._lock("transition", run_key)')
CLOSE = no_lock('self._lock("close", run_key)')
REVISION = without(conditions("update_campaign", "revision = :revision - 1"))
STATUS = ("require_open(current)\n        if not current.publishable:", "if current.shadow is None:")
ROUND = (" or current.round != campaign.round", "")
ROWS = never("view.content.rows != view.receipts.rows")
RECEIPTS = never("view.receipts.chunks != current.chunks_total")
BACKUP = never('batch((named("find_table", table=str(swap.backup)),))[0]')
TWO_TRANSACTIONS = (
    "        if held is None:\n",
    """        if held is None:
            if change is not None:
                session.batch((query("commit"), query("begin")))
""",
)
WITH_ITS_COMMIT = ("wrote_before=True", "wrote_before=False")


def any_tables(patch: pytest.MonkeyPatch) -> None:
    """The campaign's row may name other tables than those that are exchanged."""
    patch.setattr(publish_campaign, "_require_same_tables", lambda current, swap: None)


def any_relation(patch: pytest.MonkeyPatch) -> None:
    """The names may stand for other tables than those that the campaign began with."""
    patch.setattr(exchange, "require_relation", lambda batch, table, relation: None)


def loads_the_live_table(patch: pytest.MonkeyPatch) -> None:
    """Lanes are told the live table, and not the shadow."""
    prepare = world.prepare

    def prepared(*asked, **how):
        found = prepare(*asked, **how)
        return Prepared(found.wanted, LoadedTable(LIVE, found.wanted.target.relation))

    patch.setattr(world, "prepare", prepared)


def completes_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch,
        open_campaign,
        "complete_campaign",
        never("current.shadow is not None and current.status is not CampaignStatus.OPEN"),
    )
    patch.setattr(run_campaign, "complete_campaign", open_campaign.complete_campaign)


def completes_without_a_count(patch: pytest.MonkeyPatch) -> None:
    """Also where it should not, which is not what is looked for here."""
    complete, unasked = run_campaign.complete_campaign, completion_is_recorded_when_all_is_committed
    patch.setattr(
        run_campaign,
        "complete_campaign",
        lambda ledger, campaign, _count: complete(ledger, campaign, campaign.chunks_total),
    )
    others = tuple(one for one in invariants.INVARIANTS if one is not unasked)
    patch.setattr(invariants, "INVARIANTS", others)


def believes_any_refusal(patch: pytest.MonkeyPatch) -> None:
    """A refusal is told before the campaign's row is read."""
    found = "        try:\n            found = tools.ledger.read_campaign"
    told = "        if refusal and not isinstance(refusal, CampaignBusyError):\n            raise refusal\n"
    rewrite(patch, publish_campaign, "publish_campaign", (found, told + found))
    patch.setattr(run_campaign, "publish_campaign", publish_campaign.publish_campaign)


def waits_for_any_fence(patch: pytest.MonkeyPatch) -> None:
    """Nobody takes the fence of a run that is stopped for ever."""
    taking = '        self._read("end_silent_run", lock=lock, run_key=run_key, silence=LEASE_TTL)\n'
    rewrite(patch, SqlLedger, "_begin_publication", (taking, ""))


@dataclass(frozen=True)
class Mutation:
    """What is missing, and as what it is noticed."""

    change: Change
    broken: tuple[str, ...]
    missing: Weakening = SOUND


NOTICED = {
    "lanes load the shadow": Mutation(loads_the_live_table, ("own table", "exactly once")),
    "lock of the target": Mutation(exchanges(TARGET), ("put aside",)),
    "lock of the transition": Mutation(exchanges(TRANSITION), ("crash", "revision")),
    "status of the campaign": Mutation(decides(STATUS), ("stopped",)),
    "count of the rows": Mutation(counts(ROWS), ("whole",)),
    "lock of the shadow against writers": Mutation(
        nothing, ("whole",), Weakening(table_locks=frozenset({"SHARE"}))
    ),
    "relations of the swap": Mutation(any_relation, ("receipt",)),
    "the swap and its receipt are one transaction": Mutation(exchanges(TWO_TRANSACTIONS), ("receipt",)),
    "what is cancelled is not completed": Mutation(completes_what_was_cancelled, ("stopped",)),
    "the fence of a silent run is taken": Mutation(waits_for_any_fence, ("stuck",)),
    "the row is read before a refusal is believed": Mutation(believes_any_refusal, ("untrue",)),
}


@pytest.mark.parametrize("mutation", NOTICED.values(), ids=NOTICED)
def test_what_is_missing_is_noticed(monkeypatch, mutation):
    mutation.change(monkeypatch)
    failed = failure(mutation.missing, FAMILIES)
    assert failed is not None
    assert failed.name in mutation.broken, failed.found


# Of several guards one is enough, whichever it is, and without all of them it is noticed.


@dataclass(frozen=True)
class Redundant:
    """Guards that stand in for one another: `alone` are all but one of them, each left out in turn."""

    alone: dict[str, tuple[Change, Weakening]]
    all: Mutation
    families: tuple[Family, ...] = FAMILIES


LATE = {
    "relations": any_relation,
    "round": decides(ROUND),
    "tables": any_tables,
    "name of the backup": swaps(BACKUP),
}
"""What keeps a run that comes to its swap when the next round waits for its own from making that one's."""

REDUNDANT = {
    # A campaign's row changes under the transition lock alone.
    "revision of the campaign": Redundant(
        {"lock of the transition": (nothing, REVISION)},
        Mutation(exchanges(TRANSITION), ("revision", "receipt"), REVISION),
    ),
    # And an update that matches no row would be committed with the swap, if it were not looked at before.
    "look at the update before its COMMIT": Redundant(
        {"lock of the transition": (publishes(WITH_ITS_COMMIT), SOUND)},
        Mutation(together(exchanges(TRANSITION), publishes(WITH_ITS_COMMIT)), ("receipt", "crash")),
    ),
    # What is complete has every chunk committed.
    "count of the receipts": Redundant(
        {"count before the completion": (counts(RECEIPTS), SOUND)},
        Mutation(together(completes_without_a_count, counts(RECEIPTS)), ("whole",)),
    ),
    "what tells rounds apart": Redundant(
        {
            left: (together(*(change for name, change in LATE.items() if name != left)), SOUND)
            for left in LATE
        },
        Mutation(together(*LATE.values()), ("receipt",)),
        (Family.REPUBLISHING,),
    ),
}


@pytest.mark.parametrize(
    "guards, left", [(name, left) for name, guards in REDUNDANT.items() for left in guards.alone]
)
def test_one_of_several_guards_is_enough(monkeypatch, guards, left):
    change, missing = REDUNDANT[guards].alone[left]
    change(monkeypatch)
    assert failure(missing, REDUNDANT[guards].families, 300) is None


@pytest.mark.parametrize("guards", REDUNDANT.values(), ids=REDUNDANT)
def test_without_all_of_them_it_is_noticed(monkeypatch, guards):
    guards.all.change(monkeypatch)
    failed = failure(guards.all.missing, guards.families)
    assert failed is not None
    assert failed.name in guards.all.broken, failed.found


def test_nothing_is_published_that_was_completed_by_mistake(monkeypatch):
    """The count of the receipts refuses it, for ever."""
    completes_without_a_count(monkeypatch)
    failed = failure(families=FAMILIES)
    assert failed is not None
    assert "stuck" == failed.name


@pytest.mark.parametrize(
    "change, missing",
    [
        (exchanges(CLOSE), SOUND),
        (nothing, without_locks("fence")),
        (decides(never("tools.fence is not None and not tools.fence.held()")), SOUND),
        (exchanges(CLOSE), without_locks("fence")),
    ],
    ids=["lock of the close", "fence of an item", "fence of a run", "all of them"],
)
def test_correctness_does_not_rest_on_what_keeps_others_from_trying(monkeypatch, change, missing):
    """Of what is complete nothing is left that could commit; and of two that publish the second finds that it has happened."""
    change(monkeypatch)
    assert failure(missing, FAMILIES, 300) is None
