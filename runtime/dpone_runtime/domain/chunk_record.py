"""A chunk's row in the ledger, and the only ways in which it may change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from dpone_contract.chunk_plan import Chunk, RunKey
from dpone_runtime.domain.lease import OwnerToken


class ChunkStatus(StrEnum):
    """What the ledger knows of a chunk. `lease_expired` is shown, never stored."""

    PENDING = "pending"
    RUNNING = "running"
    COMMITTED = "committed"
    FAILED = "failed"
    LEASE_EXPIRED = "lease_expired"


TRANSITIONS: dict[ChunkStatus, frozenset[ChunkStatus]] = {
    ChunkStatus.PENDING: frozenset({ChunkStatus.RUNNING}),
    ChunkStatus.RUNNING: frozenset(
        {ChunkStatus.RUNNING, ChunkStatus.COMMITTED, ChunkStatus.FAILED, ChunkStatus.PENDING}
    ),
    ChunkStatus.COMMITTED: frozenset({ChunkStatus.RUNNING}),
    ChunkStatus.FAILED: frozenset({ChunkStatus.RUNNING}),
    ChunkStatus.LEASE_EXPIRED: frozenset({ChunkStatus.RUNNING}),
}
"""What may follow what. Committed to running happens only in a later round, running to running only after a lapse."""


@dataclass(frozen=True)
class ChunkRecord:
    """The current row of one chunk that was ever claimed.

    `revision` grows by one with every change; `attempt` counts claims over all rounds; `owner` stays after the commit.
    Rows and bytes are those of the committing attempt.
    """

    run_key: RunKey
    chunk_index: int
    status: ChunkStatus
    revision: int
    round: int
    attempt: int
    owner: OwnerToken | None
    lease_expires_at: datetime | None
    idempotency_key: str
    lower: str
    upper: str
    rows_extracted: int | None = None
    rows_loaded: int | None = None
    content_digest: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    dag_run_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def committed_in(self, round_number: int) -> bool:
        """Whether this chunk's rows are in the target as of that round."""
        return self.status is ChunkStatus.COMMITTED and self.round == round_number

    def lease_live(self, now: datetime) -> bool:
        """Whether somebody may still finish this chunk without asking anew."""
        return (
            self.status is ChunkStatus.RUNNING
            and self.lease_expires_at is not None
            and self.lease_expires_at > now
        )

    def shown_status(self, now: datetime) -> ChunkStatus:
        """Give the status that a person should see."""
        if self.status is ChunkStatus.RUNNING and not self.lease_live(now):
            return ChunkStatus.LEASE_EXPIRED
        return self.status


def claimed(
    record: ChunkRecord | None,
    chunk: Chunk,
    *,
    run_key: RunKey,
    owner: OwnerToken,
    round_number: int,
    now: datetime,
    expires_at: datetime,
    dag_run_id: str | None,
) -> ChunkRecord:
    """Give the row of a new attempt; the decision to claim has been taken elsewhere."""
    return ChunkRecord(
        run_key=run_key,
        chunk_index=chunk.index,
        status=ChunkStatus.RUNNING,
        revision=record.revision + 1 if record else 1,
        round=round_number,
        attempt=record.attempt + 1 if record else 1,
        owner=owner,
        lease_expires_at=expires_at,
        idempotency_key=chunk.idempotency_key,
        lower=chunk.lower,
        upper=chunk.upper,
        dag_run_id=dag_run_id,
        started_at=now,
    )


def failed(record: ChunkRecord, code: str, message: str, now: datetime) -> ChunkRecord:
    """Give the row of an attempt that ended without a commit."""
    return replace(
        record,
        status=ChunkStatus.FAILED,
        revision=record.revision + 1,
        lease_expires_at=None,
        error_code=code,
        error_message=message[:2000],
        finished_at=now,
    )


def released(record: ChunkRecord) -> ChunkRecord:
    """Give the row of a claim that moved nothing and is free again."""
    return replace(
        record, status=ChunkStatus.PENDING, revision=record.revision + 1, owner=None, lease_expires_at=None
    )
