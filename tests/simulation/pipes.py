"""One direction of the pipe between a coordinator and a lane, and what may happen to the frames on it.

A pipe is a stream between two processes of one machine: its frames arrive in their order and once, late, or not at all, where an
end of it is gone. Only its writer can put half a frame on it, or nonsense, and only its end makes that the last one.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Frame = TypeVar("Frame")


class Stream(Generic[Frame]):
    """Frames that have `arrived`, and those that have not: a held stream keeps them back. None has arrived as nonsense.

    `cut`: its writer dies in the middle of the next frame. `garbled`: the next frame is nonsense.
    """

    def __init__(self) -> None:
        self.arrived: deque[Frame | None] = deque()
        self.held_at: float | None = None
        self.cut = False
        self.garbled = False
        self._kept: deque[Frame | None] = deque()

    def put(self, frame: Frame) -> bool:
        """Write a frame; False where the writer dies before its end."""
        if self.cut:
            return False
        written = self._kept if self.held_at is not None else self.arrived
        written.append(None if self.garbled else frame)
        self.garbled = False
        return True

    def hold(self, at: float) -> None:
        """Let nothing arrive from now on."""
        if self.held_at is None:
            self.held_at = at

    def let_through(self) -> None:
        """Let arrive what was kept back."""
        self.held_at = None
        self.arrived += self._kept
        self._kept.clear()

    def clear_faults(self) -> None:
        """Let everything arrive, and nothing more go wrong."""
        self.cut = self.garbled = False
        self.let_through()
