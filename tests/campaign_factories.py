"""Valid campaigns, plans and chunk rows of the runtime to override one thing of, and a clock that a test moves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dpone_contract.chunk_kinds.dates import DateChunks
from dpone_contract.chunk_plan import ChunkPlan, RunKey, plan_chunks, plan_hash
from dpone_contract.step import parse_step
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, Shadow, TableIdentity, Window
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.lease import LEASE_TTL, OwnerToken

FIRST_DAY = date(2013, 1, 1)
NOON = datetime(2013, 6, 1, 12, tzinfo=UTC)
RUN_KEY = RunKey("flights-history")
SOURCE = TableIdentity("server-1", "shop", "16400", "public.flights")
SHADOW = Shadow("16600", "public.flights_shadow", "sha256:" + "d" * 64)
TARGET = TableIdentity("server-2", "warehouse", "16500", "public.flights")


class FixedClock:
    """A clock that moves when it is told to: instants for the ledger, elapsed time for the coordinator."""

    def __init__(self) -> None:
        self._elapsed = timedelta()

    def now(self) -> datetime:
        """Give the instant."""
        return NOON + self._elapsed

    def elapsed(self) -> timedelta:
        """Give the time since the beginning."""
        return self._elapsed

    def advance(self, by: timedelta) -> None:
        """Move on."""
        self._elapsed += by


def make_plan(chunks: int = 5, run_key: str = RUN_KEY) -> ChunkPlan:
    """Daily chunks from 2013-01-01 on."""
    spec = DateChunks("flight_date", FIRST_DAY, FIRST_DAY + timedelta(days=chunks - 1), parse_step("1d"))
    return plan_chunks(spec, RunKey(run_key))


def make_campaign(plan: ChunkPlan | None = None, **changes: Any) -> Campaign:
    """The campaign that a run of a plan wants."""
    plan = plan or make_plan()
    wanted = Campaign(
        run_key=plan.run_key,
        status=CampaignStatus.OPEN,
        revision=1,
        round=1,
        plan_hash=plan_hash(plan),
        config_hash="sha256:" + "c" * 64,
        chunks_total=plan.chunks_total,
        dataset="public.flights",
        inner_mode="partition_replace",
        templated=False,
        window=Window(plan.spec.column, plan.spec.kind.value, plan.lower, plan.upper),
        source=SOURCE,
        target=TARGET,
        columns=("flight_date", 'carrier, of "two" {names}'),
    )
    return replace(wanted, **changes)


def make_record(**changes: Any) -> ChunkRecord:
    """The row of a chunk at work: attempt 1, its lease just taken at noon."""
    record = ChunkRecord(
        run_key=RUN_KEY,
        chunk_index=1,
        status=ChunkStatus.RUNNING,
        revision=1,
        round=1,
        attempt=1,
        owner=OwnerToken("owner-1"),
        lease_expires_at=NOON + LEASE_TTL,
        idempotency_key="sha256:" + "1" * 64,
        lower="2013-01-01",
        upper="2013-01-02",
        started_at=NOON,
    )
    return replace(record, **changes)
