"""What a benchmark gives: named values, each with the budget that it is held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

RATIO = "ratio"
"""A figure in this unit has to reach its budget, any other has to stay within it."""


@dataclass(frozen=True)
class Figure:
    """One value. `note` says how far the single rounds were apart, or what the value is not."""

    name: str
    value: float
    unit: str
    budget: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the budget is kept, and if not, by how much it is missed."""
        if self.budget is None:
            return ""
        kept = self.value >= self.budget if self.unit == RATIO else self.value <= self.budget
        return "kept" if kept else f"missed by {abs(self.value / self.budget - 1):.0%}"

    def document(self) -> dict[str, object]:
        """Give what stands in the JSON file."""
        return {"name": self.name, "value": round(self.value, 4), "unit": self.unit, "budget": self.budget}


def median_figure(name: str, values: Sequence[float], unit: str, budget: float | None = None) -> Figure:
    """Give the median of the rounds, and their spread as its note."""
    note = f"{min(values):.3g} to {max(values):.3g} in {len(values)} rounds"
    return Figure(name, median(values), unit, budget, note)


def percentile(values: Sequence[float], percent: int) -> float:
    """Give the value that `percent` of all values do not exceed."""
    return sorted(values)[max(0, round(len(values) * percent / 100) - 1)]


def table(figures: Sequence[Figure]) -> str:
    """Give figures as lines of one width a column."""
    rows = [("name", "value", "unit", "budget", "verdict", "note")]
    for figure in figures:
        budget = "" if figure.budget is None else f"{figure.budget:g}"
        rows.append((figure.name, f"{figure.value:.3f}", figure.unit, budget, figure.verdict, figure.note))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in (1, 3) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
