"""One claimed chunk and a lane in this very process: what tests of a single data transaction begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dpone_contract.process import plan_campaign
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.bootstrap import PreparedRun, prepare_run, resolve_connections
from dpone_runtime.lane_bootstrap import open_lane
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import open_campaign
from tests.integration.campaigns import History, mapped_process

CHUNKS = "dpone_audit.__dpone__backfill_chunks"
CAMPAIGNS = "dpone_audit.__dpone__backfill_campaigns"


@dataclass
class Attempt:
    """One claimed chunk of an open campaign, and a lane of this very process that tells its steps."""

    history: History
    prepared: PreparedRun
    claims: ChunkClaims
    request: LoadRequest

    def load(
        self, request: LoadRequest | None = None, after: Callable[[str], None] = lambda step: None
    ) -> None:
        loader = open_lane(self.prepared.lane_bootstrap.to_document(), after)
        try:
            loader.load(request or self.request, lambda moved: None)
        finally:
            loader.close()

    def state(self) -> tuple[object, ...]:
        """Everything that a load may change."""
        return (
            self.history.versions(1),
            self.history.sql(f"SELECT *, xmin::text FROM {CHUNKS} ORDER BY chunk_index"),
            self.history.sql(f"SELECT *, xmin::text FROM {CAMPAIGNS}"),
            self.history.events(1),
        )


@contextmanager
def claimed_attempt(history: History) -> Iterator[Attempt]:
    """Chunk 1 of three claimed, its slice full of stale rows. The connections have to stand in the environment."""
    history.add_stale_rows()
    process = mapped_process(3)
    planned = plan_campaign(process)
    prepared = prepare_run(process, planned, resolve_connections(process.manifest, history.environ))
    open_campaign(prepared.ledger, prepared.wanted)
    claims = ChunkClaims(prepared.ledger, planned.plan, max_active=None, dag_run_id=None)
    request = claims.claim(1).request
    assert request is not None
    yield Attempt(history, prepared, claims, request)
    assert isinstance(prepared.ledger, SqlLedger)
    prepared.ledger.close()
