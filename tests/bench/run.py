"""The speed budgets: `python tests/bench/run.py [--json FILE] [--only NAME] [--rounds N]`.

A report, not a test: it says by how much a budget is missed and exits 0. A subject that cannot be measured here says why.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tests.bench import (
    compile_packs,
    copy_speed,
    file_ledger_time,
    parse_packs,
    plan_chunks,
    protocol_time,
    publication_speed,
    serialized_dag,
    start_commands,
    verification_speed,
    verify_plan,
)
from tests.bench.figures import Figure, table


def of_airflow(measure: Callable[[int], list[Figure]]) -> Callable[[int], list[Figure]]:
    """Measure where Airflow can be imported."""

    def measured(rounds: int) -> list[Figure]:
        if find_spec("airflow") is None:
            print("not measured: Airflow is not installed in this environment", file=sys.stderr)
            return []
        return measure(rounds)

    return measured


SUBJECTS: dict[str, Callable[[int], list[Figure]]] = {
    "copy": copy_speed.measure,
    "verification": verification_speed.measure,
    "publication": publication_speed.measure,
    "protocol": protocol_time.measure,
    "folder": file_ledger_time.measure,
    "plan": plan_chunks.measure,
    "verify": verify_plan.measure,
    "parse": of_airflow(parse_packs.measure),
    "serialized": of_airflow(serialized_dag.measure),
    "compile": compile_packs.measure,
    "start": start_commands.measure,
}


def main() -> None:
    """Measure what is asked for, print the table, write the file."""
    parser = argparse.ArgumentParser(description="Measure the speed budgets.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--only", action="append", choices=SUBJECTS, metavar="NAME", help=", ".join(SUBJECTS))
    parser.add_argument("--rounds", type=int, default=5, help="of each comparison; its median counts")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.only or SUBJECTS:
        load = os.getloadavg()[0]
        print(
            f"measuring {name} (load {load:.1f} on {os.cpu_count()} processors) ...",
            file=sys.stderr,
            flush=True,
        )
        figures += SUBJECTS[name](options.rounds)
    print(table(figures))
    missed = [figure for figure in figures if figure.verdict.startswith("missed")]
    for figure in missed:
        print(f"{figure.verdict}: {figure.name}, {figure.value:.3f} {figure.unit} for {figure.budget:g}")
    if options.json:
        documents = [figure.document() for figure in figures]
        options.json.write_text(json.dumps(documents, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
