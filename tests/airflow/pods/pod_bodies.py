"""Pods as a client sends them, valid, to override one thing of; and the calls that a test makes about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SIDECAR = "airflow-xcom-sidecar"
XCOM = {"name": "xcom", "mountPath": "/airflow/xcom"}


def make_pod(
    script: str = "true",
    *,
    name: str = "pod",
    command: Sequence[str] | None = None,
    labels: dict[str, str] | None = None,
    sidecar: bool = False,
    env: Sequence[dict[str, Any]] = (),
    spec: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod whose one container runs a shell script; with `sidecar` also what keeps its XCom file for Airflow."""
    base = {
        "name": "base",
        "image": "dpone",
        "command": list(command or ("sh", "-c", script)),
        "env": list(env),
        "volumeMounts": [XCOM],
        **(container or {}),
    }
    waiting = {"name": SIDECAR, "image": "alpine", "command": ["sh", "-c", "trap"], "volumeMounts": [XCOM]}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "xcom", "emptyDir": {}}],
            "containers": [base, waiting] if sidecar else [base],
            **(spec or {}),
        },
    }
