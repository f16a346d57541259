"""Planning and hashing a year, ten thousand and a million chunks, each in an interpreter of its own: time and memory."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.bench.figures import Figure, median_figure

BUDGET_SECONDS = 5.0
BUDGET_MEGABYTES = 1.0
COUNTS = (365, 10_000, 1_000_000)

# A plan of a week first: what it imports and allocates is not the chunks'.
_PROGRAM = """
import json, resource, sys, time
from datetime import date, timedelta
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import build_process, plan_campaign
from tests.bench.databases import make_history

def process(days):
    return make_history(days=days, max_chunks=1_000_000)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

plan_campaign(process(7))
wanted = process(int(sys.argv[1]))
before, begun = peak(), time.perf_counter()
planned = plan_campaign(wanted)
taken = time.perf_counter() - begun
assert planned.plan.chunks_total == int(sys.argv[1])
print(json.dumps({"seconds": taken, "megabytes": peak() - before}))
"""


def measure(rounds: int) -> list[Figure]:
    """Give the time of a plan with its hash, and by how much the process's peak memory grew meanwhile."""
    figures = []
    for count in COUNTS:
        found = [_run(count) for _ in range(min(rounds, 3) if count == COUNTS[-1] else rounds)]
        largest = count == COUNTS[-1]
        seconds = [each["seconds"] for each in found]
        memory = [each["megabytes"] for each in found]
        what = f"{count:,} chunks planned and hashed"
        figures += [
            median_figure(what, seconds, "s", BUDGET_SECONDS if largest else None),
            median_figure(f"{what}: memory", memory, "MB", BUDGET_MEGABYTES),
        ]
    return figures


def _run(count: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(count)], capture_output=True, text=True, check=True
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer
