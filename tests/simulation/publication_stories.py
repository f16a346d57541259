"""Stories of campaigns that are published: who races whom to the swap, what breaks in it, and what others do to the tables."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from dpone_contract.manifest import InnerMode
from tests.simulation.decisions import Kind, Load, Setup, Start
from tests.simulation.story import Story, clocks, mode
from tests.simulation.strangers import Deed

STEPS = (
    *("receipts", "count_table", "lock_live", "rename_table", "update_campaign"),
    *("lock_table", "find_table", "pause", "completed"),
)
"""Statements of a publication, after which something is made to happen."""


def publishing(chance: Random) -> Story:
    """Runs and items race to complete a campaign and to publish it, while it is cancelled, resumed, and others use its tables."""
    loads = [Load("a", 0, chance.randint(1, 2), mode=mode(chance), swaps=True)]
    if chance.random() < 0.5:
        swaps = chance.random() < 0.4
        loads.append(Load("b", chance.randint(0, 1), 1, mode=mode(chance), swaps=swaps))
    story = Story(Setup(tuple(loads), chance.choice((None, 1, 2))), 420)
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
    load = Load("a", 0, chance.randint(1, 2), mode=InnerMode.PARTITION_REPLACE, swaps=True)
    others = (Load("b", 0, 1, mode=mode(chance)),) if chance.random() < 0.3 else ()
    story = Story(Setup((load, *others), chance.choice((None, 2))), 560)
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


def _run(story: Story, chance: Random, number: int, *, step: int) -> None:
    kind = chance.choice((Kind.ITEM, Kind.ITEM, Kind.INTERNAL))
    reason = "go on" if chance.random() < 0.3 else None
    story.start(step, Start(f"run {number}", kind, 0, reason=reason, clocks=clocks(chance)))


def _cancel(story: Story, chance: Random) -> None:
    """Anywhere, or while the campaign is being completed or published."""
    cancel = Start("cancel", Kind.CANCEL, 0, clocks=clocks(chance))
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
                story.after(ledger, "rename_table", delay, "lose the answer of", ledger)
            case 1:  # its COMMIT takes its time, and its answer is lost
                story.after(ledger, "rename_table", delay, "freeze", ledger)
                story.after(ledger, "rename_table", delay + 1, "lose the answer of", ledger)
                story.after(ledger, "rename_table", chance.randint(6, 60), "wake", ledger)
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
    if chance.random() < 0.15:
        start = Start(
            *("intruder", Kind.STRANGER, 0),
            deed=chance.choice((Deed.WRITE, Deed.REPLACE)),
            to_shadow=chance.random() < 0.6,
            held=timedelta(seconds=chance.choice((0, 1))),
            clocks=clocks(chance),
        )
        story.start(chance.randint(40, 220), start)
