"""Rows from one database to another, beside `psql COPY | psql COPY` over the same tables in the same run.

A ratio is the peer's time divided by ours, round by round. Both write an identical, truncated table and commit. Processor
seconds are those of the clients, since the servers' work is the same; they say more than the ratio on a busy machine.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from dpone_contract.process import Process
from tests.bench.databases import (
    DPONE,
    Databases,
    OpenCampaign,
    databases,
    make_history,
    run_arguments,
    run_dpone,
)
from tests.bench.figures import RATIO, Figure, median_figure
from tests.bench.table_shapes import MIXED, NARROW, WIDE, TableShape

BUDGET_RATIO = 0.9
BUDGET_MEGABYTES = 150.0


def measure(rounds: int) -> list[Figure]:
    """Give the ratios of copy and whole run, in one chunk and in ten, and the memory of a run's processes."""
    figures: list[Figure] = []
    with databases() as found:
        for shape in (NARROW, WIDE, MIXED):
            found.fill(shape.rows, shape)
            figures += _compare(found, make_history(step="10d"), shape, rounds, "one chunk")
        figures += _memory(found, make_history(step="10d"))
        found.index()
        figures += _compare(found, make_history(), MIXED, rounds, "ten chunks, both sides indexed")
        figures.append(_lanes(found, rounds))
    return figures


def _compare(found: Databases, process: Process, shape: TableShape, rounds: int, what: str) -> list[Figure]:
    """Run peer, copy and whole run in turn, each round in another order."""
    tasks: dict[str, Callable[[], tuple[float, float]]] = {
        "peer": lambda: _peer(found, shape),
        "copy": lambda: _copy(found, process),
        "run": lambda: _run(found, process),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in tasks}
    for number in range(rounds):
        order = list(tasks)
        for name in order[number % 3 :] + order[: number % 3]:
            found.empty()
            taken[name].append(tasks[name]())
            found.require_loaded(shape.rows)
    walls = {name: [wall for wall, _ in values] for name, values in taken.items()}
    cpu = {name: [seconds for _, seconds in values] for name, values in taken.items()}

    what = f"{shape.name}, {what}"

    def ratios(name: str) -> list[float]:
        return [peer / ours for peer, ours in zip(walls["peer"], walls[name], strict=True)]

    return [
        median_figure(f"copy, {what}: psql's time / ours", ratios("copy"), RATIO, BUDGET_RATIO),
        median_figure(f"dpone run, {what}: psql's time / ours", ratios("run"), RATIO),
        median_figure(f"copy, {what}: our time", walls["copy"], "s"),
        median_figure(f"dpone run, {what}: our time", walls["run"], "s"),
        median_figure(f"copy, {what}: psql's time", walls["peer"], "s"),
        median_figure(f"copy, {what}: our processor time", cpu["copy"], "s"),
        median_figure(f"copy, {what}: psql's processor time", cpu["peer"], "s"),
    ]


def _peer(found: Databases, shape: TableShape) -> tuple[float, float]:
    begun, cpu = time.perf_counter(), _cpu_of_children()
    source = (
        found.psql,
        "-Xqc",
        f"COPY (SELECT {shape.column_list} FROM flights) TO STDOUT (FORMAT binary)",
        found.source,
    )
    sink = (
        found.psql,
        "-Xqc",
        f"COPY flights ({shape.column_list}) FROM STDIN (FORMAT binary)",
        found.target,
    )
    with subprocess.Popen(source, stdout=subprocess.PIPE) as reading:
        subprocess.run(sink, stdin=reading.stdout, check=True)
    return time.perf_counter() - begun, _cpu_of_children() - cpu


def _copy(found: Databases, process: Process) -> tuple[float, float]:
    """Read, warden, load and commit every chunk; sessions and claims stand before."""
    campaign = OpenCampaign(process)
    requests = [campaign.claim(index) for index in range(1, campaign.chunks_total + 1)]
    begun, cpu = time.perf_counter(), time.process_time()
    for request in requests:
        campaign.lane.load(request, lambda _: None)
    taken = time.perf_counter() - begun, time.process_time() - cpu
    campaign.close()
    return taken


def _run(found: Databases, process: Process) -> tuple[float, float]:
    begun, cpu = time.perf_counter(), _cpu_of_children()
    run_dpone(found, *run_arguments(process))
    return time.perf_counter() - begun, _cpu_of_children() - cpu


def _lanes(found: Databases, rounds: int) -> Figure:
    ratios = []
    for _ in range(rounds):
        taken = []
        for workers in (1, 2):
            found.empty()
            taken.append(_run(found, make_history(parallel_workers=workers))[0])
        ratios.append(taken[0] / taken[1])
    cores = len(os.sched_getaffinity(0))
    figure = median_figure(
        f"dpone run, ten chunks on {cores} cores: one lane's time / two lanes'", ratios, RATIO, 1.0
    )
    found.require_loaded(MIXED.rows)
    return figure


def _memory(found: Databases, process: Process) -> list[Figure]:
    """Look at the peak of each process of one run until it ends."""
    found.empty()
    peaks: dict[str, float] = {}
    command = (str(DPONE), *run_arguments(process))
    with subprocess.Popen(
        command, env=found.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        while run.poll() is None:
            _look(run.pid, peaks)
            time.sleep(0.02)
    what = f"memory at its peak, {MIXED.rows:,} rows"
    return [
        Figure(f"{what}: {part}", peak, "MB", BUDGET_MEGABYTES if part == "together" else None)
        for part, peak in {**peaks, "together": sum(peaks.values())}.items()
    ]


def _look(pid: int, peaks: dict[str, float]) -> None:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        for part, process in (("coordinator", str(pid)), *((_part(child), child) for child in children)):
            lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
            peak = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
            peaks[part] = max(peaks.get(part, 0.0), peak)
    except OSError:
        return


def _part(child: str) -> str:
    command = Path(f"/proc/{child}/cmdline").read_bytes()
    return "warden" if b"warden.py" in command else "lane"


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
