"""What is read of a ledger over any SQL session, without a lock: each a named query, and its rows as records."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_contract.chunk_options import MAX_CHUNKS_LIMIT
from dpone_contract.chunk_plan import RunKey
from dpone_runtime.adapters.sql.queries import Queries
from dpone_runtime.adapters.sql.rows import Row, campaign_from_row, event_from_row, record_from_row
from dpone_runtime.adapters.sql.session import SqlSession
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.event import PastEvent
from dpone_runtime.ports.ledger import FailureGroup, RunningChunk


class LedgerReader:
    """The looking half of `CampaignLedger` over a `SqlSession`."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session

    @property
    def _queries(self) -> Queries:
        return self._session.queries

    def read_campaign(self, run_key: RunKey) -> Campaign | None:
        rows = self._read("read_campaign", run_key=run_key)
        return campaign_from_row(rows[0]) if rows else None

    def read_chunk(self, run_key: RunKey, chunk_index: int) -> ChunkRecord | None:
        rows = self._read("read_chunk", run_key=run_key, chunk_index=chunk_index)
        return record_from_row(rows[0]) if rows else None

    def read_chunks(self, run_key: RunKey, first: int, last: int) -> tuple[ChunkRecord, ...]:
        rows = self._read("read_chunks", run_key=run_key, first=first, last=last)
        return tuple(record_from_row(row) for row in rows)

    def campaign_events(self, run_key: RunKey) -> tuple[PastEvent, ...]:
        return tuple(event_from_row(row) for row in self._read("campaign_events", run_key=run_key))

    def verdicts(self, run_key: RunKey, first: int, last: int, after: int) -> tuple[PastEvent, ...]:
        rows = self._read("verdicts", run_key=run_key, first=first, last=last, after=after)
        return tuple(event_from_row(row) for row in rows)

    def committed(self, run_key: RunKey, round_number: int, first: int, last: int) -> frozenset[int]:
        rows = self._read("committed_chunks", run_key=run_key, round=round_number, first=first, last=last)
        return frozenset(row[0] for row in rows)

    def chunk_statuses(
        self, run_key: RunKey, first: int = 1, last: int = MAX_CHUNKS_LIMIT
    ) -> Mapping[int, ChunkStatus]:
        rows = self._read("list_statuses", run_key=run_key, first=first, last=last)
        return {row[0]: ChunkStatus(row[1]) for row in rows}

    def failures(self, run_key: RunKey, limit: int) -> tuple[ChunkRecord, ...]:
        return tuple(
            record_from_row(row) for row in self._read("list_failures", run_key=run_key, count=limit)
        )

    def failed_or_lapsed(self, run_key: RunKey, first: int, last: int, limit: int) -> tuple[ChunkRecord, ...]:
        rows = self._read("list_failed_or_lapsed", run_key=run_key, first=first, last=last, count=limit)
        return tuple(record_from_row(row) for row in rows)

    def failed_count(self, run_key: RunKey) -> int:
        return int(self._read("count_failed", run_key=run_key)[0][0])

    def failure_groups(self, run_key: RunKey) -> tuple[FailureGroup, ...]:
        return tuple(FailureGroup(*row) for row in self._read("group_failures", run_key=run_key))

    def running(self, run_key: RunKey, limit: int) -> tuple[RunningChunk, ...]:
        rows = self._read("list_running", run_key=run_key, count=limit)
        return tuple(RunningChunk(record_from_row(row), row[19]) for row in rows)

    def counts(self, run_key: RunKey, round_number: int) -> Mapping[ChunkStatus, int]:
        rows = self._read("count_statuses", run_key=run_key, round=round_number)
        return {ChunkStatus(status): count for status, count in rows if count}

    def _read(self, name: str, **values: object) -> list[Row]:
        return self._session.batch((self._queries.statement(name, **values),))[0]
