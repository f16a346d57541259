"""An error as a person reads it on a terminal or in a log."""

from __future__ import annotations

from dpone_contract.errors import DponeError


def render_error(error: DponeError) -> str:
    """Give the lines that tell an error: code and message, the place, and what to do next."""
    lines = [f"error {error.code.value}: {error.message}"]
    if error.where:
        lines.append(f"  at: {error.where}")
    if error.next_step:
        lines.append(f"  next: {error.next_step}")
    return "\n".join(lines)
