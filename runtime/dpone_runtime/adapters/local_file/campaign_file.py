"""The two files of one campaign, read as one: what they say, what is refused of them, and how a change is added.

The folder's lock is held by whoever calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dpone_contract.errors import LedgerFileFailedError, LedgerFileInvalidError
from dpone_runtime.adapters.local_file.campaign_index import CampaignIndex
from dpone_runtime.adapters.local_file.journal import Journal
from dpone_runtime.adapters.local_file.lines import (
    JOURNAL_FORMAT,
    Header,
    Line,
    LineInvalidError,
    decode,
    decode_header,
    encode,
    encode_all,
)
from dpone_runtime.adapters.local_file.summary import (
    SUMMARY_FORMAT,
    JournalMark,
    Summary,
    SummaryInvalidError,
    parse_summary,
    write_durably,
)
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.domain.event import Event, PastEvent
from dpone_runtime.state_directory import JOURNAL_SUFFIX, LEDGER_SUFFIX, file_stem

SUMMARY_EVERY_SECONDS = 2.0
_SUMMARY_SHARE = 50
"""A summary counts all chunks: of very many the next one waits for so many times as long as it took."""

_FAILURES_SHOWN = 5


class CampaignFile:
    """One campaign's files. `refresh` comes before anything else, under the folder's lock."""

    def __init__(self, folder: Path, run_key: str, clock: Callable[[], datetime]) -> None:
        stem = file_stem(run_key)
        self.run_key = run_key
        self.summary_path = folder / f"{stem}{LEDGER_SUFFIX}"
        self.journal_path = folder / f"{stem}{JOURNAL_SUFFIX}"
        self._clock = clock
        self._journal: Journal | None = None
        self._index = CampaignIndex()
        self._end = 0
        self.summary_due = False
        """Whether `<run_key>.json` is older than the journal."""
        self._summary_next = 0.0

    # Reading.

    def refresh(self) -> CampaignIndex:
        """Take in what others have added; give what the files say. Of no campaign, where neither file is there.

        Errors: LedgerFileInvalidError, LedgerFileFailedError.
        """
        with self._failures():
            if self._journal is not None and not self._same_journal(self._journal):
                self.close()
            if self._journal is None:
                self._open()
            elif self._journal.size() > self._end:
                self._read(self._journal)
            return self._index

    def _same_journal(self, journal: Journal) -> bool:
        try:
            return journal.is_at(self.journal_path) and journal.size() >= self._end
        except FileNotFoundError:
            return False

    def _open(self) -> None:
        summary = self._read_summary()
        try:
            journal = Journal(self.journal_path)
        except FileNotFoundError:
            if summary is not None:
                raise self._invalid(
                    self.journal_path, "it is gone, and what it told of the campaign with it"
                ) from None
            return
        self._journal = journal
        try:
            self._read(journal)
            self._require_mark(summary)
        except BaseException:
            self.close()
            raise

    def _read_summary(self) -> Summary | None:
        try:
            data = self.summary_path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            summary = parse_summary(data)
        except SummaryInvalidError as error:
            raise self._invalid(self.summary_path, str(error)) from error
        if summary.run_key != self.run_key:
            raise self._invalid(self.summary_path, f"it is of campaign {summary.run_key}")
        return summary

    def _read(self, journal: Journal) -> None:
        """Take in whole changes; lines of a change without its end were never acknowledged."""
        change: list[tuple[Line, int]] = []
        for offset, text in journal.lines(self._end):
            with self._line_of(offset):
                if offset == 0:
                    self._require_header(text)
                    self._end = len(text)
                    continue
                line = decode(text)
                change.append((line, offset))
                if line.more:
                    continue
                for part, place in change:
                    self._index.apply(part, place)
                change.clear()
                self._end = offset + len(text)

    def _require_header(self, text: bytes) -> None:
        header = decode_header(text)
        if header.run_key != self.run_key:
            raise LineInvalidError(f"it is of campaign {header.run_key}")

    def _require_mark(self, summary: Summary | None) -> None:
        """Require the journal to be the one, and no shorter than, the summary was written of."""
        if self._index.campaign is None:
            raise self._invalid(self.journal_path, "it tells of no campaign: it was cut, or is not dpone's")
        if summary is None:
            # A crash between the first change and its summary leaves this; after any other change somebody has removed it.
            if self._index.sequence > 1:
                raise self._invalid(self.summary_path, "it is gone, and the journal beside it is not")
            self.summary_due = True
            return
        mark = summary.journal
        if self._end < mark.bytes or self._index.sequence < mark.lines:
            raise self._invalid(
                self.journal_path,
                f"it ends after line {self._index.sequence} of at least {mark.lines}: it was cut",
            )
        self.summary_due = self._end > mark.bytes

    # What is written where.

    def chunk(self, chunk_index: int) -> ChunkRecord | None:
        """Read a chunk's row."""
        offset = self._index.row(chunk_index)
        return None if offset is None else self._record(offset)

    def chunks(self, offsets: Iterable[int]) -> Iterator[ChunkRecord]:
        """Read rows at their places."""
        return map(self._record, offsets)

    def events(self, offsets: Iterable[int]) -> Iterator[PastEvent]:
        """Read events at their places."""
        for offset in offsets:
            line = self._line(offset)
            if line.event is not None:
                yield PastEvent(line.sequence, line.at, line.event)

    def _record(self, offset: int) -> ChunkRecord:
        record = self._line(offset).chunk
        if record is None:
            raise self._invalid(self.journal_path, "a line is not the one that it was")
        return record

    def _line(self, offset: int) -> Line:
        with self._failures(), self._line_of(offset):
            if self._journal is None:
                raise LineInvalidError("the journal is closed")
            return decode(self._journal.line(offset))

    # Writing.

    def add(
        self,
        rows: Sequence[tuple[Event | None, Campaign | ChunkRecord | None]],
        now: datetime,
    ) -> None:
        """Add one change: each event with the row that it tells of. It is on the disk when this returns.

        Errors: LedgerFileFailedError.
        """
        first, last = self._index.sequence + 1, len(rows) - 1
        lines = [
            Line(
                sequence=first + number,
                at=now,
                more=number < last,
                event=event,
                campaign=row if isinstance(row, Campaign) else None,
                chunk=row if isinstance(row, ChunkRecord) else None,
            )
            for number, (event, row) in enumerate(rows)
        ]
        with self._failures():
            if self._journal is None:
                self._create(lines)
            else:
                if not self.summary_path.exists():
                    self.write_summary()
                self._journal.append(encode_all(lines), self._end)
                self._read(self._journal)
            self.summary_due = True
            changed = any(line.campaign is not None for line in lines)
            if changed or time.monotonic() >= self._summary_next:
                self.write_summary()

    def _create(self, lines: Sequence[Line]) -> None:
        write_durably(
            self.journal_path, encode(Header(format=JOURNAL_FORMAT, run_key=self.run_key)) + encode_all(lines)
        )
        self._journal = Journal(self.journal_path)
        self._read(self._journal)

    def write_summary(self) -> None:
        """Bring `<run_key>.json` up to date, where it is not.

        Errors: LedgerFileFailedError.
        """
        index = self._index
        if index.campaign is None or not self.summary_due:
            return
        now, begun = self._clock(), time.monotonic()
        counts = index.counts(index.campaign.round, now)
        failures = [offset for offset, _ in zip(index.failed_rows(), range(_FAILURES_SHOWN), strict=False)]
        running = [offset for number in index.running() if (offset := index.row(number)) is not None]
        summary = Summary(
            format=SUMMARY_FORMAT,
            run_key=self.run_key,
            written_at=now,
            campaign=index.campaign,
            chunks={status.value: count for status, count in sorted(counts.items())},
            running=tuple(self.chunks(running)),
            failures=tuple(self.chunks(failures)),
            journal=JournalMark(file=self.journal_path.name, bytes=self._end, lines=index.sequence),
        )
        with self._failures():
            text = summary.model_dump_json(indent=2, exclude_defaults=True)
            write_durably(self.summary_path, text.encode() + b"\n")
        ended = time.monotonic()
        self.summary_due = False
        self._summary_next = ended + max(SUMMARY_EVERY_SECONDS, _SUMMARY_SHARE * (ended - begun))

    def close(self) -> None:
        """Forget what was read."""
        if self._journal is not None:
            self._journal.close()
        self._journal, self._index, self._end, self.summary_due = None, CampaignIndex(), 0, False

    # What goes wrong.

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LedgerFileFailedError(
                f"the ledger of campaign {self.run_key} cannot be used: {error.strerror}",
                where=str(error.filename or self.journal_path),
                next_step="look for the right to write the folder and for space on its disk, then run it again",
                run_key=self.run_key,
            ) from error

    @contextmanager
    def _line_of(self, offset: int) -> Iterator[None]:
        try:
            yield
        except LineInvalidError as error:
            raise self._invalid(
                self.journal_path, f"the line at byte {offset} is damaged: {error}"
            ) from error

    def _invalid(self, path: Path, what: str) -> LedgerFileInvalidError:
        both = f"{self.summary_path.name} and {self.journal_path.name}"
        return LedgerFileInvalidError(
            f"the ledger of campaign {self.run_key} cannot be believed: {path.name}: {what}",
            where=str(path),
            next_step=f"restore {both} from one copy; where its chunks may be loaded again, move both away",
            run_key=self.run_key,
        )
