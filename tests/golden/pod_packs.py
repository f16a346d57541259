"""Two workloads of pods: one task with everything that a pod can be told, and mapped tasks with hooks and outlets."""

from pathlib import Path

from dpone_contract.pack import Pack
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.pod_files import CONNECTIONS, HOOKS, WHOLE_POD, pod_workload
from tests.unit.packbuilder.project_files import write_project

INTERNAL = pod_workload(
    mapping={"mode": "internal"},
    pod=WHOLE_POD,
    delivery="file",
    execution_timeout_seconds=86_400,
    outcome_gate=True,
    retries=2,
)
MAPPED = {
    "manifest": "orders.yaml",
    "airflow": {
        "mapping": {"mode": "summary", "max_items": 4, "max_active": 2},
        "execution": {
            "schedule": "@daily",
            "start_date": "2024-01-01",
            "outlets": ["postgres://warehouse/analytics/orders"],
        },
        "hooks": HOOKS,
    },
    "pod": {"labels": {"team": "orders"}},
}
MAPPED_DEFAULTS = {
    "pod": {
        "image": "registry.example/dpone-runtime:1",
        "namespace": "loads",
        "labels": {"team": "data", "tier": "history"},
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
    },
    "connections": CONNECTIONS,
}
PROJECTS = {"internal": (INTERNAL, None), "mapped": (MAPPED, MAPPED_DEFAULTS)}


def compile_pod_pack(folder: Path, name: str) -> Pack:
    """Check and compile one of the workloads."""
    entry, defaults = PROJECTS[name]
    write_project(folder, workloads={"orders": entry}, **({"defaults": defaults} if defaults else {}))
    review = review_project(load_project(folder))
    assert review.findings == ()
    (pack,) = review.compile_packs(release="golden", deployment="golden")
    return pack
