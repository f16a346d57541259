"""Some of a range of chunks, at one bit each: what a run of a million chunks keeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class ChunkSet:
    """Indexes of `first..last`, inclusive."""

    def __init__(self, first: int, last: int) -> None:
        self._first = first
        self._last = last
        self._bits = bytearray((last - first) // 8 + 1)
        self._count = 0

    def update(self, indexes: Iterable[int]) -> None:
        """Add indexes of the range."""
        for index in indexes:
            place, bit = divmod(index - self._first, 8)
            if not self._bits[place] >> bit & 1:
                self._bits[place] |= 1 << bit
                self._count += 1

    def __len__(self) -> int:
        return self._count

    def __contains__(self, index: int) -> bool:
        place, bit = divmod(index - self._first, 8)
        return bool(self._bits[place] >> bit & 1)

    def __iter__(self) -> Iterator[int]:
        """Give them in order, each as it is asked for."""
        return (index for index in range(self._first, self._last + 1) if index in self)

    def others(self) -> Iterator[int]:
        """Give what of the range is not in the set, in order."""
        return (index for index in range(self._first, self._last + 1) if index not in self)
