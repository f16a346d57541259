"""A journal as a file: whole lines from a place on, one line at a place, and appends that are on the disk when they return."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 1 << 20
_ONE_LINE = 4096


class Journal:
    """An open journal. It knows bytes and lines, not what they say."""

    def __init__(self, path: Path) -> None:
        """Open a journal that is there, for reading alone where it may not be written. Errors: OSError."""
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except PermissionError:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self) -> int:
        """Give its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def is_at(self, path: Path) -> bool:
        """Whether a path still names this very file."""
        named, opened = path.stat(), os.fstat(self._descriptor)
        return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)

    def lines(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Give each whole line from a byte on, with its place; what follows the last end of a line is none."""
        rest, place = b"", offset
        while block := os.pread(self._descriptor, _BLOCK, place + len(rest)):
            rest += block
            begin = 0
            while (end := rest.find(b"\n", begin)) >= 0:
                yield place + begin, rest[begin : end + 1]
                begin = end + 1
            rest, place = rest[begin:], place + begin

    def line(self, offset: int) -> bytes:
        """Give the line at a byte."""
        size, text = _ONE_LINE, b""
        while b"\n" not in text:
            longer = os.pread(self._descriptor, size, offset)
            if len(longer) == len(text):
                return text
            size, text = size * 4, longer
        return text[: text.index(b"\n") + 1]

    def append(self, data: bytes, end: int) -> None:
        """Write after byte `end`, in place of whatever a crash has left there.

        Errors: OSError; then the journal ends at `end` again, or the next reader decides what of it is whole.
        """
        try:
            if self.size() != end:
                os.ftruncate(self._descriptor, end)
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], end + written)
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, end)
            raise

    def close(self) -> None:
        """End its use."""
        os.close(self._descriptor)
