"""How a guard is taken away: conditions and locks by name, a line of our own code by its text; and how its lack is looked for."""

from __future__ import annotations

import inspect
import sys
import textwrap

import pytest

from tests.simulation.search import Failed, find_failure
from tests.simulation.stories import FAMILIES, Family
from tests.simulation.weakening import SOUND, Weakening

SCHEDULES = 600
"""Of the families that matter, within which a mutation must be noticed."""


def conditions(query: str, *texts: str) -> frozenset[tuple[str, str]]:
    """Name conditions of a query."""
    return frozenset((query, text) for text in texts)


def without(*parts: frozenset[tuple[str, str]]) -> Weakening:
    """Leave conditions out."""
    return Weakening(conditions=frozenset().union(*parts))


def without_locks(*purposes: str) -> Weakening:
    """Leave locks out."""
    return Weakening(locks=frozenset(purposes))


def failure(
    missing: Weakening = SOUND, families: tuple[Family, ...] = FAMILIES, schedules: int = SCHEDULES
) -> Failed | None:
    """Look for a failure among `schedules` of the families."""
    seeds = range(schedules * len(FAMILIES) // len(families))
    failed, _ = find_failure(seeds, missing, families)
    return failed


def rewrite(patch: pytest.MonkeyPatch, owner: object, name: str, *changes: tuple[str, str]) -> None:
    """Put another text in the place of one that stands once in a function of a module or class."""
    function = getattr(owner, name)
    text = textwrap.dedent(inspect.getsource(function))
    for was, becomes in changes:
        assert text.count(was) == 1, f"{name} has {text.count(was)} times: {was}"
        text = text.replace(was, becomes)
    made: dict[str, object] = {}
    module = sys.modules[function.__module__]
    exec(compile(text, inspect.getfile(function), "exec"), vars(module), made)  # our own text
    patch.setattr(owner, name, made[name])
