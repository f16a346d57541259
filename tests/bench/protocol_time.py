"""What the protocol costs a chunk: a campaign of a thousand chunks without a row, claimed and committed one by one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import psycopg

from tests.bench.databases import Databases, OpenCampaign, databases, make_history, run_arguments, run_dpone
from tests.bench.figures import RATIO, Figure, percentile

CHUNKS = 1_000
BUDGET_MILLISECONDS = 5.0
PART = 100
LANES = (1, 2, 4)


def measure(rounds: int) -> list[Figure]:
    """Give claim and data transaction a chunk, how they grow, and a whole run's time a chunk; `rounds` campaigns."""
    with databases() as found:
        found.fill(0)
        found.index()
        campaigns: list[list[_Chunk]] = []
        runs: dict[int, list[float]] = {lanes: [] for lanes in LANES}
        for _ in range(rounds):
            campaigns.append(_campaign(found))
            for lanes in LANES:
                runs[lanes].append(_run(found, lanes))
    walls = [[chunk.claim + chunk.load for chunk in campaign] for campaign in campaigns]
    chunks = [chunk for campaign in campaigns for chunk in campaign]
    every = [chunk.claim + chunk.load for chunk in chunks]
    growth = [median(campaign[:PART]) / median(campaign[-PART:]) for campaign in walls]
    spread = f"median of each campaign: {', '.join(f'{median(campaign):.2f}' for campaign in walls)}"
    what = f"protocol a chunk, {CHUNKS:,} empty chunks"
    return [
        Figure(what, median(every), "ms", BUDGET_MILLISECONDS, spread),
        Figure(f"{what}, p95", percentile(every, 95), "ms"),
        Figure("of it the claim", median(chunk.claim for chunk in chunks), "ms"),
        Figure("of it reading and the data transaction", median(chunk.load for chunk in chunks), "ms"),
        Figure(
            "peer: two commits of one row between the chunks", median(chunk.peer for chunk in chunks), "ms"
        ),
        Figure(f"first {PART} chunks / last {PART}", median(growth), RATIO, 0.8),
        *(
            Figure(
                f"dpone run, {lanes} lanes, time a chunk",
                median(taken),
                "ms",
                None,
                "start of the processes included",
            )
            for lanes, taken in runs.items()
        ),
    ]


@dataclass(frozen=True)
class _Chunk:
    """Milliseconds of one chunk, and of the peer right after it."""

    claim: float
    load: float
    peer: float


def _campaign(found: Databases) -> list[_Chunk]:
    found.empty()
    campaign = OpenCampaign(make_history(days=CHUNKS))
    chunks = []
    with psycopg.connect(found.target, autocommit=True) as peer:
        peer.execute("CREATE TABLE IF NOT EXISTS peer (n int)")
        for index in range(1, CHUNKS + 1):
            begun = time.perf_counter()
            request = campaign.claim(index)
            claimed = time.perf_counter()
            campaign.lane.load(request, lambda _: None)
            loaded = time.perf_counter()
            for _ in range(2):
                peer.execute("INSERT INTO peer VALUES (1)")
            ended = time.perf_counter()
            chunks.append(
                _Chunk((claimed - begun) * 1000, (loaded - claimed) * 1000, (ended - loaded) * 1000)
            )
    campaign.close()
    return chunks


def _run(found: Databases, lanes: int) -> float:
    found.empty()
    begun = time.perf_counter()
    run_dpone(found, *run_arguments(make_history(days=CHUNKS, parallel_workers=lanes)))
    return (time.perf_counter() - begun) * 1000 / CHUNKS
