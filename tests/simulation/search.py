"""Running schedules: one of a seed, many over several processes, one again from its decisions, and a failing one made short."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.simulation.decisions import Decision, Setup
from tests.simulation.stories import Family, decisions, family_of, tell_story
from tests.simulation.violations import ViolationError
from tests.simulation.weakening import SOUND, Weakening
from tests.simulation.world import World

MOST_REPLAYS = 1500


@dataclass(frozen=True)
class Failed:
    """A schedule that broke an invariant: its decisions up to there, and what was broken."""

    seed: int
    setup: Setup
    decisions: tuple[Decision, ...]
    name: str
    found: str


def run_seed(seed: int, weakening: Weakening = SOUND) -> Failed | None:
    """Run the schedule of a seed to its end, or to the first invariant that does not hold."""
    story, chance = tell_story(seed)
    world, made = World(story.setup, weakening), list[Decision]()
    try:
        for decision in decisions(story, chance, world):
            made.append(decision)
            world.apply(decision)
        world.settle()
    except ViolationError as error:
        return Failed(seed, story.setup, tuple(made), error.name, str(error))
    finally:
        world.close()
    return None


def replay(
    setup: Setup, made: Iterable[Decision], weakening: Weakening = SOUND, *, tell: bool = False
) -> tuple[ViolationError | None, tuple[str, ...]]:
    """Make the given decisions, leaving out what does not apply; give what broke, and the account where it is wanted."""
    world = World(setup, weakening, tell=tell)
    try:
        for decision in made:
            world.apply(decision)
        world.settle()
    except ViolationError as error:
        return error, tuple(world.told)
    finally:
        world.close()
    return None, tuple(world.told)


def shrink(failed: Failed, weakening: Weakening = SOUND) -> Failed:
    """Leave out decisions, ever smaller groups of them, while the same invariant is still broken."""
    kept, size, replays = list(failed.decisions), max(1, len(failed.decisions) // 2), 0
    found = failed.found
    while True:
        at, shorter = 0, False
        while at < len(kept) and replays < MOST_REPLAYS:
            tried = kept[:at] + kept[at + size :]
            replays += 1
            error, _ = replay(failed.setup, tried, weakening)
            if error is not None and error.name == failed.name:
                kept, found, shorter = tried, str(error), True
            else:
                at += size
        if replays >= MOST_REPLAYS or (size == 1 and not shorter):
            return Failed(failed.seed, failed.setup, tuple(kept), failed.name, found)
        size = max(1, size // 2)


def find_failure(
    seeds: Iterable[int], weakening: Weakening = SOUND, families: Sequence[Family] = ()
) -> tuple[Failed | None, int]:
    """Run seeds, those of some families alone where they are named, up to the first that fails; and say how many ran."""
    ran = 0
    for seed in seeds:
        if families and family_of(seed) not in families:
            continue
        ran += 1
        failed = run_seed(seed, weakening)
        if failed is not None:
            return failed, ran
    return None, ran


def _search_part(part: tuple[int, int, int]) -> tuple[Failed | None, int]:
    first, last, stride = part
    return find_failure(range(first, last, stride))


def search(first: int, count: int) -> tuple[Failed | None, int]:
    """Run `count` seeds from `first` on, on every processor; give the failing one of the lowest seed, and how many ran."""
    workers = os.cpu_count() or 1
    parts = [(first + number, first + count, workers) for number in range(workers)]
    # Spawned, not forked: a fork of a process with threads may hang.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(_search_part, parts))
    failures = [failed for failed, _ in found if failed is not None]
    return min(failures, key=lambda failed: failed.seed, default=None), sum(ran for _, ran in found)


def told(failed: Failed, weakening: Weakening = SOUND) -> str:
    """Give a failing schedule for a person to read: how to see it again, what broke, and what happened before."""
    _, account = replay(failed.setup, failed.decisions, weakening, tell=True)
    again = f"DPONE_TEST_SIMULATION_SEED={failed.seed} python -m pytest tests/simulation -k one_seed"
    lines = (f"{number:4} {line}" for number, line in enumerate(account, 1))
    return "\n".join((failed.found, f"seed {failed.seed}, again with: {again}", str(failed.setup), *lines))
