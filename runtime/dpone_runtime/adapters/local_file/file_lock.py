"""Exclusive and shared locks of files (`flock`): between processes, and between threads of one, for each opens the file itself."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.02


class LockBusyError(Exception):
    """The lock was not free within the bound."""


class FileLock:
    """A lock that is held."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def held(self) -> bool:
        """Whether the file that is locked is still the one of that name: of a removed one somebody else may lock the next."""
        try:
            named = self._path.stat()
        except OSError:
            return False
        opened = os.fstat(self._descriptor)
        return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)


@contextmanager
def locked(path: Path, *, wait: timedelta, shared: bool = False) -> Iterator[FileLock]:
    """Hold a file's lock, making the file where it is missing and may be made.

    Errors: LockBusyError when it is not free in time; OSError.
    """
    until = time.monotonic() + wait.total_seconds()
    while True:
        descriptor = _open(path, shared=shared)
        try:
            _take(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, until)
            lock = FileLock(path, descriptor)
            # Whoever removes the file while it is waited for would leave two holders of two files.
            if lock.held():
                yield lock
                return
        finally:
            os.close(descriptor)


def _open(path: Path, *, shared: bool) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except PermissionError:
        if not shared:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if not shared or error.errno != errno.EROFS:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _take(descriptor: int, kind: int, until: float) -> None:
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= until:
                raise LockBusyError from error
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        else:
            return
