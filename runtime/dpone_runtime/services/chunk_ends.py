"""How chunks end: told by their lane, or read from their row once nothing can commit there any more; never guessed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from dpone_contract.errors import ChunkLeaseLostError, DponeError, ErrorCode, ExitCode, error_class
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.chunk_retries import ChunkRetries
from dpone_runtime.services.run_report import Failure, RunObserver, RunReport

HOLDER_WAIT = timedelta(seconds=10)
"""How long the end of a chunk's session in the database is waited for."""

AGAIN = "run it again; committed chunks are skipped"


@dataclass(frozen=True)
class _Unsettled:
    """A chunk whose end nobody has told. Without a reason it is given back where it did not commit."""

    record: ChunkRecord
    reason: DponeError | None
    detail: str
    since: timedelta


class ChunkEnds:
    """Counts, failures and releases of one run. A chunk that nobody told the end of is unsettled until its lock is free.

    `goes_on`: a failure that the ledger has recorded does not end the run; the ledger says when there were too many.
    """

    def __init__(
        self,
        claims: ChunkClaims,
        observer: RunObserver,
        report: RunReport,
        retries: ChunkRetries,
        clock: Callable[[], timedelta],
        *,
        goes_on: bool,
    ) -> None:
        self._claims = claims
        self._observer = observer
        self._report = report
        self._retries = retries
        self._clock = clock
        self._goes_on = goes_on
        self._unsettled: list[_Unsettled] = []

    @property
    def unsettled(self) -> bool:
        """Whether it is not known yet how some chunk ended: until it is, nothing new may be claimed."""
        return bool(self._unsettled)

    def told(self, request: LoadRequest, record: ChunkRecord, receipt: LoadReceipt) -> None:
        """A lane has committed a chunk: record it, where the ledger does not know of it already."""
        try:
            self._claims.record_commit(request, receipt)
        except ChunkLeaseLostError as lost:
            self.lost(record, lost.message)
            return
        self._committed(record, receipt.rows_extracted, receipt.rows_loaded, receipt.bytes_moved)

    def _committed(self, record: ChunkRecord, extracted: int, loaded: int, bytes_moved: int) -> None:
        self._report.committed += 1
        self._report.rows_extracted += extracted
        self._report.rows_loaded += loaded
        self._report.bytes_moved += bytes_moved
        self._observer.committed(record, loaded, bytes_moved)

    def failed(
        self, record: ChunkRecord, code: str, message: str, next_step: str | None, *, transient: bool = False
    ) -> None:
        """Record a failure where the row is still ours; a row that is not tells that the lease was lost.

        One that may pass by itself is kept for another try, unless the run is ending.
        """
        try:
            self._fail(record, code, message, next_step, transient=transient)
        except DponeError:
            # Its lane is through with it: what the ledger did not take now is told it later.
            self.unknown(record, error_class(code)(message, next_step=next_step, transient=transient))
            raise

    def _fail(
        self, record: ChunkRecord, code: str, message: str, next_step: str | None, *, transient: bool
    ) -> None:
        message = self._retries.worded(record.chunk_index, message)
        wait = self._retries.wait(record.chunk_index) if transient and not self._ending else None
        if not self._claims.fail(record, code, message, again=wait is not None):
            self.lost(record, f"another attempt owns the chunk now; this one ended with: {message}")
            return
        self._retries.count(record.chunk_index)
        failure = _failure(record, code, message, next_step)
        if wait is None:
            self._tell(failure, ends_run=not self._goes_on)
        else:
            self._retries.postpone(failure, wait)
            again = f"is tried again in {wait.total_seconds():g} s"
            self._observer.waiting(f"chunk {record.chunk_index} {again}: {message}")

    def give_up(self) -> None:
        """Wait no longer for chunks that were to be tried again: each has failed for good."""
        for failure in self._retries.give_up():
            self._tell(failure, ends_run=True)

    def lost(self, record: ChunkRecord, message: str) -> None:
        """The chunk was no longer this attempt's: a failure, unless it had committed."""
        if not self._count_committed(record):
            self._tell(_failure(record, ChunkLeaseLostError.code.value, message, AGAIN), ends_run=True)

    def unknown(self, record: ChunkRecord, reason: DponeError | None, detail: str = "") -> None:
        """Take in a chunk whose lane is gone, or does not know; `settle` says later how it ended."""
        self._unsettled.append(_Unsettled(record, reason, detail, self._clock()))

    def settle(self) -> None:
        """Look once at every unsettled chunk: end whoever holds its lock, and judge it by its row once nobody does."""
        waiting, self._unsettled = self._unsettled, []
        while waiting:
            chunk = waiting.pop()
            try:
                held = self._claims.end_holders(chunk.record) > 0
                if held and self._clock() - chunk.since < HOLDER_WAIT:
                    self._unsettled.append(chunk)
                elif held:
                    self._leave(chunk)
                else:
                    self._judge(chunk)
            except BaseException:
                self._unsettled += (chunk, *waiting)
                raise

    def _judge(self, chunk: _Unsettled) -> None:
        record, reason = chunk.record, chunk.reason
        if self._count_committed(record):
            return
        if reason is None:
            # Where the row is not ours to release, the commit has come in since it was read.
            if not self._claims.release(record, chunk.detail):
                self._count_committed(record)
        elif isinstance(reason, ChunkLeaseLostError):
            self.lost(record, reason.message)
        else:
            self._fail(
                record, reason.code.value, reason.message, reason.next_step, transient=reason.transient
            )

    def _leave(self, chunk: _Unsettled) -> None:
        """Judge nothing while a session may still commit: the row stays as it is, and its lease lapses."""
        message = f"its session in the database has not ended within {HOLDER_WAIT.seconds} s"
        if chunk.reason is not None:
            message = f"{chunk.reason.message}; {message}"
        code, next_step = ErrorCode.BACKFILL_LANE_LOST.value, "look for that session, then run it again"
        self._tell(_failure(chunk.record, code, message, next_step), ends_run=True)

    def _count_committed(self, record: ChunkRecord) -> bool:
        row = self._claims.read_back(record)
        if row is None:
            return False
        self._committed(record, row.rows_extracted or 0, row.rows_loaded or 0, 0)
        return True

    @property
    def _ending(self) -> bool:
        report = self._report
        return report.ending or report.interrupted or report.stopped

    def _tell(self, failure: Failure, *, ends_run: bool) -> None:
        self._report.failures.append(failure)
        self._report.ending |= ends_run
        self._observer.failed(failure)


def _failure(record: ChunkRecord, code: str, message: str, next_step: str | None) -> Failure:
    infrastructure = error_class(code).exit_code is ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
    return Failure(record.chunk_index, record.attempt, code, message, next_step, infrastructure)
