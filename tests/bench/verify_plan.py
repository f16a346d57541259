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
    read = _times(lambda: parse_mapping_plan(data), rounds * TIMES)
    what = f"a plan of {ITEMS} items"
    return [
        *_figures(f"{what} verified", verified, BUDGET_MILLISECONDS),
        *_figures(f"{what} read and verified", read, None),
    ]


def _figures(what: str, taken: list[tuple[float, float]], budget: float | None) -> list[Figure]:
    wall, processor = ([pair[part] for pair in taken] for part in (0, 1))
    return [
        Figure(f"{what}, p50", percentile(wall, 50), "ms"),
        Figure(f"{what}, p95", percentile(wall, 95), "ms"),
        Figure(f"{what}, p95 of processor time", percentile(processor, 95), "ms", budget),
    ]


def _times(task: Callable[[], object], times: int) -> list[tuple[float, float]]:
    """Give wall and processor time of each: what waits for a processor on a busy machine is not the task's doing."""
    taken = []
    for _ in range(times):
        begun, processor = time.perf_counter(), time.process_time()
        task()
        ended = time.process_time()
        taken.append(((time.perf_counter() - begun) * 1000, (ended - processor) * 1000))
    return taken
