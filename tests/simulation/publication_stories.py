"""Stories of campaigns that are published: who races whom to the swap, what breaks in it, and what others do to the tables."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from dpone_contract.manifest import InnerMode
from tests.simulation.decisions import Kind, Load, Setup, Start
from tests.simulation.story import Story, clocks, mode
from tests.simulation.strangers import Deed

STEPS = (
    *("receipts", "count_table", "lock_both", "rename_table", "update_campaign"),
    *("lock_table", "find_table", "pause", "completed"),
)
"""Statements of a publication, after which something is made to happen."""


def publishing(chance: Random) -> Story:
    """Runs and items race to complete a campaign and to publish it, while it is cancelled, resumed, and others use its tables."""
    if chance.random() < 0.15:
        return _opened_meanwhile(chance)
    loads = [Load("a", 0, chance.randint(1, 2), mode=mode(chance), swaps=True)]
    if chance.random() < 0.5:
        swaps = chance.random() < 0.4
        loads.append(Load("b", chance.randint(0, 1), 1, mode=mode(chance), swaps=swaps))
    story = Story(Setup(tuple(loads), chance.choice((None, 1, 2))), 480, calm=2)
    runs = chance.randint(1, 3)
    for number in range(1, runs + 1):
        _run(story, chance, number, step=chance.randint(0, chance.choice((30, 110))) * (number > 1))
    if len(loads) > 1:
        other = Start("other", chance.choice((Kind.ITEM, Kind.INTERNAL)), 1, clocks=clocks(chance))
        story.start(chance.randint(0, 200), other)
    if chance.random() < 0.4:
        _cancel(story, chance)
    _disturb(story, chance, runs)
    _strangers(story, chance)
    return story


def republishing(chance: Random) -> Story:
    """A campaign is begun anew, before it is published or after: into the same shadow, or into another."""
    if chance.random() < 0.2:
        return _late(chance)
    load = Load("a", 0, chance.randint(1, 2), mode=InnerMode.PARTITION_REPLACE, swaps=True)
    others = (Load("b", 0, 1, mode=mode(chance)),) if chance.random() < 0.3 else ()
    story = Story(Setup((load, *others), chance.choice((None, 2))), 560, calm=2)
    runs = chance.randint(1, 3)
    for number in range(1, runs + 1):
        _run(story, chance, number, step=chance.randint(0, 120) * (number - 1))
    for number in range(1, chance.randint(1, 3) + 1):
        only = frozenset({chance.randint(1, load.chunks)}) if chance.random() < 0.2 else None
        again = Start(f"restart {number}", Kind.RESTART, 0, only=only, clocks=clocks(chance))
        if chance.random() < 0.3:
            story.start(chance.randint(60, 260), again)
        else:  # once it is published, as far as one of these publishes it
            story.start_after(
                f"run {chance.randint(1, 2)}/ledger", "rename_table", chance.randint(2, 40), again
            )
        if chance.random() < 0.7:
            load_anew = Start(f"run {runs + number}", Kind.ITEM, 0, clocks=clocks(chance))
            story.start_after(f"restart {number}/ledger", "find_ledgers", chance.randint(4, 40), load_anew)
    if others:
        story.start(chance.randint(0, 250), Start("other", Kind.ITEM, 1, clocks=clocks(chance)))
    if chance.random() < 0.4:  # a publication that was decided upon long ago
        story.after("run 1/ledger", "update_campaign", 1, "freeze", "run 1")
        story.at(chance.randint(200, 480), "wake", "run 1")
    if chance.random() < 0.2:
        _cancel(story, chance)
    _disturb(story, chance, runs)
    return story


def _late(chance: Random) -> Story:
    """A run is about to publish, and comes to it when another has, and the next round is loaded and not published."""
    load = Load("a", 0, 1, mode=InnerMode.PARTITION_REPLACE, swaps=True)
    story = Story(Setup((load,)), 620, calm=8)

    def item(name: str) -> Start:
        return Start(name, Kind.ITEM, 0, clocks=clocks(chance))

    story.start(0, item("run 1"))
    late, next_round = "run 1/ledger", "run 3/ledger"
    story.after(late, "update_campaign", chance.randint(3, 8), "freeze", late)
    story.start_after(late, "update_campaign", 9, item("run 2"))
    story.start_after(
        "run 2/ledger", "rename_table", chance.randint(3, 12), Start("restart 1", Kind.RESTART, 0)
    )
    story.start_after("restart 1/ledger", "update_campaign", chance.randint(2, 8), item("run 3"))
    story.after(next_round, "update_campaign", chance.randint(2, 6), "freeze", next_round)
    story.after(next_round, "update_campaign", chance.randint(9, 12), "wake", late)
    story.after(next_round, "update_campaign", chance.randint(15, 90), "wake", next_round)
    return story


def _run(story: Story, chance: Random, number: int, *, step: int) -> None:
    kind = chance.choice((Kind.ITEM, Kind.ITEM, Kind.INTERNAL))
    reason = "go on" if chance.random() < 0.3 else None
    story.start(step, Start(f"run {number}", kind, 0, reason=reason, clocks=clocks(chance)))


def _opened_meanwhile(chance: Random) -> Story:
    """Another campaign is opened on the same target while the first is exchanged."""
    other = Load("b", chance.randint(0, 1), 1, mode=mode(chance), swaps=chance.random() < 0.4)
    story = Story(Setup((Load("a", 0, 1, mode=mode(chance), swaps=True), other)), 320, calm=8)
    _run(story, chance, 1, step=0)
    opens = Start("other", chance.choice((Kind.ITEM, Kind.INTERNAL)), 1, clocks=clocks(chance))
    story.start_after("run 1/ledger", chance.choice(("count_table", "receipts")), chance.randint(0, 6), opens)
    # It has looked at the target's name, and looks at the campaigns that are there when the exchange is over.
    story.after("other/ledger", "campaigns_on_target", chance.randint(4, 20), "freeze", "other")
    story.after("run 1/ledger", "rename_table", chance.randint(6, 30), "wake", "other")
    return story


def _cancel(story: Story, chance: Random) -> None:
    """Anywhere, or while the campaign is being completed or published."""
    cancel = Start("cancel", Kind.CANCEL, 0, clocks=clocks(chance))
    if chance.random() < 0.5:
        statement = chance.choice(("count_table", "receipts", "lock_both", "rename_table"))
        story.start_after("run 1/ledger", statement, chance.randint(0, 6), cancel)
        if chance.random() < 0.5:
            story.after("cancel/ledger", "count_live", 0, "freeze", "cancel")
            story.after("run 1/ledger", "rename_table", chance.randint(4, 20), "wake", "cancel")
    else:
        story.start(chance.randint(20, 200), cancel)
    if chance.random() < 0.6:
        story.after(
            "run 1/", chance.choice(("complete_chunk", "receipts", "count_table")), 0, "freeze", "run 1"
        )
        story.at(chance.randint(120, 300), "wake", "run 1")
    if chance.random() < 0.5:
        story.start(
            chance.randint(150, 350), Start("resume", Kind.ITEM, 0, reason="go on", clocks=clocks(chance))
        )


def _disturb(story: Story, chance: Random, runs: int) -> None:
    """Kill, freeze or cut off a run at one of the statements of its publication, its COMMIT above all."""
    for _ in range(chance.randint(0, 2)):
        run = f"run {chance.randint(1, runs)}"
        statement, ledger = chance.choice(STEPS), f"{run}/ledger"
        delay = chance.randint(0, 3)
        match chance.randrange(5):
            case 0:
                story.after(ledger, "rename_table", chance.randint(0, 9), "lose the answer of", ledger)
            case 1:  # its COMMIT takes its time, and its answer is lost
                slow = chance.randint(3, 8)
                lost = slow + chance.randint(2, 8)
                story.after(ledger, "rename_table", slow, "freeze", ledger)
                story.after(ledger, "rename_table", lost, "lose the answer of", ledger)
                story.after(ledger, "rename_table", lost + chance.randint(0, 60), "wake", ledger)
            case 2:
                story.after(ledger, statement, delay, chance.choice(("kill", "vanish")), run)
            case 3:
                story.after(ledger, statement, delay, "freeze", run)
                story.after(ledger, statement, chance.randint(5, 60), "wake", run)
            case _:
                story.after(ledger, statement, delay, "freeze", ledger)
                story.after(ledger, statement, chance.randint(5, 60), "wake", ledger)


def _strangers(story: Story, chance: Random) -> None:
    """People read the live table for a while, or write to it; rarely they write to the shadow, or put another table in the place of one."""
    for number in range(1, chance.choice((0, 0, 1, 2)) + 1):
        deed = chance.choice((Deed.READ, Deed.READ, Deed.WRITE))
        start = Start(
            *(f"somebody {number}", Kind.STRANGER, 0),
            deed=deed,
            held=timedelta(seconds=chance.choice((0, 1, 5, 70, 110))),
            clocks=clocks(chance),
        )
        story.start(chance.randint(20, 220), start)
    if chance.random() < 0.25:
        start = Start(
            *("intruder", Kind.STRANGER, 0),
            deed=chance.choice((Deed.WRITE, Deed.REPLACE)),
            to_shadow=chance.random() < 0.5,
            held=timedelta(seconds=chance.choice((0, 1))),
            clocks=clocks(chance),
        )
        if chance.random() < 0.8:  # while it is counted and exchanged
            statement = chance.choice(("update_campaign", "count_table"))
            story.start_after("run 1/ledger", statement, chance.randint(0, 6), start)
        else:
            story.start(chance.randint(40, 220), start)
