"""What publication by a swap costs, and what it saves: a table with indexes, filled directly and through a shadow."""

from __future__ import annotations

import time

from dpone_contract.manifest import InnerMode, PublicationOptions
from tests.bench.databases import Databases, databases, execute, make_history, run_arguments, run_dpone
from tests.bench.figures import RATIO, Figure, median_figure
from tests.bench.table_shapes import MIXED

INDEXED = ("id", "big, small", "name", "created_at")


def measure(rounds: int) -> list[Figure]:
    """Give ratios of whole commands; nothing is budgeted."""
    plain, plain_swapped, direct, swapped = [], [], [], []
    with databases() as found:
        for _ in range(rounds):
            plain.append(_load(found, "direct"))
            plain_swapped.append(_load(found, "shadow_swap"))
            direct.append(_load(found, "direct", indexed=True))
            swapped.append(_load(found, "shadow_swap", indexed=True))
    return [
        _ratio(f"first load of {MIXED.name} without an index", plain, plain_swapped),
        _ratio(f"first load of {MIXED.name} with {len(INDEXED)} indexes", direct, swapped),
    ]


def _ratio(name: str, direct: list[float], swapped: list[float]) -> Figure:
    values = [one / other for one, other in zip(direct, swapped, strict=True)]
    return median_figure(f"{name}: direct load's time / by a swap", values, RATIO)


def _load(found: Databases, mode: str, *, indexed: bool = False) -> float:
    """Time a run into a table that is empty."""
    found.fill(MIXED.rows)
    execute(found.source, "CREATE INDEX ON flights (flight_date)")
    for columns in INDEXED if indexed else ():
        execute(found.target, f"CREATE INDEX ON flights ({columns})")
    execute(found.target, "DROP SCHEMA IF EXISTS dpone_audit CASCADE")
    process = make_history(
        inner_mode=InnerMode.INCREMENTAL_APPEND,
        publication=PublicationOptions(mode=mode, retain_backup=False),
    )
    execute(found.target, "CHECKPOINT")
    begun = time.perf_counter()
    run_dpone(found, *run_arguments(process))
    taken = time.perf_counter() - begun
    found.require_loaded(MIXED.rows)
    return taken
