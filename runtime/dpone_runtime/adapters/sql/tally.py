"""Where a commit is counted: in one of a few rows, so that commits which come together seldom wait for one another."""

from __future__ import annotations

TALLY_SLOTS = 16
_SPREAD = 2_654_435_761
"""Two to the power of 32 by the golden ratio: neighbours, and the same place of several items' ranges, come far apart."""


def tally_slot(chunk_index: int) -> int:
    """Give the slot, 0 to 15, in which the commit of a chunk is counted.

    Source: decision 12.
    """
    return (chunk_index * _SPREAD % 2**32) * TALLY_SLOTS >> 32
