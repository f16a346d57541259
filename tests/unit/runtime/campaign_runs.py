"""A campaign on the ledger in memory, its lanes scripted: one call runs it and gives all that there is to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from dpone_contract.chunk_plan import ChunkPlan
from dpone_contract.manifest import RetryPolicy
from dpone_runtime.adapters.memory.ledger import MemoryLedger
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.services.chunk_claims import ChunkClaims, Claim
from dpone_runtime.services.open_campaign import OpenedCampaign, open_campaign
from dpone_runtime.services.run_campaign import CampaignRun, RunTools, Selection, run_campaign
from tests.campaign_factories import FixedClock, make_campaign, make_plan
from tests.unit.runtime.scripted_lanes import Attempt, Opening, ScriptedLanes, Told


@dataclass
class Stage:
    """One ledger and clock, and whatever runs on them; `stop_at` is when this run is told to stop."""

    chunks: int = 5
    templated: bool = False
    clock: FixedClock = field(default_factory=FixedClock)
    stop_at: timedelta | None = None

    def __post_init__(self) -> None:
        self.ledger = MemoryLedger(self.clock.now)
        self.plan: ChunkPlan = make_plan(self.chunks)
        self.told = Told()
        self.opened: list[OpenedCampaign] = []
        self.lanes_asked_for = 0

    def lanes(
        self, attempts: Mapping[int, Sequence[Attempt]] | None = None, openings: Sequence[Opening] = ()
    ) -> ScriptedLanes:
        """Lanes for the next run."""
        return ScriptedLanes(self.ledger, self.clock, attempts, openings)

    def open(self) -> None:
        """Open the campaign as some other run has."""
        open_campaign(self.ledger, make_campaign(self.plan, templated=self.templated))

    def other_claims(self, index: int) -> Claim:
        """Have another run claim a chunk."""
        claims = ChunkClaims(self.ledger, self.plan, max_active=None, dag_run_id=None)
        return claims.claim(index)

    def run(
        self,
        lanes: ScriptedLanes | None = None,
        *,
        lane_count: int = 1,
        first: int = 1,
        last: int | None = None,
        mapped: bool = False,
        max_active: int | None = None,
        policy: RetryPolicy = RetryPolicy.NON_COMMITTED,
        reason: str | None = None,
        continues: bool = False,
        restart: bool = False,
        stop_after_failures: int | None = None,
    ) -> CampaignRun:
        """Run the selection to its end."""
        lanes = lanes or self.lanes()

        def pool() -> ScriptedLanes:
            self.lanes_asked_for += 1
            return lanes

        tools = RunTools(
            ledger=self.ledger,
            lanes=pool,
            observer=self.told,
            clock=self.clock.elapsed,
            stop_requested=lambda: self.stop_at is not None and self.clock.elapsed() >= self.stop_at,
            opened=self.opened.append,
        )
        selection = Selection(
            first=first,
            last=self.chunks if last is None else last,
            mapped=mapped,
            max_active=max_active,
            lane_count=lane_count,
            policy=policy,
            dag_run_id="manual__1",
            reason=reason,
            continues=continues,
            restart=restart,
            stop_after_failures=stop_after_failures,
        )
        return run_campaign(tools, self.plan, make_campaign(self.plan, templated=self.templated), selection)

    def statuses(self) -> dict[int, ChunkStatus]:
        """Every chunk's shown status."""
        return dict(self.ledger.chunk_statuses(self.plan.run_key))
