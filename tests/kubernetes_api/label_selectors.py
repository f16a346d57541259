"""Label selectors: which pods a call or an order means."""

from __future__ import annotations

import re
from collections.abc import Mapping

# A comma within brackets separates values, not requirements.
_REQUIREMENTS = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^)]*)\)$")


def matches(labels: Mapping[str, str], selector: str | None) -> bool:
    """Whether labels meet every requirement: `k=v`, `k==v`, `k!=v`, `k`, `!k`, `k in (a, b)`, `k notin (a, b)`."""
    requirements = (part.strip() for part in _REQUIREMENTS.split(selector or ""))
    return all(_meets(labels, requirement) for requirement in requirements if requirement)


def _meets(labels: Mapping[str, str], requirement: str) -> bool:
    if found := _SET.match(requirement):
        name, operator, listed = found.groups()
        inside = labels.get(name) in {value.strip() for value in listed.split(",")}
        return inside == (operator == "in")
    if "!=" in requirement:
        name, _, value = requirement.partition("!=")
        return labels.get(name) != value
    if "=" in requirement:
        name, _, value = requirement.partition("=")
        return labels.get(name) == value.removeprefix("=")
    if requirement.startswith("!"):
        return requirement[1:] not in labels
    return requirement in labels
