"""The ledger in PostgreSQL, over one session a coordinator."""

from collections.abc import Iterator

import pytest

from tests.conformance.failures_suite import FailuresConformance
from tests.conformance.ledger_suite import LedgerConformance
from tests.conformance.postgres_backend import PostgresBackend, postgres_backend
from tests.conformance.postgres_tables import PostgresTables, postgres_tables
from tests.conformance.publication_suite import PublicationConformance
from tests.conformance.rounds_suite import RoundsConformance

__all__ = ["postgres_backend", "postgres_tables"]


class TestPostgresLedger(LedgerConformance, RoundsConformance, FailuresConformance, PublicationConformance):
    @pytest.fixture
    def backend(self, postgres_backend: PostgresBackend) -> Iterator[PostgresBackend]:
        return postgres_backend

    @pytest.fixture
    def tables(self, postgres_tables: PostgresTables) -> PostgresTables:
        return postgres_tables
