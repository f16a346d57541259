"""How long a DAG file takes that loads 100 packs of five mapped processes, 30 items each, beyond importing Airflow.

Each figure is the best of several fresh interpreters, in which Airflow, our modules and pydantic are cold but for the import
of Airflow itself, whose time is not counted. The peer is Airflow alone: the same number of mapped tasks, written out by hand
with one short literal an item.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.factories import make_pack, make_process, make_process_plan, write_pack_file

PACKS = 100
PROCESSES = 5
ITEMS = 30
ROUNDS = 5
BUDGET_SECONDS = 1.0

_OURS = """
import json, sys, time
from pathlib import Path
from airflow_provider_dpone.version_compat import DAG, BaseOperator  # Airflow's own import, not counted
DAG(dag_id="warm"), BaseOperator(task_id="warm")
begun, cpu_begun = time.perf_counter(), time.process_time()
from airflow_provider_dpone import load_dpone_dags
imported = time.perf_counter()
dags = load_dpone_dags(Path(sys.argv[1]), {}, strict=True)
done = time.perf_counter()
cpu = time.process_time() - cpu_begun
assert sum(len(dag.tasks) for dag in dags.values()) == int(sys.argv[2])
again = time.perf_counter()
load_dpone_dags(Path(sys.argv[1]), {}, strict=True)
print(json.dumps({"import": imported - begun, "cold": done - begun, "cpu": cpu, "warm": time.perf_counter() - again}))
"""

_PEER = """
import json, sys, time
from airflow_provider_dpone.version_compat import DAG, BaseOperator
DAG(dag_id="warm"), BaseOperator(task_id="warm")
class Peer(BaseOperator):
    template_fields = ("env_vars",)
    def __init__(self, *, env_vars, **kwargs):
        super().__init__(**kwargs)
        self.env_vars = env_vars
begun = time.perf_counter()
packs, processes, items = map(int, sys.argv[1:])
for pack in range(packs):
    dag = DAG(dag_id=f"peer_{pack}", schedule=None)
    for process in range(processes):
        Peer.partial(task_id=f"load_{process}", dag=dag, pool="dpone_backfill", max_active_tis_per_dag=8).expand(
            env_vars=[{"ITEM": str(item)} for item in range(items)]
        )
print(json.dumps({"peer": time.perf_counter() - begun}))
"""


def measure() -> list[dict[str, object]]:
    """Give the figures: name, value, unit and, where there is one, the budget."""
    with tempfile.TemporaryDirectory(prefix="dpone-bench-") as folder:
        write_packs(Path(folder))
        ours = [_run(_OURS, folder, str(PACKS * PROCESSES)) for _ in range(ROUNDS)]
        peer = [_run(_PEER, str(PACKS), str(PROCESSES), str(ITEMS)) for _ in range(ROUNDS)]
    what = f"{PACKS} packs, {PACKS * PROCESSES} mapped processes of {ITEMS} items"
    return [
        _figure(f"parse cold: {what}", min(run["cold"] for run in ours), BUDGET_SECONDS),
        _figure("of it processor time", min(run["cpu"] for run in ours)),
        _figure("of it importing the provider and the contract", min(run["import"] for run in ours)),
        _figure("parse again in the same interpreter", min(run["warm"] for run in ours)),
        _figure("peer: Airflow alone, the same tasks written by hand", min(run["peer"] for run in peer)),
    ]


def write_packs(folder: Path) -> None:
    """Write the packs that are parsed."""
    for number in range(PACKS):
        plans = tuple(
            make_process_plan(make_process(f"load_{number}_{each}", items=ITEMS, max_active=8))
            for each in range(PROCESSES)
        )
        write_pack_file(folder, make_pack(f"workload_{number}", processes=plans))


def _run(program: str, *arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _figure(name: str, value: float, budget: float | None = None) -> dict[str, object]:
    return {"name": name, "value": round(value, 3), "unit": "s", "budget": budget}


if __name__ == "__main__":
    for figure in measure():
        print(json.dumps(figure))
