"""The reference ledger in memory."""

from collections import Counter
from dataclasses import replace

import pytest

from dpone_contract.chunk_plan import RunKey
from dpone_runtime.adapters.memory.ledger import ChunkHold, MemoryLedger
from dpone_runtime.domain.campaign import Campaign, Shadow
from dpone_runtime.domain.lease import LEASE_TTL
from dpone_runtime.domain.publication import ShadowContent, Swap
from tests.campaign_factories import TARGET, FixedClock, make_campaign, make_plan
from tests.conformance.failures_suite import FailuresConformance
from tests.conformance.ledger_suite import Hold, LedgerBackend, LedgerConformance
from tests.conformance.publication_suite import PublicationConformance, make_swap
from tests.conformance.rounds_suite import RoundsConformance


class MemoryHold(Hold):
    def __init__(self, hold: ChunkHold) -> None:
        self._hold = hold

    def ended(self) -> bool:
        return self._hold.ended


class MemoryBackend(LedgerBackend):
    """Both coordinators are of one process; the clock makes a lease lapse and other leases are renewed meanwhile."""

    def __init__(self) -> None:
        self._clock = FixedClock()
        self.ledger = self.second = MemoryLedger(self._clock.now)
        self.ledger.ensure_schema()

    def expire_lease(self, record):
        others = [
            found
            for index in self.ledger.chunk_statuses(record.run_key)
            if index != record.chunk_index
            and (found := self.ledger.read_chunk(record.run_key, index)).lease_live(self._clock.now())
        ]
        for step in (LEASE_TTL / 2, LEASE_TTL / 2):
            self._clock.advance(step)
            for other in others:
                self.ledger.renew(other)

    def pass_time(self):
        self._clock.advance(LEASE_TTL)

    def complete(self, request, rows_extracted, rows_loaded):
        self.ledger.complete_chunk(request, rows_extracted, rows_loaded)

    def hold_chunk(self, record):
        return MemoryHold(self.ledger.hold_chunk(record.run_key, record.chunk_index))

    def events(self):
        return list(self.ledger.events)


class MemoryTables:
    """What is live is what the ledger has swapped last; a shadow is a number and how many rows are in it."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._shadows: dict[RunKey, Shadow] = {}
        self._rows = Counter[str]()

    def wanted(self, run_key: RunKey) -> Campaign:
        shadow = self._shadows.get(run_key)
        if shadow is None or any(swap.shadow_relation == shadow.relation for swap in self._ledger.swapped):
            relation = str(20_000 + len(self._ledger.swapped))
            shadow = self._shadows[run_key] = Shadow(relation, f"public.shadow_{relation}", "sha256:1")
        target = replace(TARGET, relation=self.live())
        return make_campaign(make_plan(run_key=run_key), target=target, shadow=shadow)

    def swap(self, campaign: Campaign) -> Swap:
        assert campaign.shadow is not None
        return make_swap(campaign.target.relation, campaign.shadow)

    def write(self, swap: Swap, rows: int) -> None:
        self._rows[swap.shadow_relation] += rows
        self._ledger.shadow_content = ShadowContent(self._rows[swap.shadow_relation], 0)

    def live(self) -> str:
        return self._ledger.swapped[-1].shadow_relation if self._ledger.swapped else TARGET.relation

    def ledgers(self, count: int) -> list[MemoryLedger]:
        return [self._ledger] * count


class TestMemoryLedger(LedgerConformance, RoundsConformance, FailuresConformance, PublicationConformance):
    @pytest.fixture
    def backend(self):
        return MemoryBackend()

    @pytest.fixture
    def tables(self, backend):
        return MemoryTables(backend.ledger)

    def test_leases_last_exactly_their_ttl(self, backend, claims):
        record = claims.claim(1).record
        backend._clock.advance(LEASE_TTL)
        assert not backend.ledger.renew(record)
