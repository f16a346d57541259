"""Locks of whole tables, in the modes that the protocol meets; whoever waits stands in no queue."""

from __future__ import annotations

from collections import defaultdict

_CONFLICTS = {
    "ACCESS SHARE": {"ACCESS EXCLUSIVE"},
    "ROW EXCLUSIVE": {"SHARE", "ACCESS EXCLUSIVE"},
    "SHARE": {"ROW EXCLUSIVE", "ACCESS EXCLUSIVE"},
    "ACCESS EXCLUSIVE": {"ACCESS SHARE", "ROW EXCLUSIVE", "SHARE", "ACCESS EXCLUSIVE"},
}


class TableLocks:
    """Who holds which table, by its relation, in which modes; until its transaction ends."""

    def __init__(self) -> None:
        self._held: dict[str, dict[object, set[str]]] = defaultdict(dict)

    def free(self, holder: object, relation: str, mode: str) -> bool:
        """Whether nobody else holds a table in a mode that this one excludes."""
        conflicts = _CONFLICTS[mode]
        return not any(
            other is not holder and modes & conflicts for other, modes in self._held[relation].items()
        )

    def take(self, holder: object, relation: str, mode: str) -> None:
        """Take a lock that is free."""
        self._held[relation].setdefault(holder, set()).add(mode)

    def give_back(self, holder: object, relation: str, mode: str) -> None:
        """Give back one mode, as ROLLBACK TO SAVEPOINT does."""
        self._held[relation][holder].discard(mode)

    def release(self, holder: object) -> None:
        """Give back whatever somebody holds."""
        for holders in self._held.values():
            holders.pop(holder, None)
