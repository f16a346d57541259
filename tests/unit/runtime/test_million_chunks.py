"""A run of a million chunks: what the coordinator keeps of them is a bit each."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from dpone_contract.manifest import RetryPolicy
from dpone_runtime.adapters.memory.ledger import MemoryLedger
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.chunk_set import ChunkSet
from dpone_runtime.services.open_campaign import open_campaign
from dpone_runtime.services.run_campaign import RunTools, Selection, run_campaign
from tests.campaign_factories import FixedClock, make_campaign, make_plan, make_record
from tests.unit.runtime.scripted_lanes import ScriptedLanes, Told

MILLION = 1_000_000
LEFT = 3
"""So many chunks, the last ones, are not committed yet."""


class LargeLedger(MemoryLedger):
    """Says of all chunks but the last that they are committed, without a row for each."""

    total: int

    def committed(self, run_key, round_number, first, last):
        return frozenset(range(first, min(last, self.total - LEFT) + 1))

    def failed_or_lapsed(self, run_key, first, last, limit):
        failed = range(max(first, self.total - LEFT + 1), last + 1)[:limit]
        return tuple(make_record(chunk_index=index, status=ChunkStatus.FAILED) for index in failed)


@contextmanager
def peak_below(megabytes: float) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "policy, total", [(RetryPolicy.NON_COMMITTED, MILLION), (RetryPolicy.FAILED_ONLY, MILLION // 5)]
)
def test_a_million_chunks_pass_the_coordinator_in_a_few_megabytes(policy: RetryPolicy, total: int):
    clock = FixedClock()
    ledger, plan, told = LargeLedger(clock.now), make_plan(total), Told()
    ledger.total = total
    wanted = make_campaign(chunks_total=total)
    open_campaign(ledger, wanted)
    lanes = ScriptedLanes(ledger, clock)
    tools = RunTools(ledger, lambda: lanes, told, clock.elapsed, lambda: False, lambda opened: None)
    selection = Selection(1, total, False, None, 1, policy, None)
    with peak_below(4):
        run = run_campaign(tools, plan, wanted, selection)
    assert list(range(total - LEFT + 1, total + 1)) == [index for _, _, index in lanes.sent]
    assert (LEFT, 0) == (run.report.committed, run.report.left)
    skipped = total - LEFT if policy is RetryPolicy.NON_COMMITTED else 0
    assert (skipped + LEFT, skipped) == (run.report.selected, run.report.skipped)


def test_a_set_of_chunks_is_a_set():
    random = Random(1)
    for first, last in ((1, 1), (1, 8), (7, 16), (1000, 1100)):
        chosen = ChunkSet(first, last)
        expected = {index for index in range(first, last + 1) if random.random() < 0.5}
        chosen.update(expected)
        chosen.update(expected)
        assert (len(expected), sorted(expected)) == (len(chosen), list(chosen))
        assert [index for index in range(first, last + 1) if index not in expected] == list(chosen.others())
