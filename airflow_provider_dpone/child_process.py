"""A child process in a session of its own: its lines are handed on, and it never outlives whoever waits for it.

Linux and other POSIX systems. One thread; a signal handler may end the child while `wait` is under way.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

POLL_SECONDS = 0.2
# A grandchild may hold the pipe open after the child's end; nobody waits for it longer than this.
DRAIN = timedelta(seconds=2)
LINE_LIMIT_BYTES = 4000
OUTPUT_LIMIT_BYTES = 20 * 1024 * 1024
_READ_BYTES = 64 * 1024


class LineCutter:
    """Cuts a byte stream into bounded lines; drops what is beyond a line's limit, then what is beyond the whole."""

    def __init__(self, emit: Callable[[str], None], output_limit_bytes: int = OUTPUT_LIMIT_BYTES) -> None:
        self._emit = emit
        self._left_bytes = output_limit_bytes
        self._line = bytearray()
        self._cut = False

    def feed(self, data: bytes) -> None:
        """Take a further part of the stream, and hand on every line that it completes."""
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._append(part)
            self.finish()
        self._append(rest)

    def finish(self) -> None:
        """Hand on the line that has been begun, if any."""
        line, cut = bytes(self._line), self._cut
        self._line.clear()
        self._cut = False
        if not line or self._left_bytes <= 0:
            return
        self._left_bytes -= len(line)
        self._emit(line.decode("utf-8", "replace").rstrip() + (" ..." if cut else ""))
        if self._left_bytes <= 0:
            self._emit("(the run writes too much; the rest of its output is left out)")

    def _append(self, part: bytes) -> None:
        room = LINE_LIMIT_BYTES - len(self._line)
        self._line += part[:room]
        self._cut = self._cut or len(part) > room


class ChildProcess:
    """A started command. Use it as a context manager: whatever leaves the block, no process of its session is left."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], emit: Callable[[str], None]) -> None:
        self._lines = LineCutter(emit)
        self._process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        # A signal handler may have read what was ready when the interrupted reader looked.
        os.set_blocking(self._output, False)
        self._open = True

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Hand on output until the child has ended; say whether it has, within the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        while not self._has_ended():
            if deadline is not None and time.monotonic() > deadline:
                return False
            self._read(POLL_SECONDS)
        drained = time.monotonic() + DRAIN.total_seconds()
        while self._read(0.05) and time.monotonic() < drained:
            pass
        self._lines.finish()
        return True

    def end(self, grace: timedelta) -> None:
        """Ask the child's process group to stop; after the grace kill it."""
        self._signal(signal.SIGTERM)
        if not self.wait(grace):
            self._signal(signal.SIGKILL)
            self.wait()

    def exit_code(self) -> int:
        """Give how the child ended; a signal is negative. What is left of its process group is killed first."""
        self._signal(signal.SIGKILL)
        return self._process.wait()

    def _has_ended(self) -> bool:
        # It is looked at, not reaped: as long as it is not reaped nobody else can get its process group's number.
        if self._process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # reaped meanwhile by whoever interrupted or was interrupted
            return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _read(self, timeout_seconds: float) -> bool:
        if not self._open:
            time.sleep(timeout_seconds)
            return False
        if not select.select([self._output], [], [], timeout_seconds)[0]:
            return False
        try:
            data = os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return False
        self._open = bool(data)
        self._lines.feed(data)
        return self._open
