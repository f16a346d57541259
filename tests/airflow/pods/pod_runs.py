"""A campaign that runs in pods: rows in one database, a pack of them, an Airflow that runs the pack against a Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy
from dpone_contract.pack import ExecutionBackend, Hooks, Pack
from dpone_contract.pod import PodArguments, SecretVariable
from dpone_contract.process import Process, build_process
from tests.airflow.pods.airflow_process import AirflowProcess, FinishedRun
from tests.factories import make_pack, make_process_plan, write_pack_file
from tests.integration.campaigns import History, manifest_text
from tests.kubernetes_api.kubernetes_api import KubernetesApi

TASK = "load"
GATE = f"{TASK}_gate"
SECRETS = tuple(
    SecretVariable(variable=f"DPONE_CONN_{name}_DB", secret="databases", key=name.lower())
    for name in ("SOURCE", "TARGET")
)
GRACE_SECONDS = 3
CHECK_SECONDS = 0.2

DAG_FILE = """\
from airflow_provider_dpone import DponeDag

# Airflow's own default is five seconds between two looks at a pod that starts; nothing of the pack is changed.
dag = DponeDag({path!r}, default_args={{"owner": "flights", "startup_check_interval_seconds": {check_seconds}}})
"""


def build(
    mode: str = "summary", *, chunks: int, items: int = 3, max_active: int = 2, text: str | None = None
) -> Process:
    """Compile the history's manifest, or another text of it."""
    limits = MappingLimits(max_items=items, max_active=max_active, pool="dpone_backfill")
    manifest = parse_manifest(text or manifest_text(chunks), "history.yaml")
    return build_process(manifest, MappingPolicy(mode=MappingMode(mode), limits=limits))


def build_pod(**changes: Any) -> PodArguments:
    """The pod of these runs: an image, the secrets of both connections, a short grace, quick looks."""
    settings: dict[str, Any] = {
        "image": "dpone",
        "namespace": "default",
        "secrets": SECRETS,
        "termination_grace_period": GRACE_SECONDS,
        "poll_interval": 1,
        **changes,
    }
    return PodArguments(**settings)


class PodRuns:
    """The history of a test, the cluster, and Airflow over both."""

    def __init__(self, history: History, api: KubernetesApi, airflow: AirflowProcess) -> None:
        self.history = history
        self.api = api
        self.airflow = airflow
        api.add_secret("databases", {"source": history.uri, "target": history.uri})

    def deploy(
        self,
        process: Process,
        *,
        dag_id: str = "history",
        pod: Mapping[str, Any] | None = None,
        hooks: Hooks | None = None,
        outlets: Sequence[str] = (),
        outcome_gate: bool = False,
        retries: int = 0,
        dag: Mapping[str, Any] | None = None,
        airflow: AirflowProcess | None = None,
    ) -> Pack:
        """Put a pack in place of whatever Airflow has, and give it."""
        dags = (airflow or self.airflow).dags
        plan = make_process_plan(
            process,
            task_id=TASK,
            backend=ExecutionBackend.KUBERNETES,
            pod=build_pod(**(pod or {})),
            hooks=hooks,
            outlets=tuple(outlets),
            outcome_gate=outcome_gate,
        )
        projection = {"dag_id": dag_id, "retries": retries, "retry_delay_seconds": 0, **(dag or {})}
        pack = make_pack(dag_id, processes=(plan,), dag=projection)
        for old in dags.iterdir():
            _remove(old)
        path = write_pack_file(dags, pack)
        (dags / "dags.py").write_text(
            DAG_FILE.format(path=str(path), check_seconds=CHECK_SECONDS), encoding="utf-8"
        )
        return pack

    def run(self, process: Process, **changes: Any) -> FinishedRun:
        """Deploy a process and run it to its end."""
        pack = self.deploy(process, **changes)
        return self.airflow.run(pack.dag.dag_id)

    def start(self, process: Process, **changes: Any) -> None:
        """Deploy a process and begin to run it; `airflow.finish_run` waits for its end."""
        pack = self.deploy(process, **changes)
        self.airflow.start_run(pack.dag.dag_id)


def _remove(path: Path) -> None:
    if path.is_dir():
        for inner in path.iterdir():
            _remove(inner)
        path.rmdir()
    else:
        path.unlink()
