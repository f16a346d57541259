"""What a ledger in a folder costs a chunk: ten thousand chunks claimed and recorded one by one, and the folder read anew."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

from dpone_runtime.ports.connectors import LoadReceipt
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import open_campaign
from tests.bench.figures import RATIO, Figure, percentile
from tests.campaign_factories import RUN_KEY, make_campaign, make_plan
from tests.file_ledgers import ledger_in

CHUNKS = 10_000
BUDGET_MILLISECONDS = 5.0
PART = 1_000


def measure(rounds: int) -> list[Figure]:
    """Give a change's time, how it grows, and how long a command reads that begins with a full folder."""
    changes, growths, openings, peers = [], [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            found = _campaign(Path(folder))
            changes += found
            growths.append(median(found[: 2 * PART]) / median(found[-2 * PART :]))
            openings.append(_reading(Path(folder)))
            peers += _peer(Path(folder))
    what = f"ledger in a folder, a change, {CHUNKS:,} chunks"
    return [
        Figure(what, median(changes), "ms", BUDGET_MILLISECONDS, "two a chunk: its claim and its commit"),
        Figure(f"{what}, p95", percentile(changes, 95), "ms"),
        Figure("peer: 500 bytes appended and synced", median(peers), "ms"),
        Figure(f"first {PART:,} chunks / last {PART:,}", median(growths), RATIO, 0.8),
        Figure("reading a full folder", median(openings) * 1000, "ms"),
    ]


def _campaign(folder: Path) -> list[float]:
    ledger, plan, taken = ledger_in(folder), make_plan(CHUNKS), []
    open_campaign(ledger, make_campaign(plan))
    claims = ChunkClaims(ledger, plan, max_active=None, dag_run_id=None)
    for index in range(1, CHUNKS + 1):
        begun = time.perf_counter()
        request = claims.claim(index).request
        claimed = time.perf_counter()
        if request is not None:
            ledger.record_commit(request, LoadReceipt(10, 10, 1000))
        taken += [(claimed - begun) * 1000, (time.perf_counter() - claimed) * 1000]
    ledger.close()
    return taken


def _reading(folder: Path) -> float:
    ledger, begun = ledger_in(folder), time.perf_counter()
    assert ledger.read_campaign(RUN_KEY) is not None
    ledger.counts(RUN_KEY, 1)
    taken = time.perf_counter() - begun
    ledger.close()
    return taken


def _peer(folder: Path) -> list[float]:
    taken = []
    with (folder / "peer").open("ab", buffering=0) as file:
        for _ in range(PART):
            begun = time.perf_counter()
            file.write(b"x" * 500)
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1000)
    return taken
