"""The folder of a ledger: its lock, which every change and every look takes, and the campaigns' files in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import CampaignBusyError, DponeError, LedgerFileFailedError, LedgerMissingError
from dpone_runtime.adapters.local_file.campaign_file import CampaignFile
from dpone_runtime.adapters.local_file.file_lock import FileLock, LockBusyError, locked
from dpone_runtime.state_directory import LOCK_SUFFIX, file_stem

_FOLDER_LOCK = ".lock"
_LOOK_WAIT = timedelta(seconds=15)


class LedgerFolder:
    """A folder that one ledger works with. Threads take turns; a change that reads on its way has the lock already."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self.path = path
        self._clock = clock
        self._files: dict[RunKey, CampaignFile] = {}
        self._thread = threading.RLock()
        self._depth = 0

    def create(self) -> None:
        """Make the folder where it is missing.

        Errors: LedgerMissingError where it cannot be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with self.locked(_LOOK_WAIT):
                pass
        except (OSError, LedgerFileFailedError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.message
            raise LedgerMissingError(
                f"the ledger's folder cannot be made or written: {reason}",
                where=str(self.path),
                next_step="name another with state_dir, --state-dir or DPONE_BACKFILL_STATE_DIR",
            ) from error

    def file(self, run_key: RunKey) -> CampaignFile:
        """Give a campaign's files; nothing is read yet."""
        if run_key not in self._files:
            self._files[run_key] = CampaignFile(self.path, run_key, self._clock)
        return self._files[run_key]

    @contextmanager
    def locked(self, wait: timedelta) -> Iterator[None]:
        """Hold the folder's lock alone.

        Errors: LockBusyError when it is not free in time; LedgerFileFailedError.
        """
        with self._thread, ExitStack() as held:
            if self._depth == 0:
                self._enter(held, wait, shared=False)
            yield from self._inside()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Hold the folder's lock with others that look; a folder that is not there needs none.

        Errors: LedgerFileFailedError.
        """
        with self._thread, ExitStack() as held:
            if self._depth == 0 and self.path.is_dir():
                try:
                    self._enter(held, _LOOK_WAIT, shared=True)
                except LockBusyError as error:
                    raise LedgerFileFailedError(
                        f"the ledger's folder was locked for {_LOOK_WAIT.seconds} s",
                        where=str(self.path),
                        next_step="look for a stopped process that has the folder's .lock open, then run it again",
                    ) from error
            yield from self._inside()

    def _enter(self, held: ExitStack, wait: timedelta, *, shared: bool) -> None:
        try:
            held.enter_context(locked(self.path / _FOLDER_LOCK, wait=wait, shared=shared))
        except OSError as error:
            raise LedgerFileFailedError(
                f"the ledger's folder cannot be locked: {error.strerror}",
                where=str(self.path),
                next_step="look for the right to write the folder, then run it again",
            ) from error

    def _inside(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def held_for_run(self, run_key: RunKey) -> Iterator[FileLock]:
        """Hold a campaign for as long as a run lasts.

        Errors: CampaignBusyError at once where another run of this machine has it; LedgerFileFailedError.
        """
        path = self.path / f"{file_stem(run_key)}{LOCK_SUFFIX}"
        with ExitStack() as held:
            try:
                lock = held.enter_context(locked(path, wait=timedelta()))
            except LockBusyError as error:
                raise CampaignBusyError(
                    f"campaign {run_key} is held by another run",
                    where=str(path),
                    next_step="wait until that run has ended, then run this again; nothing needs to be deleted",
                    run_key=run_key,
                ) from error
            except OSError as error:
                raise LedgerFileFailedError(
                    f"campaign {run_key} cannot be locked: {error.strerror}",
                    where=str(path),
                    next_step="look for the right to write the folder, then run it again",
                ) from error
            yield lock

    def close(self) -> None:
        """Bring the summaries of what was changed up to date, where that is possible; forget what was read."""
        with self._thread:
            with suppress(DponeError, LockBusyError):
                if any(file.summary_due for file in self._files.values()):
                    with self.locked(_LOOK_WAIT):
                        for file in self._files.values():
                            file.refresh()
                            file.write_summary()
            for file in self._files.values():
                file.close()
            self._files.clear()
