"""A catalog entry that runs in pods, and a pod with everything that can be said of one."""

import json

from dpone_packbuilder.checks import check_project
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.project_files import SUMMARY, manifest, write_project

POD = {"image": "registry.example/dpone-runtime:1"}
CONNECTIONS = {
    "operations": {"secret": "databases", "key": "operations"},
    "warehouse": {"secret": "databases", "key": "warehouse"},
}
WHOLE_POD = {
    "image_pull_policy": "IfNotPresent",
    "image_pull_secrets": ["registry"],
    "namespace": "loads",
    "service_account": "dpone.loads",
    "labels": {"team": "data", "example.com/cost-center": "c-17", "empty": ""},
    "annotations": {"example.com/owner": "data, and a long text with {braces} and $ signs"},
    "node_selector": {"disk": "fast"},
    "tolerations": [
        {"key": "loads", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"team": "data"}},
                    },
                }
            ]
        },
    },
    "priority_class": "loads",
    "resources": {
        "requests": {"cpu": "500m", "memory": "256Mi", "example.com/gpu": "1"},
        "limits": {"cpu": "1.5", "memory": "0.5Gi"},
    },
    "env_vars": {"TZ": "UTC", "DPONE_CONNECTIONS_DIR": "/connections", "PGSSLMODE": "verify-full"},
    "kubernetes_conn_id": "cluster",
    "pod_template_file": "/opt/airflow/templates/load.yaml",
    "run_as_user": 1000,
    "fs_group": 1000,
    "on_finish_action": "keep_pod",
    "startup_timeout_seconds": 300,
    "active_deadline_seconds": 7200,
    "termination_grace_seconds": 90,
    "deferrable": True,
    "poll_interval_seconds": 10,
    "pack_path": "/opt/dpone/packs",
}
HOOKS = {
    "pre": [{"name": "announce", "command": ["sh", "-c", "echo $(date) ${DPONE_DAG_RUN_ID}"]}],
    "post": [{"name": "refresh", "command": ["python", "-m", "reports"]}],
}


def pod_workload(*, mapping=SUMMARY, pod=None, connections=CONNECTIONS, hooks=None, **execution):
    """Give a catalog entry that runs in pods; `pod` are keys beside the image, further arguments those of `execution`.

    The value None removes a key of the pod.
    """
    settings = {key: value for key, value in {**POD, **(pod or {})}.items() if value is not None}
    airflow = {"mapping": mapping, "execution": execution} if execution else {"mapping": mapping}
    if hooks is not None:
        airflow["hooks"] = hooks
    return {"manifest": "orders.yaml", "airflow": airflow, "pod": settings, "connections": connections}


def check(folder, entry, *, defaults=None, **changes):
    """Check a project of one workload."""
    catalog = {"workloads": {"orders": entry}, **({"defaults": defaults} if defaults else {})}
    write_project(folder, manifests={"orders.yaml": manifest(**changes)}, **catalog)
    return check_project(load_project(folder))


def only(findings):
    """Give the one finding that there is; it has a way out."""
    assert len(findings) == 1, [f"{found.where} {found.code} {found.message}" for found in findings]
    assert findings[0].next_step
    return findings[0]


def line_of_block(path, key):
    """Give the line of a key of the pod, which may stand above it in another block too."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pod = next(number for number, line in enumerate(lines) if line.strip().startswith("pod:"))
    written = (f"{key}:", f"{json.dumps(key)}:")
    return next(n for n, line in enumerate(lines[pod:], pod + 1) if line.strip().startswith(written))
