"""How a person reads a range of one window; at most 90 characters, so that Airflow can show it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import assert_never

from dpone_contract.chunk_options import ChunkKind


def window_text(lower: str, upper: str, *, upper_inclusive: bool) -> str:
    """Give a range as mathematicians write it: `[lower, upper)`, or `[lower, upper]` with the upper bound."""
    return f"[{lower}, {upper}" + ("]" if upper_inclusive else ")")


def range_label(kind: ChunkKind, lower: str, upper: str, *, upper_inclusive: bool) -> str:
    """Name a range: first and last day or number, both included; instants and uuids by their bounds."""
    match kind:
        case ChunkKind.DATE:
            last = (date.fromisoformat(upper) - timedelta(days=1)).isoformat()
            return lower if lower == last else f"{lower} .. {last}"
        case ChunkKind.INTEGER:
            last = upper if upper_inclusive else str(int(upper) - 1)
            return lower if lower == last else f"{lower} .. {last}"
        case ChunkKind.TIMESTAMP | ChunkKind.UUID:
            return window_text(lower, upper, upper_inclusive=upper_inclusive)
        case _:
            assert_never(kind)
