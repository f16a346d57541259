"""The two formats of COPY, and the settings without which text would not mean the same on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class CopyFormat(StrEnum):
    """How rows travel. One format for all columns of a table."""

    BINARY = "binary"
    TEXT = "text"

    @property
    def options(self) -> str:
        """What stands at the end of a COPY, on both sides alike."""
        return f"(FORMAT {self.value})"

    @property
    def settings(self) -> dict[str, str]:
        """What both sessions are set to for a transaction."""
        return dict(TEXT_SETTINGS) if self is CopyFormat.TEXT else {}


TEXT_SETTINGS: Mapping[str, str] = {
    # The style alone: in which order a filter's own dates are read stays as it was.
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    # So many digits that a number is read as the one that it was; before release 12 only 3 gave them.
    "extra_float_digits": "3",
    "bytea_output": "hex",
    # Decides how many of a money's digits are decimals.
    "lc_monetary": "C",
    # Off, NULL in an array would be read as a word.
    "array_nulls": "on",
    "xmloption": "content",
}
"""Under them every type is read as it was written. A time zone is not among them: instants are written with their offset."""
