"""How long a command takes before it does anything: processes of `dpone`, beside an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.bench.databases import DPONE, databases, make_history, run_arguments
from tests.bench.figures import Figure, median_figure

BUDGET_SECONDS = 0.3
TIMES = 3
_HELP = (("--help",), ("airflow", "preview", "--help"), ("run", "--help"), ("backfill", "plan", "--help"))


def measure(rounds: int) -> list[Figure]:
    """Give the process time of help, and of a run that finds everything committed."""
    commands = {" ".join(("dpone", *arguments)): (str(DPONE), *arguments) for arguments in _HELP}
    commands["python without a program"] = (sys.executable, "-c", "pass")
    with databases() as found:
        found.fill(0)
        commands["dpone run of what is committed"] = (str(DPONE), *run_arguments(make_history()))
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(rounds * TIMES + 1):
            for name, command in commands.items():
                begun = time.perf_counter()
                subprocess.run(command, env=found.environ, check=True, capture_output=True)
                # The first of each keeps bytecode, and the first run loads.
                if number:
                    taken[name].append(time.perf_counter() - begun)
    return [
        median_figure(name, values, "s", BUDGET_SECONDS if "--help" in name else None)
        for name, values in taken.items()
    ]
