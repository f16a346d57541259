"""Verifications over the ledger in memory: which verdict spares a comparison, and which does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dpone_contract.chunk_plan import Chunk
from dpone_runtime.domain.verification import VerificationMethod, VerificationReport
from dpone_runtime.ports.connectors import SliceContent
from dpone_runtime.services.verify_campaign import VerificationTools, verify_campaign
from tests.campaign_factories import RUN_KEY
from tests.unit.runtime.campaign_runs import Stage

CHUNKS = 5
ROWS = 7


@dataclass
class Side:
    """One side whose chunks have so many rows each; those of `changed` have other values."""

    changed: set[int] = field(default_factory=set)

    def content(self, chunk: Chunk, *, digest: bool) -> SliceContent:
        value = "changed" if chunk.index in self.changed else "same"
        return SliceContent(ROWS, value if digest else None)

    def close(self) -> None:
        """Hold nothing."""


class Verifying:
    """A loaded campaign, and verifications of it that stop after so many chunks."""

    def __init__(self) -> None:
        self.stage = Stage(CHUNKS)
        self.stage.run()
        self.target = Side()

    def verify(
        self,
        method: VerificationMethod,
        *,
        stop_after: int = CHUNKS,
        meanwhile: Callable[[], object] | None = None,
    ) -> VerificationReport:
        """Verify; `meanwhile` happens once the first chunk has its verdict."""
        compared: list[int] = []

        def one_more(report: VerificationReport) -> None:
            compared.append(report.compared)
            if meanwhile is not None and len(compared) == 1:
                meanwhile()

        tools = VerificationTools(
            self.stage.ledger, Side(), self.target, lambda: len(compared) >= stop_after, one_more
        )
        campaign = self.stage.ledger.read_campaign(RUN_KEY)
        assert campaign is not None
        return verify_campaign(tools, self.stage.plan, campaign, method)


def test_a_verdict_by_counts_spares_no_comparison_of_contents() -> None:
    """Two verifications at once, both stopped: counts have passed chunks 2 and 3 after that of contents began."""
    verifying = Verifying()
    verifying.target.changed = {3}
    verifying.verify(
        VerificationMethod.COUNTS,
        stop_after=3,
        meanwhile=lambda: verifying.verify(VerificationMethod.CONTENT, stop_after=1),
    )
    report = verifying.verify(VerificationMethod.CONTENT)
    assert (1, 4, [3]) == (report.compared_before, report.compared, report.different)


def test_what_differed_is_compared_again() -> None:
    """The row was put back while the verification was at rest."""
    verifying = Verifying()
    verifying.target.changed = {1}
    stopped = verifying.verify(VerificationMethod.CONTENT, stop_after=2)
    assert ([1], True) == (stopped.different, stopped.interrupted)
    verifying.target.changed = set()
    report = verifying.verify(VerificationMethod.CONTENT)
    assert (1, 4, []) == (report.compared_before, report.compared, report.different)
    assert report.whole
