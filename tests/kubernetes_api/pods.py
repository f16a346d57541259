"""A pod as the API shows it: its document, the states of its containers and the phase that follows from them."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
DEFAULT_GRACE_SECONDS = 30


def now() -> datetime:
    """Give the instant."""
    return datetime.now(UTC)


def instant_text(instant: datetime) -> str:
    """Write an instant as a status does, to the second."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def log_instant_text(instant: datetime) -> str:
    """Write an instant as a log line does, to the nanosecond."""
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


@dataclass(frozen=True)
class LogLine:
    """A line of a container and when it was read."""

    at: datetime
    text: str


@dataclass
class Container:
    """One container's name and state: a single key, `waiting`, `running` or `terminated`."""

    name: str
    state: Json = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})

    @property
    def waits(self) -> bool:
        return "waiting" in self.state

    @property
    def runs(self) -> bool:
        return "running" in self.state

    @property
    def terminated(self) -> Json | None:
        """How it ended, None before."""
        ended: Json | None = self.state.get("terminated")
        return ended


class Pod:
    """One pod; `changed` is set, and replaced, whenever anything about it changes."""

    def __init__(self, namespace: str, document: Json) -> None:
        self.spec: Json = document["spec"]
        self.metadata: Json = copy.deepcopy(document["metadata"])
        generated = self.metadata.get("generateName", "") + uuid.uuid4().hex[:5]
        self.metadata.setdefault("name", generated)
        self.metadata.setdefault("labels", {})
        self.metadata |= {
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": instant_text(now()),
        }
        self.name: str = self.metadata["name"]
        self.namespace = namespace
        self.containers = [Container(each["name"]) for each in self.spec["containers"]]
        self.lines: list[LogLine] = []
        self.changed = asyncio.Event()
        self.scheduled = True
        self.gone = False  # no longer in the API
        self._forced: Json = {}

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.metadata["labels"]
        return labels

    @property
    def base(self) -> Container:
        """The container that does the work: the first one."""
        return self.containers[0]

    @property
    def sidecars(self) -> list[Container]:
        return self.containers[1:]

    @property
    def grace_seconds(self) -> int:
        return int(self.spec.get("terminationGracePeriodSeconds") or DEFAULT_GRACE_SECONDS)

    @property
    def ended(self) -> bool:
        """Whether every container has."""
        return all(container.terminated for container in self.containers)

    def container(self, name: str) -> Container | None:
        """Find a container."""
        return next((each for each in self.containers if each.name == name), None)

    def start(self, container: Container) -> None:
        """Show a container as running."""
        container.state = {"running": {"startedAt": instant_text(now())}}
        self.notify()

    def wait_with(self, reason: str, message: str) -> None:
        """Show why the base container does not start."""
        self.base.state = {"waiting": {"reason": reason, "message": message}}
        self.notify()

    def end(self, container: Container, exit_code: int, reason: str = "", message: str = "") -> None:
        """Show a container as ended; the first end stands."""
        if container.terminated:
            return
        started = container.state.get("running", {}).get("startedAt")
        container.state = {
            "terminated": {
                "exitCode": exit_code,
                "reason": reason or ("Completed" if exit_code == 0 else "Error"),
                "startedAt": started,
                "finishedAt": instant_text(now()),
                **({"message": message} if message else {}),
            }
        }
        self.notify()

    def fail(self, reason: str, message: str) -> None:
        """Let the whole pod have failed, whatever its containers say."""
        self._forced = {"phase": "Failed", "reason": reason, "message": message}
        self.notify()

    def say(self, line: str) -> None:
        """Add a line to the base container's log."""
        self.lines.append(LogLine(now(), line))
        self.notify()

    def notify(self) -> None:
        """Wake whoever waits for a change."""
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def phase(self) -> str:
        """The phase that follows from the containers' states, or the one that was forced."""
        if self._forced:
            return str(self._forced["phase"])
        if self.ended:
            codes = [container.state["terminated"]["exitCode"] for container in self.containers]
            return "Succeeded" if not any(codes) else "Failed"
        return "Pending" if all(container.waits for container in self.containers) else "Running"

    def document(self, resource_version: int) -> Json:
        """Give the pod as the API shows it."""
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {**self.metadata, "resourceVersion": str(resource_version)},
            "spec": self.spec,
            "status": self._status(),
        }

    def _status(self) -> Json:
        condition = {
            "type": "PodScheduled",
            "status": "True" if self.scheduled else "False",
            "lastTransitionTime": self.metadata["creationTimestamp"],
        }
        status: Json = {"phase": self.phase, "conditions": [condition], "qosClass": "Burstable"}
        if self.scheduled:
            status |= {
                "startTime": self.metadata["creationTimestamp"],
                "hostIP": "127.0.0.1",
                "podIP": "127.0.0.1",
                "containerStatuses": [self._container_status(each) for each in self.containers],
            }
        return status | self._forced

    def _container_status(self, container: Container) -> Json:
        spec: Mapping[str, Any] = next(
            each for each in self.spec["containers"] if each["name"] == container.name
        )
        return {
            "name": container.name,
            "image": spec.get("image", ""),
            "imageID": "",
            "ready": container.runs,
            "started": container.runs,
            "restartCount": 0,
            "state": container.state,
        }
