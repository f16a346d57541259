"""The ledger in a folder, with its locks in a real database."""

from collections.abc import Iterator

import pytest

from dpone_contract.errors import StateUnsupportedError
from dpone_runtime.domain.campaign import Shadow
from dpone_runtime.ports.ledger import PublicationView
from tests.campaign_factories import RUN_KEY, TARGET
from tests.conformance.failures_suite import FailuresConformance
from tests.conformance.ledger_suite import LedgerConformance
from tests.conformance.local_file_backend import LocalFileBackend, local_file_backend
from tests.conformance.publication_suite import make_swap
from tests.conformance.rounds_suite import RoundsConformance

__all__ = ["local_file_backend"]

SHADOW = Shadow("20000", "public.aside", "sha256:1")


class TestLocalFileLedger(LedgerConformance, RoundsConformance, FailuresConformance):
    @pytest.fixture
    def backend(self, local_file_backend: LocalFileBackend) -> Iterator[LocalFileBackend]:
        return local_file_backend

    @pytest.mark.parametrize("fenced", [False, True])
    def test_a_publication_is_refused_and_decides_nothing(self, backend, ledger, campaign, fenced):
        asked: list[PublicationView] = []
        before = backend.events()
        with pytest.raises(StateUnsupportedError, match="cannot commit together") as refused:
            ledger.publish(RUN_KEY, make_swap(TARGET.relation, SHADOW), asked.append, fenced=fenced)
        assert "audit_schema" in refused.value.next_step
        assert ([], before) == (asked, backend.events())
