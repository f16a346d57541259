"""The cluster: its pods, secrets and events, and what becomes of pods when somebody deletes, loses or evicts them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from tests.kubernetes_api.image import Image, Isolation
from tests.kubernetes_api.kubelet import Kubelet, Node
from tests.kubernetes_api.label_selectors import matches
from tests.kubernetes_api.orders import Action, OrderBook
from tests.kubernetes_api.pods import Json, Pod, instant_text, now

EVICTED = "The node was low on resource: memory."


class Cluster:
    """Everything that the API shows, and the processes behind it."""

    def __init__(self, folder: Path, image: Image, isolation: Isolation) -> None:
        self.orders = OrderBook()
        self.secrets: dict[str, dict[str, dict[str, str]]] = {}
        self.events: list[Json] = []
        self.history: list[Pod] = []
        self.resource_version = 100
        self.changed = asyncio.Event()
        self._pods: dict[tuple[str, str], Pod] = {}
        self._kubelets: dict[str, Kubelet] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._node = Node(folder, image, isolation, self.orders, self.tell)

    # Pods.

    def find(self, namespace: str, name: str) -> Pod | None:
        """Find a pod."""
        return self._pods.get((namespace, name))

    def pods(self, selector: str = "", namespace: str | None = None) -> list[Pod]:
        """Give the pods that a selector means, oldest first."""
        return [
            pod
            for pod in self._pods.values()
            if matches(pod.labels, selector) and namespace in {None, pod.namespace}
        ]

    def create(self, namespace: str, document: Json) -> Pod:
        """Add a pod, which begins to run."""
        pod = Pod(namespace, document)
        self._pods[namespace, pod.name] = pod
        self.history.append(pod)
        self.tell(pod, "Normal", "Scheduled", f"Successfully assigned {namespace}/{pod.name} to local")
        faults = self.orders.faults(pod.labels)
        self._kubelets[pod.metadata["uid"]] = Kubelet(
            self._node, pod, faults, lambda: self.secrets.get(namespace, {})
        )
        return pod

    def kubelet(self, pod: Pod) -> Kubelet:
        """Give what runs a pod."""
        return self._kubelets[pod.metadata["uid"]]

    def delete(self, pod: Pod, grace_seconds: int | None = None) -> None:
        """Begin to delete a pod: asked to end first, killed when its grace is over, gone then."""
        grace = pod.grace_seconds if grace_seconds is None else grace_seconds
        if "deletionTimestamp" in pod.metadata and grace > 0:
            return
        pod.metadata["deletionGracePeriodSeconds"] = grace
        pod.metadata["deletionTimestamp"] = instant_text(now() + timedelta(seconds=grace))
        self._start(self._end(pod, grace))

    async def _end(self, pod: Pod, grace_seconds: int) -> None:
        if not pod.ended:
            await self.kubelet(pod).stop(grace_seconds)
        self._forget(pod)

    def _forget(self, pod: Pod) -> None:
        if self._pods.get((pod.namespace, pod.name)) is pod:
            del self._pods[pod.namespace, pod.name]
        pod.gone = True
        pod.notify()
        if not self.kubelet(pod).runs_process():
            self.kubelet(pod).remove()

    # What happens to pods.

    async def act(self, action: Action, pods: Iterable[Pod]) -> None:
        """Let something happen to pods; returns when it has, but for a drain, which takes the pods' grace."""
        for pod in list(pods):
            kubelet = self.kubelet(pod)
            match action:
                case Action.LOSE:
                    self._forget(pod)
                    await kubelet.kill()
                    kubelet.remove()
                case Action.PART:
                    self._forget(pod)
                case Action.EVICT:
                    self.tell(pod, "Warning", "Evicted", EVICTED)
                    pod.fail("Evicted", EVICTED)
                    await kubelet.kill()
                case Action.DRAIN:
                    self.tell(
                        pod,
                        "Normal",
                        "TaintManagerEviction",
                        f"Marking for deletion Pod {pod.namespace}/{pod.name}",
                    )
                    self.delete(pod)
                case Action.KILL:
                    await kubelet.kill_base()
                case Action.OOM_KILL:
                    await kubelet.kill_base("OOMKilled")
                case Action.FAIL_SIDECAR:
                    for sidecar in pod.sidecars:
                        pod.end(sidecar, 1)

    # Events.

    def tell(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        """Add an event about a pod."""
        self.resource_version += 1
        self.events.append(
            {
                "kind": "Event",
                "apiVersion": "v1",
                "metadata": {
                    "name": f"{pod.name}.{uuid.uuid4().hex[:8]}",
                    "namespace": pod.namespace,
                    "uid": str(uuid.uuid4()),
                    "resourceVersion": str(self.resource_version),
                },
                "involvedObject": {
                    "kind": "Pod",
                    "name": pod.name,
                    "namespace": pod.namespace,
                    "uid": pod.metadata["uid"],
                    "fieldPath": f"spec.containers{{{pod.base.name}}}",
                },
                "type": kind,
                "reason": reason,
                "message": message,
                "count": 1,
                "lastTimestamp": instant_text(now()),
                "source": {"component": "kubelet"},
            }
        )
        self.changed.set()
        self.changed = asyncio.Event()

    # The end.

    async def reset(self) -> None:
        """Kill every pod, also the lost ones, and forget everything."""
        self.orders.lift()
        kubelets = list(self._kubelets.values())
        await asyncio.gather(*(kubelet.kill() for kubelet in kubelets), return_exceptions=True)
        for work in self._work:
            work.cancel()
        for kubelet in kubelets:
            kubelet.remove()
        for pod in self.history:
            pod.gone = True
        self._kubelets.clear()
        self._pods.clear()
        self.history.clear()
        self.events.clear()
        self.secrets.clear()

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]  # a coroutine
        self._work.add(task)
        task.add_done_callback(self._work.discard)
