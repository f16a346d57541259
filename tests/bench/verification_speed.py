"""What comparing contents costs: a copy with `verify: checksum` beside a plain one, and a verification beside the copy."""

from __future__ import annotations

import time

from tests.bench.databases import Databases, OpenCampaign, databases, make_history, run_arguments, run_dpone
from tests.bench.figures import RATIO, Figure, median_figure
from tests.bench.table_shapes import MIXED


def measure(rounds: int) -> list[Figure]:
    """Give ratios of times and the speed of a verification; nothing is budgeted."""
    plain, checked, verified = [], [], []
    with databases() as found:
        found.fill(MIXED.rows)
        found.index()
        for _ in range(rounds):
            plain.append(_copy(found, "counts"))
            checked.append(_copy(found, "checksum"))
            verified.append(_verify(found))
    return [
        median_figure(
            f"copy, {MIXED.name}, ten chunks: checked copy's time / plain copy's",
            [with_digest / without for with_digest, without in zip(checked, plain, strict=True)],
            "times",
        ),
        median_figure(
            "backfill verify by content, the whole command: plain copy's time / its time",
            [without / taken for taken, without in zip(verified, plain, strict=True)],
            RATIO,
        ),
        median_figure(
            "backfill verify by content, the whole command",
            [MIXED.rows / taken for taken in verified],
            "rows/s",
        ),
    ]


def _copy(found: Databases, verify: str) -> float:
    found.empty()
    campaign = OpenCampaign(make_history(verify=verify))
    requests = [campaign.claim(index) for index in range(1, campaign.chunks_total + 1)]
    begun = time.perf_counter()
    for request in requests:
        campaign.lane.load(request, lambda _: None)
    taken = time.perf_counter() - begun
    campaign.close()
    found.require_loaded(MIXED.rows)
    return taken


def _verify(found: Databases) -> float:
    """Load by a run, and time what compares it."""
    process = make_history()
    found.empty()
    run_dpone(found, *run_arguments(process))
    path = found.write_manifest(process)
    begun = time.perf_counter()
    run_dpone(found, "backfill", "verify", str(path), "--quiet")
    return time.perf_counter() - begun
