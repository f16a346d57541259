"""Whose turn it is: three ways to choose among those who can go on, each of which finds what the others do not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.world import Actor

Choice = Callable[[list[Actor]], Actor]


def anybody(chance: Random) -> Choice:
    """Whoever it may be."""
    return chance.choice


def mostly_the_same(chance: Random) -> Choice:
    """Who has just gone on goes on as a rule."""
    last = ""

    def choose(ready: list[Actor]) -> Actor:
        nonlocal last
        found = next((actor for actor in ready if actor.name == last), None)
        if found is None or chance.random() < 0.15:
            found = chance.choice(ready)
        last = found.name
        return found

    return choose


def by_rank(chance: Random) -> Choice:
    """The highest rank goes on alone, until chance lowers it: what is behind all others stays where it is for long."""
    ranks: dict[str, float] = {}

    def choose(ready: list[Actor]) -> Actor:
        found = max(ready, key=lambda actor: ranks.setdefault(actor.name, chance.random()))
        if chance.random() < 0.03:
            ranks[found.name] = chance.random() - 1.0
        return found

    return choose
