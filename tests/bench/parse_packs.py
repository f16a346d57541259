"""How long a DAG file takes that loads 100 packs of five mapped processes, 30 items each, beyond importing Airflow.

Each figure is the best of several fresh interpreters, in which our modules and pydantic are cold but for Airflow's own imports,
of pods those of its Kubernetes provider too, whose time is not counted. The peer is Airflow alone: the same number of mapped
tasks on its own operator, written out by hand with one short literal an item.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench.airflow_packs import BACKENDS, airflow_name, run_program, write_packs
from tests.bench.figures import Figure

PACKS = 100
PROCESSES = 5
ITEMS = 30
BUDGET_SECONDS = 1.0

# Airflow's own imports, not counted.
_AIRFLOW = """
import json, sys, time
from pathlib import Path
from airflow_provider_dpone.version_compat import DAG, BaseOperator
if sys.argv[1] == "pods":
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    DAG(dag_id="warm"), KubernetesPodOperator(task_id="warm", image="x")
else:
    DAG(dag_id="warm"), BaseOperator(task_id="warm")
"""

_OURS = (
    _AIRFLOW
    + """
begun, cpu_begun = time.perf_counter(), time.process_time()
from airflow_provider_dpone import load_dpone_dags
if sys.argv[1] == "pods":
    import airflow_provider_dpone.pod_operator
imported = time.perf_counter()
dags = load_dpone_dags(Path(sys.argv[2]), {}, strict=True)
done = time.perf_counter()
cpu = time.process_time() - cpu_begun
assert sum(len(dag.tasks) for dag in dags.values()) == int(sys.argv[3])
again = time.perf_counter()
load_dpone_dags(Path(sys.argv[2]), {}, strict=True)
print(json.dumps({"import": imported - begun, "cold": done - begun, "cpu": cpu, "warm": time.perf_counter() - again}))
"""
)

_PEER = (
    _AIRFLOW
    + """
class Peer(BaseOperator):
    template_fields = ("env_vars",)
    def __init__(self, *, env_vars, **kwargs):
        super().__init__(**kwargs)
        self.env_vars = env_vars
static = {}
if sys.argv[1] == "pods":
    Peer, static = KubernetesPodOperator, {"image": "x", "cmds": ["dpone"], "arguments": ["run"], "do_xcom_push": True}
begun = time.perf_counter()
packs, processes, items = map(int, sys.argv[2:])
for pack in range(packs):
    dag = DAG(dag_id=f"peer_{pack}", schedule=None)
    for process in range(processes):
        Peer.partial(
            task_id=f"load_{process}", dag=dag, pool="dpone_backfill", max_active_tis_per_dag=8, **static
        ).expand(env_vars=[{"ITEM": str(item)} for item in range(items)])
print(json.dumps({"peer": time.perf_counter() - begun}))
"""
)


def measure(rounds: int) -> list[Figure]:
    """Give the figures of both backends."""
    return [figure for backend in BACKENDS for figure in _measure(backend, rounds)]


def _measure(backend: str, rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="dpone-bench-") as folder:
        write_packs(Path(folder), backend, packs=PACKS, processes=PROCESSES, items=ITEMS)
        tasks = str(PACKS * PROCESSES)
        ours = [run_program(_OURS, backend, folder, tasks) for _ in range(rounds)]
        peer = [run_program(_PEER, backend, *map(str, (PACKS, PROCESSES, ITEMS))) for _ in range(rounds)]
    what = f"{PACKS} packs, {PACKS * PROCESSES} mapped processes of {ITEMS} items"
    return [
        Figure(
            f"parse cold, in {backend}: {what}",
            min(run["cold"] for run in ours),
            "s",
            BUDGET_SECONDS,
            airflow_name(),
        ),
        Figure("of it processor time", min(run["cpu"] for run in ours), "s"),
        Figure("of it importing the provider and the contract", min(run["import"] for run in ours), "s"),
        Figure("parse again in the same interpreter", min(run["warm"] for run in ours), "s"),
        Figure("peer: Airflow alone, the same tasks written by hand", min(run["peer"] for run in peer), "s"),
    ]
