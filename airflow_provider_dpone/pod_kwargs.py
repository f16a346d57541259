"""A pack's pod settings, plain JSON, as arguments of Airflow's KubernetesPodOperator.

What a pack leaves out gets the defaults of a pod that loads data; whatever could turn a failed load into a green task is
said, so that a DAG's `default_args` cannot say otherwise.
"""

from __future__ import annotations

from typing import Any

from kubernetes.client import models as k8s

from airflow_provider_dpone.pod_security import container_security, pod_security
from dpone_contract.pod import (
    ON_FINISH_ACTION,
    POLL_INTERVAL_SECONDS,
    STARTUP_TIMEOUT_SECONDS,
    PodArguments,
)

# Named alike by the pack and by the operator, and of the same shape.
_SAME = (
    "image",
    "image_pull_policy",
    "namespace",
    "kubernetes_conn_id",
    "service_account_name",
    "node_selector",
    "affinity",
    "priority_class_name",
    "pod_template_file",
    "active_deadline_seconds",
    "termination_grace_period",
)


def operator_arguments(pod: PodArguments) -> dict[str, Any]:
    """Give the arguments of KubernetesPodOperator; `env_vars` and `secrets` are the environment's, and are left out."""
    resources = pod.container_resources
    return {
        **{name: value for name in _SAME if (value := getattr(pod, name)) is not None},
        "image_pull_secrets": [
            k8s.V1LocalObjectReference(name=name) for name in pod.image_pull_secrets or ()
        ],
        "labels": dict(pod.labels or {}),
        "annotations": dict(pod.annotations or {}),
        "tolerations": [dict(toleration) for toleration in pod.tolerations or ()],
        "container_resources": None
        if resources is None
        else k8s.V1ResourceRequirements(requests=dict(resources.requests), limits=dict(resources.limits)),
        "security_context": pod_security(pod),
        "container_security_context": container_security(pod),
        "on_finish_action": pod.on_finish_action or ON_FINISH_ACTION,
        "startup_timeout_seconds": pod.startup_timeout_seconds or STARTUP_TIMEOUT_SECONDS,
        "deferrable": pod.deferrable or False,
        "poll_interval": pod.poll_interval or POLL_INTERVAL_SECONDS,
        "get_logs": True,
        "log_events_on_failure": True,
        # The run's own error is shown in place of the pod's whole text.
        "log_pod_spec_on_failure": False,
        # Two attempts never share a pod by its name.
        "random_name_suffix": True,
        "skip_on_exit_code": None,
        "multiple_outputs": False,
    }
