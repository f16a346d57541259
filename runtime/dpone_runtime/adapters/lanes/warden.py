"""A process that outlives the coordinator just long enough to end its lanes' groups; run as a script, it is that process.

A lane dies with its coordinator by the kernel's hand; whatever the lane has started does not. The warden learns of the
coordinator's end, SIGKILL included, by the end of its pipe.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from datetime import timedelta

_END_WAIT = timedelta(seconds=3)


class LaneWarden:
    """The coordinator's end: tells which process groups are lanes."""

    def __init__(self) -> None:
        # Nothing of the environment and no site packages: it starts in milliseconds and imports nothing of ours. In a
        # session of its own no signal to the coordinator's group reaches it.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )

    def watch(self, process_group: int) -> None:
        """End this group when the coordinator is gone."""
        self._tell(f"+{process_group}\n")

    def forget(self, process_group: int) -> None:
        """The group has ended; its number may become another's."""
        self._tell(f"-{process_group}\n")

    def _tell(self, text: str) -> None:
        # Without its warden a run goes on: it misses only what a killed coordinator cannot do itself.
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(text.encode())

    def close(self) -> None:
        """Let it end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_END_WAIT.total_seconds())
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Read groups from stdin; at its end, end those that are left."""
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line)
        if group > 0:
            groups.add(group)
        else:
            groups.discard(-group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
