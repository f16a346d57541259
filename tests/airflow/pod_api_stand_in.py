"""What the operators ask of Kubernetes while they are built and judged, in memory; whole pods run in the suite of the API."""

from __future__ import annotations

from typing import Any

from kubernetes.client import ApiClient
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException


def make_pod(
    name: str = "pod-1",
    *,
    phase: str = "Running",
    base: k8s.V1ContainerState | None = None,
    labels: dict[str, str] | None = None,
    reason: str | None = None,
    message: str | None = None,
    conditions: list[k8s.V1PodCondition] | None = None,
) -> k8s.V1Pod:
    """A pod as Kubernetes gives it; `base` is the state of its base container, none for one that never started."""
    statuses = None
    if base is not None:
        statuses = [
            k8s.V1ContainerStatus(
                name="base", image="i", image_id="", ready=False, restart_count=0, state=base
            )
        ]
    return k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name=name, namespace="loads", labels=dict(labels or {})),
        spec=k8s.V1PodSpec(containers=[k8s.V1Container(name="base")], termination_grace_period_seconds=0),
        status=k8s.V1PodStatus(
            phase=phase, container_statuses=statuses, reason=reason, message=message, conditions=conditions
        ),
    )


def terminated(exit_code: int, reason: str | None = None, message: str | None = None) -> k8s.V1ContainerState:
    """The state of a container that has ended."""
    return k8s.V1ContainerState(
        terminated=k8s.V1ContainerStateTerminated(exit_code=exit_code, reason=reason, message=message)
    )


def waiting(reason: str, message: str | None = None) -> k8s.V1ContainerState:
    """The state of a container that has not started."""
    return k8s.V1ContainerState(waiting=k8s.V1ContainerStateWaiting(reason=reason, message=message))


class PodApiStandIn:
    """Keeps pods; a deleted one is gone at the next look. `failures` are raised first, one a call."""

    def __init__(self, *pods: k8s.V1Pod, failures: tuple[Exception, ...] = ()) -> None:
        self.pods = {pod.metadata.name: pod for pod in pods}
        self.failures = list(failures)
        self.calls: list[tuple[str, str]] = []
        self.stubborn: set[str] = set()
        self.api_client = ApiClient()
        self.answer_lost = False

    def create_namespaced_pod(self, namespace: str, body: Any, **_: Any) -> k8s.V1Pod:
        self._count("create", body["metadata"]["name"])
        if body["metadata"]["name"] in self.pods:
            raise ApiException(status=409, reason="AlreadyExists")
        self.pods[body["metadata"]["name"]] = pod = make_pod(body["metadata"]["name"])
        if self.answer_lost:
            self.answer_lost = False
            raise ApiException(status=500, reason="lost")
        return pod

    def list_namespaced_pod(self, namespace: str, *, label_selector: str, **_: Any) -> k8s.V1PodList:
        self._count("list", label_selector)
        return k8s.V1PodList(
            items=[pod for pod in self.pods.values() if _selected(pod.metadata.labels, label_selector)]
        )

    def read_namespaced_pod(self, name: str, namespace: str, **_: Any) -> k8s.V1Pod:
        self._count("read", name)
        return self._pod(name)

    def patch_namespaced_pod(self, name: str, namespace: str, body: Any, **_: Any) -> None:
        self._count("patch", name)
        self._pod(name).metadata.labels.update(body["metadata"]["labels"])

    def delete_namespaced_pod(self, name: str, namespace: str, **more: Any) -> None:
        self._count("delete", name)
        self._pod(name)
        if name not in self.stubborn:
            del self.pods[name]

    def _count(self, what: str, of: str) -> None:
        self.calls.append((what, of))
        if self.failures:
            raise self.failures.pop(0)

    def _pod(self, name: str) -> k8s.V1Pod:
        if name not in self.pods:
            raise ApiException(status=404, reason="Not Found")
        return self.pods[name]


def _selected(labels: dict[str, str], selector: str) -> bool:
    for term in selector.split(","):
        if term.startswith("!"):
            if term[1:] in labels:
                return False
        elif "!=" in term:
            if labels.get(term.split("!=")[0]) == term.split("!=")[1]:
                return False
        elif labels.get(term.split("=")[0]) != term.split("=")[1]:
            return False
    return True
