"""The reference ledger in memory."""

import pytest

from dpone_runtime.adapters.memory.ledger import ChunkHold, MemoryLedger
from dpone_runtime.domain.lease import LEASE_TTL
from tests.campaign_factories import FixedClock
from tests.conformance.failures_suite import FailuresConformance
from tests.conformance.ledger_suite import Hold, LedgerBackend, LedgerConformance
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


class TestMemoryLedger(LedgerConformance, RoundsConformance, FailuresConformance):
    @pytest.fixture
    def backend(self):
        return MemoryBackend()

    def test_leases_last_exactly_their_ttl(self, backend, claims):
        record = claims.claim(1).record
        backend._clock.advance(LEASE_TTL)
        assert not backend.ledger.renew(record)
