"""What a seed makes of the world: campaigns, processes that come, faults, and who goes on next. One seed, one schedule.

A story has an agenda, which leads it to where a guard matters, and faults of its own that may strike at any step: each seed
allows some kinds and forbids the others, so that rare ones are not drowned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from random import Random

from dpone_runtime.domain.lease import LEASE_TTL
from tests.simulation.database import EVER, Session
from tests.simulation.decisions import Decision, Kind, Load, Setup, Start
from tests.simulation.lanes import Lane
from tests.simulation.processes import Process
from tests.simulation.publication_stories import publishing, republishing
from tests.simulation.story import Story, Trigger, clocks, mode
from tests.simulation.turns import anybody, by_rank, mostly_the_same
from tests.simulation.world import World

FAULTS = (
    *("kill", "vanish", "freeze", "stop for ever", "wake", "interrupt", "poison"),
    *("lose the answer of", "end at once", "advance", "advance far"),
    *("hold the words of", "hold the orders of", "let through"),
    *("cut the words of", "cut the orders of", "garble the words of"),
)
_OF_LANES = ("poison", *FAULTS[-6:])
_OF_SESSIONS = ("lose the answer of", "end at once")
_PAST_LEASE = LEASE_TTL.total_seconds() + 1


class Family(StrEnum):
    """What a story is about."""

    ITEMS = "items"
    INTERNAL = "internal"
    TAKEOVER = "takeover"
    RENEWAL = "renewal"
    CLOSING = "closing"
    OPENING = "opening"
    ROUNDS = "rounds"
    PUBLISHING = "publishing"
    REPUBLISHING = "republishing"


FAMILIES = tuple(Family)


def family_of(seed: int) -> Family:
    """Families take turns."""
    return FAMILIES[seed % len(FAMILIES)]


def tell_story(seed: int) -> tuple[Story, Random]:
    """Give the story of a seed, and the chance that goes on with it."""
    chance = Random(seed)
    story = _TELLERS[family_of(seed)](chance)
    allowed = chance.sample(FAULTS, chance.randint(0, len(FAULTS)))
    story.faults = tuple(name for name in FAULTS if name in allowed)
    story.fault_rate = chance.choice((0.005, 0.02, 0.06)) / story.calm
    story.agenda.sort(key=lambda entry: entry[0])
    return story, chance


def decisions(story: Story, chance: Random, world: World) -> Iterator[Decision]:
    """Give one decision after another, each made in view of the world that the last one left behind."""
    agenda, triggers = list(story.agenda), list(story.triggers)
    choose = chance.choice((anybody, mostly_the_same, by_rank))(chance)
    for step in range(story.length):
        for trigger in [one for one in triggers if _has_run(one, world)]:
            triggers.remove(trigger)
            agenda.append((step + trigger.delay, trigger.decision))
            agenda.sort(key=lambda entry: entry[0])
        while agenda and agenda[0][0] <= step:
            yield agenda.pop(0)[1]
        if story.faults and chance.random() < story.fault_rate:
            decision = _fault(chance.choice(story.faults), chance, world)
            if decision is not None:
                yield decision
                continue
        ready = world.ready()
        if ready:
            yield Decision("step", choose(ready).name)
            continue
        until = world.next_timer()
        if agenda and (until == EVER or chance.random() < 0.7):
            # Nobody has anything to do: what is on the agenda comes before time passes.
            yield agenda.pop(0)[1]
            continue
        if until == EVER:
            return
        yield Decision("advance", seconds=max(until - world.database.elapsed, 1e-6))


def _has_run(trigger: Trigger, world: World) -> bool:
    return any(
        trigger.statement in session.ran and session.name.startswith(trigger.by)
        for session in world.database.sessions
    )


# Faults.


def _fault(what: str, chance: Random, world: World) -> Decision | None:
    match what:
        case "advance":
            return Decision("advance", seconds=chance.choice((0.2, 1.0, 3.0, 6.0)))
        case "advance far":
            return Decision("advance", seconds=chance.choice((11.0, 31.0, 62.0, _PAST_LEASE)))
        case _ if what in _OF_SESSIONS:
            sessions: list[Session] = [one for one in world.database.sessions if not one.dead]
            return Decision(what, chance.choice(sessions).name) if sessions else None
    found: list[Process | Lane] = [one for one in world.lanes.values() if not one.dead]
    if what not in _OF_LANES:
        found += [one for one in world.processes.values() if not (one.dead or one.ended)]
    return Decision(what, chance.choice(found).name) if found else None


# The families.


def _items(chance: Random) -> Story:
    """Mapped items of one campaign, some cleared and so running twice."""
    chunks = chance.randint(2, 4)
    story = Story(Setup((Load("a", 0, chunks, mode=mode(chance)),), chance.randint(1, 2)), 260)
    for number in range(1, chance.randint(2, 4) + 1):
        first = chance.randint(1, chunks)
        last = chance.randint(first, chunks)
        halts = chance.choice((None, None, 1, 2))
        start = Start(
            *(f"item {number}", Kind.ITEM, 0, first, last),
            stop_after_failures=halts,
            failed_only=number > 1 and chance.random() < 0.2,
            clocks=clocks(chance),
        )
        story.start(chance.randint(0, 40 * number), start)
    return story


def _internal(chance: Random) -> Story:
    """Runs of mode internal, one after another and at once, and somebody who cancels."""
    story = Story(Setup((Load("a", 0, chance.randint(1, 4), mode=mode(chance)),)), 260)
    for number in range(1, chance.randint(1, 3) + 1):
        reason = "go on" if chance.random() < 0.5 else None
        lanes = chance.randint(1, 2)
        start = Start(
            *(f"run {number}", Kind.INTERNAL, 0),
            lanes=lanes,
            reason=reason,
            failed_only=number > 1 and chance.random() < 0.2,
            clocks=clocks(chance),
        )
        story.start(chance.randint(0, 90) * (number > 1), start)
    if chance.random() < 0.4:
        story.start(chance.randint(5, 150), Start("cancel", Kind.CANCEL, 0))
    if chance.random() < 0.3:  # what a lane says of its commit comes late, or is lost with it
        story.after("run 1/lane 1", "complete_chunk", 0, "hold the words of", "run 1/lane 1")
        what = chance.choice(("let through", "kill", "freeze"))
        story.after("run 1/lane 1", "complete_chunk", chance.randint(4, 30), what, "run 1/lane 1")
    if chance.random() < 0.3:
        story.after("run 1/lane 1", "guard_chunk", 0, "freeze", "run 1/lane 1/sink")
        story.after("run 1/lane 1", "guard_chunk", chance.randint(0, 10), "interrupt", "run 1")
    return story


def _takeover(chance: Random) -> Story:
    """One run does not renew in time, and another takes over what the first is still at."""
    chunks = chance.randint(1, 2)
    limit = chance.choice((None, 1, 2))
    story = Story(Setup((Load("a", 0, chunks, mode=mode(chance)),), limit), 220)
    story.start(0, Start("item 1", Kind.ITEM, 0, clocks=clocks(chance)))
    asleep = chance.randint(12, 60)
    coordinator = chance.choice(("freeze", "freeze", "kill", "stop for ever"))
    lane, sink = "item 1/lane 1", "item 1/lane 1/sink"
    match chance.randrange(6):
        case 0:  # anywhere
            story.at(asleep, coordinator, "item 1")
            story.at(asleep + chance.randint(0, 30), "advance", seconds=chance.choice((60.0, _PAST_LEASE)))
        case 1:  # the lane has its chunk, and asks the ledger while it is claimed anew
            _fall_asleep(story, chance, coordinator)
            story.after("item 2", "chunk_lock_holders", chance.randint(0, 5), "wake", lane)
            _pause(story, chance, "chunk_lock_holders")
            if chance.random() < 0.3:  # and then stays there with the chunk's lock
                story.after(lane, "guard_chunk", 0, "freeze", sink)
                story.after("item 2/lane 1", "lock", 1, "advance", seconds=6.0)
                story.after(lane, "guard_chunk", chance.randint(40, 90), "wake", sink)
        case 2:  # the lane is in the middle of its rows, and commits while another looks at the chunk
            _fall_asleep(story, chance, coordinator, after=lane, statement="copy_first")
            story.after("item 2", "count_live", chance.randint(0, 3), "wake", lane)
            _pause(story, chance, "clock")
        case 3:  # the lane never comes back, and its session waits for rows
            story.after(lane, "copy_first", 0, "stop for ever", lane)
            story.after(lane, "copy_first", 0, "stop for ever", "item 1")
            story.at(asleep + chance.randint(0, 60), "advance", seconds=_PAST_LEASE)
        case 4:  # COMMIT is under way when the lane dies
            story.after(lane, "complete_chunk", chance.randint(0, 2), "kill", lane)
        case _:  # COMMIT takes its time, and its answer is lost
            story.after(lane, "complete_chunk", 0, "freeze", sink)
            story.after(lane, "complete_chunk", 1, "lose the answer of", sink)
            story.after(lane, "complete_chunk", chance.randint(5, 40), "wake", sink)
    story.start(asleep + chance.randint(0, 60), Start("item 2", Kind.ITEM, 0, clocks=clocks(chance)))
    story.at(asleep + chance.randint(20, 120), "wake", "item 1")
    return story


def _fall_asleep(
    story: Story,
    chance: Random,
    coordinator: str,
    after: str = "item 1/ledger",
    statement: str = "insert_chunk",
) -> None:
    """Have a run that has claimed, and its lane, do nothing until the lease has lapsed."""
    delay = chance.randint(2, 8) if statement == "insert_chunk" else 0
    story.after(after, statement, 0, "freeze", "item 1/lane 1")
    story.after(after, statement, delay, coordinator, "item 1")
    story.after(after, statement, delay + chance.randint(0, 4), "advance", seconds=_PAST_LEASE)


def _pause(story: Story, chance: Random, statement: str) -> None:
    """Have the second run stop for a while between two statements of one decision."""
    story.after("item 2", statement, 0, "freeze", "item 2")
    story.after("item 2", statement, chance.randint(4, 24), "wake", "item 2")


def _renewal(chance: Random) -> Story:
    """A renewal comes at the last moment or too late, while others look whether the lease has lapsed."""
    chunks = chance.randint(1, 3)
    story = Story(Setup((Load("a", 0, chunks, mode=mode(chance)),), chance.choice((1, 2))), 220)
    story.start(0, Start("item 1", Kind.ITEM, 0))
    lane, sink = "item 1/lane 1", "item 1/lane 1/sink"
    # A lane that is frozen itself would be given up for its silence.
    story.after(lane, "guard_chunk", chance.randint(0, 6), "freeze", sink)
    first = 1
    if chance.random() < 0.4:  # too late: another chunk has its place by then
        first = min(2, chunks)
        story.after(lane, "guard_chunk", 6, "freeze", "item 1")
        story.after(lane, "guard_chunk", 7, "advance", seconds=_PAST_LEASE)
        story.after("item 2", "insert_chunk", chance.randint(0, 12), "wake", "item 1")
    else:
        story.after(lane, "guard_chunk", 7, "advance", seconds=chance.choice((86.0, 89.0)))
        story.after("item 1", "renew_chunk", chance.randint(0, 1), "advance", seconds=6.0)
        if chance.random() < 0.8:
            story.after("item 1", "renew_chunk", 0, "freeze", "item 1/ledger")
            story.after("item 1", "renew_chunk", chance.randint(5, 40), "wake", "item 1/ledger")
    story.start(chance.randint(0, 60), Start("item 2", Kind.ITEM, 0, first, clocks=clocks(chance)))
    if chance.random() < 0.5:
        story.after("item 1", "renew_chunk", chance.randint(0, 30), "wake", sink)
    return story


def _closing(chance: Random) -> Story:
    """A cancelled campaign is closed by another on the same target, while something of it is still at work."""
    loads = (
        Load("a", 0, chance.randint(1, 2), mode=mode(chance)),
        Load("b", chance.randint(0, 1), 1, days=chance.randint(1, 2), mode=mode(chance)),
    )
    story = Story(Setup(loads), 240)
    story.start(0, Start("item 1", Kind.ITEM, 0, clocks=clocks(chance)))
    _fall_asleep(story, chance, chance.choice(("freeze", "freeze", "kill")))
    asleep = chance.randint(25, 60)
    story.start(asleep, Start("cancel", Kind.CANCEL, 0))
    other = asleep + chance.randint(10, 60)
    story.start(other, Start("item 2", Kind.ITEM, 1, clocks=clocks(chance)))
    if chance.random() < 0.7:
        story.after("item 2", "claimed_chunks", chance.randint(0, 8), "wake", "item 1/lane 1")
        _pause(story, chance, "clock")
        story.after("item 1/lane 1", "complete_chunk", 0, "freeze", "item 1/lane 1/sink")
        story.after("item 1/lane 1", "complete_chunk", chance.randint(3, 30), "wake", "item 1/lane 1/sink")
    else:
        story.at(other + chance.randint(0, 60), "wake", "item 1/lane 1")
    if chance.random() < 0.3:
        story.start(other + chance.randint(10, 80), Start("item 3", Kind.ITEM, 0, reason="go on"))
    return story


def _opening(chance: Random) -> Story:
    """Overlapping campaigns are opened at about the same time, resumed, and cancelled."""
    if chance.random() < 0.2:
        return _taken_in_turn(chance)
    loads = tuple(
        Load(key, begins, chance.randint(1, 2), mode=mode(chance), templated=chance.random() < 0.3)
        for key, begins in (("a", 0), ("b", chance.randint(0, 1)), ("c", 1))
    )
    story = Story(Setup(loads[: chance.randint(2, 3)]), 260)
    for number in range(1, chance.randint(2, 5) + 1):
        load = chance.randrange(len(story.setup.loads))
        reason = "go on" if chance.random() < 0.3 else None
        kind = chance.choice((Kind.ITEM, Kind.INTERNAL))
        story.start(
            chance.randint(0, chance.choice((25, 90)) * number),
            Start(f"run {number}", kind, load, reason=reason, clocks=clocks(chance)),
        )
    if chance.random() < 0.6:
        story.start(chance.randint(20, 120), Start("cancel", Kind.CANCEL, 0))
    return story


def _taken_in_turn(chance: Random) -> Story:
    """Two campaigns take one window from one another: each is cancelled before it is through, and resumed."""
    loads = tuple(Load(key, 0, chance.randint(1, 2), mode=mode(chance)) for key in ("a", "b"))
    story, step = Story(Setup(loads), 420), 0
    for number in range(1, 5):
        load = number % 2
        reason = "go on" if number > 2 else None
        story.start(step, Start(f"item {number}", Kind.ITEM, load, reason=reason, clocks=clocks(chance)))
        if number < 3 or chance.random() < 0.3:
            story.start(step + chance.randint(12, 60), Start(f"cancel {number}", Kind.CANCEL, load))
        step += chance.randint(40, 110)
    return story


def _rounds(chance: Random) -> Story:
    """A window is run again and again, or begun anew on purpose while something of the round before is still at work."""
    chunks = chance.randint(1, 3)
    load = Load("a", 0, chunks, templated=chance.random() < 0.6)
    story = Story(Setup((load,), chance.choice((None, 1, 2))), 320)
    for number in range(1, chance.randint(2, 4) + 1):
        step = chance.randint(0, 70) * (number - 1)
        story.start(step, Start(f"item {number}", Kind.ITEM, 0, clocks=clocks(chance)))
    for number in range(1, chance.randint(0, 2) + 1):
        only = frozenset({chance.randint(1, chunks)}) if chance.random() < 0.5 else None
        story.start(chance.randint(20, 160), Start(f"restart {number}", Kind.RESTART, 0, only=only))
    return story


_TELLERS: dict[Family, Callable[[Random], Story]] = {
    Family.ITEMS: _items,
    Family.INTERNAL: _internal,
    Family.TAKEOVER: _takeover,
    Family.RENEWAL: _renewal,
    Family.CLOSING: _closing,
    Family.OPENING: _opening,
    Family.ROUNDS: _rounds,
    Family.PUBLISHING: publishing,
    Family.REPUBLISHING: republishing,
}
