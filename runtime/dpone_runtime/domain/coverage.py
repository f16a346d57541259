"""Coverage: the rows of a source that no chunk covers, counted so that they are not left behind in silence."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

COUNTED_TO = 1_000_000
"""Beyond it a group is not counted further: what lies outside a window may be most of a table."""


@dataclass(frozen=True)
class Coverage:
    """Rows with NULL in the chunk column, below the first bound and above the last; each counted up to `counted_to`."""

    null: int = 0
    below: int = 0
    above: int = 0
    counted_to: int = COUNTED_TO

    @property
    def total(self) -> int:
        """All of them."""
        return self.null + self.below + self.above

    def to_document(self) -> dict[str, JsonValue]:
        """Give plain values; `exact` is false where a group has more rows than were counted."""
        return {
            "rows_null": self.null,
            "rows_below": self.below,
            "rows_above": self.above,
            "exact": max(self.null, self.below, self.above) < self.counted_to,
        }

    def text(self, column: str) -> str:
        """Tell it in one line."""
        groups = ((self.null, f"whose {column} is NULL"), (self.below, "below"), (self.above, "above"))
        told = [f"{self._count(count)} {where}" for count, where in groups if count]
        if not told:
            return "coverage: the window covers every row of the source"
        return f"coverage: rows of the source outside the window: {', '.join(told)}"

    def _count(self, count: int) -> str:
        return f"{count:,}" if count < self.counted_to else f"at least {self.counted_to:,}"
