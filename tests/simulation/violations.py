"""How an invariant that does not hold is told."""

from __future__ import annotations


class ViolationError(Exception):
    """An invariant does not hold. `name` is the invariant's, the text says what was found."""

    def __init__(self, name: str, found: str) -> None:
        super().__init__(f"{name}: {found}")
        self.name = name
