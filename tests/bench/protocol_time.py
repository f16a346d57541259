"""What the protocol costs a chunk: a campaign of a thousand chunks without a row, claimed and committed one by one.

And one of a million: its first chunks, and its last ones once the ledger has a row and two events for each of the others.
"""

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
MILLION = 1_000_000
FAR_PART = 200

CHUNKS_BEFORE = """
INSERT INTO dpone_audit.__dpone__backfill_chunks (run_key, chunk_index, status, revision, round, attempt, owner,
       idempotency_key, lower_bound, upper_bound, rows_extracted, rows_loaded, started_at, finished_at)
SELECT run_key, i, 'committed', 2, 1, 1, md5(i::text), 'sha256:' || repeat('0', 64), i::text, i::text, 0, 0,
       clock_timestamp(), clock_timestamp()
  FROM dpone_audit.__dpone__backfill_campaigns, generate_series(%(first)s, %(last)s) i
"""
EVENTS_BEFORE = """
INSERT INTO dpone_audit.__dpone__backfill_events (run_key, kind, round, revision, chunk_index, attempt, owner)
SELECT run_key, kind, 1, 1, i, 1, md5(i::text)
  FROM dpone_audit.__dpone__backfill_campaigns, generate_series(%(first)s, %(last)s) i, unnest(ARRAY['claimed', 'committed']) kind
"""


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
        empty, near, far = _first_and_last_of_a_million(found)
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
        Figure("claim and commit at chunk 1, empty ledger", median(empty), "ms", BUDGET_MILLISECONDS),
        Figure(f"claim and commit at chunk {MILLION:,}", median(far), "ms", BUDGET_MILLISECONDS),
        Figure(f"chunk 1 / chunk {MILLION:,}, in turn", median(near) / median(far), RATIO, 0.8),
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


def _first_and_last_of_a_million(found: Databases) -> tuple[list[float], list[float], list[float]]:
    """Give milliseconds a chunk of a campaign of a million: the first ones while its ledger is empty; then, with a row and two
    events for each of the others, further first ones and the last ones, in turn.
    """
    found.empty()
    campaign = OpenCampaign(make_history(days=MILLION, max_chunks=MILLION))
    try:
        empty = [_wall(campaign, index) for index in range(1, FAR_PART + 1)]
        before = {"first": 2 * FAR_PART + 1, "last": MILLION - FAR_PART}
        with psycopg.connect(found.target, autocommit=True) as connection:
            for statement in (CHUNKS_BEFORE, EVENTS_BEFORE):
                connection.execute(statement.encode(), before)
            connection.execute("CHECKPOINT")
        pairs = [
            (_wall(campaign, FAR_PART + step), _wall(campaign, MILLION - FAR_PART + step))
            for step in range(1, FAR_PART + 1)
        ]
        return empty, [near for near, _ in pairs], [far for _, far in pairs]
    finally:
        campaign.close()


def _wall(campaign: OpenCampaign, index: int) -> float:
    begun = time.perf_counter()
    campaign.lane.load(campaign.claim(index), lambda _: None)
    return (time.perf_counter() - begun) * 1000


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
