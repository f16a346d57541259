"""What a journal says, kept in memory: the campaign, and of each chunk how it stands and where its row is written.

A few bytes a chunk, so that a million of them take some megabytes; whole rows are read from the journal when they are asked for.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from dpone_runtime.adapters.local_file.lines import Line, LineInvalidError
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.event import EventKind

_STORED = (ChunkStatus.PENDING, ChunkStatus.RUNNING, ChunkStatus.COMMITTED, ChunkStatus.FAILED)
_CODES = {status: code for code, status in enumerate(_STORED)}
_RUNNING, _COMMITTED, _FAILED = (
    _CODES[status] for status in (ChunkStatus.RUNNING, ChunkStatus.COMMITTED, ChunkStatus.FAILED)
)
_VERDICTS = (EventKind.VERIFIED, EventKind.DIFFERS)


class CampaignIndex:
    """The state after some lines. `sequence` is the last line's; nothing was read while `campaign` is None."""

    def __init__(self) -> None:
        self.campaign: Campaign | None = None
        self.sequence = 0
        self._offsets = array("q")
        self._codes = bytearray()
        self._rounds = array("l")
        self._tallies = Counter[tuple[int, int]]()
        """How many chunks have a status, by its code, in a round."""
        self._leases: dict[int, datetime | None] = {}
        self._history = array("q")
        self._verdicts = (array("q"), array("l"), array("q"))
        """Of each: the event's id, the chunk, where the line begins."""

    def apply(self, line: Line, offset: int) -> None:
        """Take one more line, which begins at a byte of the journal.

        Errors: LineInvalidError where it cannot follow.
        """
        if line.sequence != self.sequence + 1:
            raise LineInvalidError(
                f"its sequence is {line.sequence}, not {self.sequence + 1}: lines are missing"
            )
        if line.campaign is not None:
            self._take_campaign(line.campaign)
        if line.chunk is not None:
            self._require_chunk(line.chunk.chunk_index)
            self._take_chunk(line, offset)
        if line.event is not None:
            self._take_event(line, offset)
        self.sequence = line.sequence

    def _take_campaign(self, campaign: Campaign) -> None:
        if self.campaign is None:
            size = campaign.chunks_total + 1
            self._offsets = array("q", bytes(8 * size))
            self._codes = bytearray(size)
            self._rounds = array("l", bytes(array("l").itemsize * size))
        elif campaign.chunks_total != self.campaign.chunks_total:
            raise LineInvalidError("it changes the number of chunks")
        self.campaign = campaign

    def _require_chunk(self, chunk_index: int) -> None:
        if not 1 <= chunk_index < len(self._offsets):
            raise LineInvalidError("it names a chunk that the campaign does not have")

    def _take_chunk(self, line: Line, offset: int) -> None:
        record = line.chunk
        if record is None or record.status not in _CODES:
            raise LineInvalidError("it holds a status that is never stored")
        index = record.chunk_index
        if self._offsets[index]:
            self._tallies[self._codes[index], self._rounds[index]] -= 1
        self._tallies[_CODES[record.status], record.round] += 1
        self._offsets[index] = offset
        self._codes[index] = _CODES[record.status]
        self._rounds[index] = record.round
        if record.status is ChunkStatus.RUNNING:
            self._leases[index] = record.lease_expires_at
        else:
            self._leases.pop(index, None)

    def _take_event(self, line: Line, offset: int) -> None:
        event = line.event
        if event is None:
            return
        if event.chunk_index is None:
            self._history.append(offset)
        elif event.kind in _VERDICTS:
            for kept, value in zip(self._verdicts, (line.sequence, event.chunk_index, offset), strict=True):
                kept.append(value)

    # Where things are written.

    def row(self, chunk_index: int) -> int | None:
        """Give the byte at which a chunk's row begins, None where it was never claimed."""
        if not 0 < chunk_index < len(self._offsets):
            return None
        return self._offsets[chunk_index] or None

    def rows(self, first: int, last: int) -> Iterator[int]:
        """Give where the rows in `first..last` begin, by index."""
        for index in range(max(first, 1), min(last, len(self._offsets) - 1) + 1):
            if self._offsets[index]:
                yield self._offsets[index]

    def failed_rows(self) -> Iterator[int]:
        """Give where the rows of chunks that failed in the campaign's round begin, by index."""
        round_number = self.campaign.round if self.campaign else 0
        index = self._codes.find(_FAILED)
        while index >= 0:
            if self._rounds[index] == round_number:
                yield self._offsets[index]
            index = self._codes.find(_FAILED, index + 1)

    def running(self) -> tuple[int, ...]:
        """Give the chunks that are marked running, live or not, by index."""
        return tuple(sorted(self._leases))

    def lapsed(self, now: datetime) -> tuple[int, ...]:
        """Give those of them whose lease has lapsed, by index."""
        return tuple(
            sorted(index for index, expiry in self._leases.items() if expiry is None or expiry <= now)
        )

    def history(self) -> tuple[int, ...]:
        """Give where the lines of the campaign's own events begin."""
        return tuple(self._history)

    def verdicts(self, first: int, last: int, after: int) -> tuple[int, ...]:
        """Give where the lines of what verifications found of `first..last` begin, later than an event's id."""
        return tuple(
            offset
            for sequence, index, offset in zip(*self._verdicts, strict=True)
            if sequence > after and first <= index <= last
        )

    # How things stand.

    def live_leases(self, now: datetime) -> int:
        """Count the chunks whose lease has not lapsed."""
        return sum(expiry is not None and expiry > now for expiry in self._leases.values())

    def committed(self, round_number: int, first: int, last: int) -> frozenset[int]:
        """Give the chunks in `first..last` that are committed in a round."""
        span = range(max(first, 1), min(last, len(self._codes) - 1) + 1)
        return frozenset(
            index
            for index in span
            if self._codes[index] == _COMMITTED and self._rounds[index] == round_number
        )

    def statuses(self, round_number: int, now: datetime) -> Mapping[int, ChunkStatus]:
        """Give the shown status of every chunk that has a row, by index."""
        return {
            index: self._shown(index, round_number, now)
            for index in range(1, len(self._offsets))
            if self._offsets[index]
        }

    def counts(self, round_number: int, now: datetime) -> Mapping[ChunkStatus, int]:
        """Count them by shown status, all but those that are pending."""
        live = self.live_leases(now)
        found = {
            ChunkStatus.COMMITTED: self._tallies[_COMMITTED, round_number],
            ChunkStatus.FAILED: self._tallies[_FAILED, round_number],
            ChunkStatus.RUNNING: live,
            ChunkStatus.LEASE_EXPIRED: len(self._leases) - live,
        }
        return {status: count for status, count in found.items() if count}

    def _shown(self, index: int, round_number: int, now: datetime) -> ChunkStatus:
        code = self._codes[index]
        if code in (_COMMITTED, _FAILED) and self._rounds[index] != round_number:
            return ChunkStatus.PENDING
        if code == _RUNNING:
            expiry = self._leases[index]
            return ChunkStatus.RUNNING if expiry is not None and expiry > now else ChunkStatus.LEASE_EXPIRED
        return _STORED[code]
