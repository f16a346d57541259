"""Packs that the Airflow benchmarks read, for both backends, and the fresh interpreters that read them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from dpone_contract.pack import ExecutionBackend
from dpone_contract.pod import PodArguments, PodResources, SecretVariable
from tests.factories import make_pack, make_process, make_process_plan, write_pack_file

POD = PodArguments(
    image="registry.example/dpone-runtime:0.1.0",
    namespace="loads",
    deferrable=True,
    container_resources=PodResources(requests={"cpu": "500m", "memory": "256Mi"}, limits={"memory": "512Mi"}),
    secrets=tuple(
        SecretVariable(variable=f"DPONE_CONN_FLIGHTS_{end}", secret="databases", key=end.lower())
        for end in ("SOURCE", "TARGET")
    ),
)
BACKENDS = {"processes": ExecutionBackend.PROCESS, "pods": ExecutionBackend.KUBERNETES}


def write_packs(folder: Path, backend: str, *, packs: int, processes: int, items: int) -> None:
    """Write packs of mapped processes, each with an outlet and so a gate."""
    for number in range(packs):
        plans = tuple(
            make_process_plan(
                make_process(f"load_{number}_{each}", items=items, max_active=8),
                backend=BACKENDS[backend],
                pod=POD if backend == "pods" else None,
            )
            for each in range(processes)
        )
        write_pack_file(folder, make_pack(f"workload_{number}", processes=plans))


def run_program(program: str, *arguments: str) -> dict[str, float]:
    """Run a program in a fresh interpreter; give the JSON object of its last line."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def airflow_name() -> str:
    """Give what the figures are of, such as `Airflow 3.3.2, Python 3.12`."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"Airflow {version('apache-airflow')}, Python {python}"
