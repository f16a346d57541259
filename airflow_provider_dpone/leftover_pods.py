"""Pods that earlier attempts of a task instance have left behind: they are ended before a new attempt starts its own.

The ledger would refuse a replaced attempt anyway; ending it first saves the new one from waiting for its leases.

Source: decision 1 of pods, nothing is re-attached.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import timedelta

from kubernetes.client import CoreV1Api, V1Pod
from kubernetes.client.exceptions import ApiException

from airflow_provider_dpone.kubernetes_calls import (
    NOT_FOUND,
    REQUEST_TIMEOUT_SECONDS,
    WAITS,
    call_repeatedly,
    status_of,
)
from airflow_provider_dpone.pod_status import is_terminal

# Beyond the pod's own grace.
END_WITHIN = timedelta(seconds=60)
_CHECKED = {"metadata": {"labels": {"already_checked": "True"}}}
_LOOK_SECONDS = 1

_log = logging.getLogger(__name__)


def end_leftover_pods(
    client: CoreV1Api, namespace: str, labels: Mapping[str, str], end_within: timedelta = END_WITHIN
) -> tuple[str, ...]:
    """End what runs under the labels of a task instance, wait for it within the bound, and give the names of all found.

    Each of them is marked as seen to its end, so that Airflow's operator takes none of them for the new attempt's.

    Errors: of the Kubernetes API, once it has been asked repeatedly.
    """
    pods = _find(client, namespace, labels)
    for pod in pods:
        _mark(client, pod)
        if not is_terminal(pod):
            _log.warning(
                "the pod %s of an earlier attempt is ended before this one starts its own", pod.metadata.name
            )
            delete_pod(client, pod.metadata.name, namespace)
    names = frozenset(pod.metadata.name for pod in pods if not is_terminal(pod))
    grace = max((pod.spec.termination_grace_period_seconds or 0 for pod in pods), default=0)
    deadline = time.monotonic() + grace + end_within.total_seconds()
    while names:
        names &= frozenset(
            pod.metadata.name for pod in _find(client, namespace, labels) if not is_terminal(pod)
        )
        if names and time.monotonic() > deadline:
            _log.warning(
                "%s has not ended yet; the ledger keeps it from committing", ", ".join(sorted(names))
            )
            break
        if names:
            time.sleep(_LOOK_SECONDS)
    return tuple(pod.metadata.name for pod in pods)


def delete_pod(
    client: CoreV1Api,
    name: str,
    namespace: str,
    grace_seconds: int | None = None,
    *,
    waits: tuple[float, ...] = WAITS,
    answer_seconds: float = REQUEST_TIMEOUT_SECONDS,
) -> None:
    """Ask Kubernetes to end a pod, and wait so long for each answer; one that is gone is ended.

    Errors: of the Kubernetes API, once it has been asked repeatedly.
    """
    more = {} if grace_seconds is None else {"grace_period_seconds": grace_seconds}
    try:
        call_repeatedly(
            lambda: client.delete_namespaced_pod(name, namespace, _request_timeout=answer_seconds, **more),
            "end a pod",
            waits,
        )
    except ApiException as error:
        if status_of(error) != NOT_FOUND:
            raise


def _find(client: CoreV1Api, namespace: str, labels: Mapping[str, str]) -> list[V1Pod]:
    # A task that was mapped before has its items' pods under the same names, but for this label.
    whole = [f"{name}={value}" for name, value in sorted(labels.items())]
    selector = ",".join([*whole, *([] if "map_index" in labels else ["!map_index"]), "!airflow-worker"])
    answer = call_repeatedly(
        lambda: client.list_namespaced_pod(
            namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT_SECONDS
        ),
        "list the pods of earlier attempts",
    )
    return list(answer.items)


def _mark(client: CoreV1Api, pod: V1Pod) -> None:
    try:
        call_repeatedly(
            lambda: client.patch_namespaced_pod(
                pod.metadata.name,
                pod.metadata.namespace,
                _CHECKED,
                _request_timeout=REQUEST_TIMEOUT_SECONDS,
            ),
            "mark a pod",
        )
    except ApiException as error:
        if status_of(error) != NOT_FOUND:
            raise
