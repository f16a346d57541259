"""The ledger in a folder, with its locks in a real database."""

from collections.abc import Iterator

import pytest

from tests.conformance.failures_suite import FailuresConformance
from tests.conformance.ledger_suite import LedgerConformance
from tests.conformance.local_file_backend import LocalFileBackend, local_file_backend
from tests.conformance.rounds_suite import RoundsConformance

__all__ = ["local_file_backend"]


class TestLocalFileLedger(LedgerConformance, RoundsConformance, FailuresConformance):
    @pytest.fixture
    def backend(self, local_file_backend: LocalFileBackend) -> Iterator[LocalFileBackend]:
        return local_file_backend
