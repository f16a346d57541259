"""Compiling a catalog of 500 workloads: from checked plans to packs, and all of `dpone pack build`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from dpone_packbuilder.checks import review_project
from dpone_packbuilder.project import load_project
from dpone_packbuilder.writer import write_release
from tests.bench.figures import Figure, median_figure

WORKLOADS = 500
BUDGET_SECONDS = 5.0
_MANIFEST = """\
name: load_{number}
source: {{ type: postgres, connection_ref: operations, table: {{ schema: public, name: t{number} }} }}
sink:
  type: postgres
  connection_ref: warehouse
  table: {{ schema: analytics, name: t{number} }}
  strategy:
    mode: backfill
    backfill:
      chunk: {{ column: day, from: "2024-01-01", to: "2024-12-31", step: 1d }}
      state: {{ backend: audit_schema, require_distributed_lock: true }}
"""
_WORKLOAD = """\
  load_{number}:
    manifest: load_{number}.yaml
    airflow:
      mapping: {{ mode: summary, max_items: 30, max_active: 4, pool: dpone_backfill }}
      execution: {{ backend: process }}
"""


def measure(rounds: int) -> list[Figure]:
    """Give the times of compiling alone and of reading, checking, compiling and writing."""
    compiled, built, processor = [], [], []
    with tempfile.TemporaryDirectory(prefix="dpone-bench-") as folder:
        write_catalog(Path(folder))
        for number in range(rounds):
            begun = time.process_time()
            alone, whole = _build(Path(folder), Path(folder) / f"packs-{number}")
            compiled.append(alone)
            built.append(whole)
            processor.append(time.process_time() - begun)
    return [
        median_figure(f"{WORKLOADS} workloads compiled", compiled, "s", BUDGET_SECONDS),
        median_figure(
            f"{WORKLOADS} workloads read, checked, compiled and written", built, "s", BUDGET_SECONDS
        ),
        median_figure("of it processor time", processor, "s"),
    ]


def write_catalog(folder: Path) -> None:
    """Write the catalog and its manifests: a year of days in 30 items each."""
    entries = "".join(_WORKLOAD.format(number=number) for number in range(WORKLOADS))
    (folder / "workloads.yaml").write_text(f"workloads:\n{entries}", encoding="utf-8")
    for number in range(WORKLOADS):
        (folder / f"load_{number}.yaml").write_text(_MANIFEST.format(number=number), encoding="utf-8")


def _build(folder: Path, out: Path) -> tuple[float, float]:
    begun = time.perf_counter()
    review = review_project(load_project(folder))
    assert not review.errors
    checked = time.perf_counter()
    packs = review.compile_packs(release="bench", deployment="bench")
    compiled = time.perf_counter()
    write_release(out, packs, release="bench", deployment="bench")
    assert WORKLOADS == len(packs)
    return compiled - checked, time.perf_counter() - begun
