"""What a DAG of one mapped process with 200 items costs Airflow: bytes in its database, and the scheduler's memory and time.

A scheduler keeps the DAGs that it has read; so the memory is what a process of its own grows by for each of several DAGs that
it reads from the stored text and keeps. The peer is the same DAG on Airflow's own operator with one short literal an item.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench.airflow_packs import BACKENDS, airflow_name, run_program, write_packs
from tests.bench.figures import Figure

ITEMS = 200
COPIES = 20

_SERIALIZE = """
import json, sys
from pathlib import Path
from airflow_provider_dpone.version_compat import DAG, BaseOperator
try:
    from airflow.serialization.serialized_objects import DagSerialization as Serialization
except ImportError:
    from airflow.serialization.serialized_objects import SerializedDAG as Serialization
backend, packs, target, items = sys.argv[1:]
if packs:
    from airflow_provider_dpone import load_dpone_dags
    (dag,) = load_dpone_dags(Path(packs), {}, strict=True).values()
else:
    class Peer(BaseOperator):
        template_fields = ("env_vars",)
        def __init__(self, *, env_vars, **kwargs):
            super().__init__(**kwargs)
            self.env_vars = env_vars
    static = {}
    if backend == "pods":
        from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator as Peer
        static = {"image": "x", "cmds": ["dpone"], "arguments": ["run"], "do_xcom_push": True}
    dag = DAG(dag_id="peer", schedule=None)
    Peer.partial(task_id="load", dag=dag, pool="dpone_backfill", max_active_tis_per_dag=8, **static).expand(
        env_vars=[{"ITEM": str(item)} for item in range(int(items))]
    )
text = json.dumps(Serialization.to_dict(dag))
Path(target).write_text(text)
print(json.dumps({"bytes": len(text.encode())}))
"""

_READ = """
import gc, json, sys, time
from pathlib import Path
import airflow.jobs.scheduler_job_runner
try:
    from airflow.serialization.serialized_objects import DagSerialization as Serialization
except ImportError:
    from airflow.serialization.serialized_objects import SerializedDAG as Serialization
def resident_bytes():
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
text, copies = Path(sys.argv[1]).read_text(), int(sys.argv[2])
kept = [Serialization.from_dict(json.loads(text)) for _ in range(3)]  # what is imported on first use
before, begun = resident_bytes(), time.process_time()
kept += [Serialization.from_dict(json.loads(text)) for _ in range(copies)]
taken = time.process_time() - begun
print(json.dumps({"bytes": (resident_bytes() - before) / copies, "seconds": taken / copies}))
"""


def measure(rounds: int) -> list[Figure]:
    """Give the figures of both backends, each beside its peer."""
    return [
        figure
        for backend in BACKENDS
        for name in ("", "peer: ")
        for figure in _measure(backend, name, rounds)
    ]


def _measure(backend: str, peer: str, rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="dpone-bench-") as folder:
        packs, text = Path(folder) / "packs", Path(folder) / "dag.json"
        write_packs(packs, backend, packs=1, processes=1, items=ITEMS)
        stored = run_program(_SERIALIZE, backend, "" if peer else str(packs), str(text), str(ITEMS))
        read = [run_program(_READ, str(text), str(COPIES)) for _ in range(rounds)]
    what = f"{peer}a DAG of {ITEMS} items, in {backend}"
    return [
        Figure(f"{what}: stored", stored["bytes"] / 1024, "KiB", note=airflow_name()),
        Figure(f"{what}: the scheduler grows by", min(run["bytes"] for run in read) / 1024, "KiB"),
        Figure(f"{what}: read", min(run["seconds"] for run in read) * 1000, "ms"),
    ]
