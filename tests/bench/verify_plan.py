"""Verifying a mapping plan of 200 items, which whoever reads a pack does."""

from __future__ import annotations

import time
from collections.abc import Callable

from dpone_contract.canonical import canonical_json
from dpone_contract.mapping_plan import parse_mapping_plan, verify_mapping_plan
from dpone_contract.process import plan_campaign
from tests.bench.figures import Figure, percentile
from tests.factories import make_process

ITEMS = 200
TIMES = 300
BUDGET_MILLISECONDS = 1.0


def measure(rounds: int) -> list[Figure]:
    """Give p50 and p95 of verifying, and of reading the plan's bytes before it."""
    process = make_process(items=ITEMS, chunks=365)
    plan = plan_campaign(process).mapping_plan(process.mapping)
    assert ITEMS == plan.items_total
    data = canonical_json(plan.to_document())
    verified = _times(lambda: verify_mapping_plan(plan), rounds * TIMES)
    parsed = _times(lambda: parse_mapping_plan(data), rounds * TIMES)
    what = f"a plan of {ITEMS} items"
    return [
        Figure(f"{what} verified, p50", percentile(verified, 50), "ms"),
        Figure(f"{what} verified, p95", percentile(verified, 95), "ms", BUDGET_MILLISECONDS),
        Figure(f"{what} read and verified, p50", percentile(parsed, 50), "ms"),
        Figure(f"{what} read and verified, p95", percentile(parsed, 95), "ms"),
    ]


def _times(task: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        task()
        taken.append((time.perf_counter() - begun) * 1000)
    return taken
