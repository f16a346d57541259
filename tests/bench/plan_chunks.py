"""Planning and hashing a year, ten thousand and a million chunks, and a million of each kind: time and memory.

Each is measured in an interpreter of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta

from tests.bench.figures import Figure, median_figure

BUDGET_SECONDS = 5.0
BUDGET_MEGABYTES = 1.0
COUNTS = (365, 10_000)
MILLION = 1_000_000
Window = dict[str, object]
BERLIN = {"timezone": "Europe/Berlin"}
WINDOWS: dict[str, tuple[Window, Window]] = {
    "days": ({"from": "0001-01-01", "to": "2738-11-28", "step": "1d"}, {"to": "0001-01-07"}),
    "hours": (
        {"from": "1900-01-01T00:00", "to": "2014-01-29T16:00", "step": "1h", **BERLIN},
        {"to": "1900-01-02T00:00"},
    ),
    "days of a zone": (
        {"from": "0001-01-02T00:00", "to": "2738-11-30T00:00", "step": "1d", **BERLIN},
        {"to": "0001-01-09T00:00"},
    ),
    "integers": ({"from": -(2**63), "to": 2**63 - 1, "step": 18446744073710}, {"to": -(2**63) + 1}),
    "uuids": ({"buckets": MILLION}, {"buckets": 7}),
}
"""Windows of a million chunks, and what makes them windows of a few."""

# A plan of a few chunks first: what it imports and allocates is not the chunks'.
_PROGRAM = """
import json, resource, sys, time
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import build_process, plan_campaign
from tests.factories import make_manifest

def process(window):
    manifest = make_manifest(window={"column": "key", **window})
    strategy = manifest.sink.strategy
    strategy = strategy.replaced(backfill=manifest.backfill.replaced(max_chunks=1_000_000))
    return build_process(manifest.replaced(sink=manifest.sink.replaced(strategy=strategy)), MappingPolicy())

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

window, few, total = (json.loads(text) for text in sys.argv[1:])
plan_campaign(process(few))
wanted = process(window)
before, begun = peak(), time.perf_counter()
planned = plan_campaign(wanted)
taken = time.perf_counter() - begun
assert planned.plan.chunks_total == total
print(json.dumps({"seconds": taken, "megabytes": peak() - before}))
"""


def measure(rounds: int) -> list[Figure]:
    """Give the time of a plan with its hash, and by how much the process's peak memory grew meanwhile."""
    figures = []
    for count in COUNTS:
        days: Window = {"from": "2013-01-01", "to": "2013-01-07", "step": "1d"}
        last = date(2013, 1, 1) + timedelta(days=count - 1)
        figures += _figures(f"{count:,} days", {**days, "to": str(last)}, days, count, rounds)
    for kind, (window, few) in WINDOWS.items():
        what = f"{MILLION:,} {kind}"
        figures += _figures(what, window, {**window, **few}, MILLION, min(rounds, 3))
    return figures


def _figures(what: str, window: Window, few: Window, count: int, rounds: int) -> list[Figure]:
    found = [_run(window, few, count) for _ in range(rounds)]
    seconds = [each["seconds"] for each in found]
    memory = [each["megabytes"] for each in found]
    return [
        median_figure(
            f"{what} planned and hashed", seconds, "s", BUDGET_SECONDS if count == MILLION else None
        ),
        median_figure(f"{what} planned and hashed: memory", memory, "MB", BUDGET_MEGABYTES),
    ]


def _run(window: Window, few: Window, count: int) -> dict[str, float]:
    arguments = [json.dumps(each) for each in (window, few, count)]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer
