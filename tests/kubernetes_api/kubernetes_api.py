"""`KubernetesApi`: the stand-in for a test, as a context manager: a kubeconfig for clients, and means to give orders and to look."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kubernetes_api.control_calls import PREFIX
from tests.kubernetes_api.image import ROOT, SOURCES
from tests.kubernetes_api.label_selectors import matches
from tests.kubernetes_api.orders import Action, Order, order_document
from tests.waiting import wait_until

STOP_SECONDS = 30
CALL_SECONDS = 60
NAMESPACE = "default"


@dataclass(frozen=True)
class SeenCall:
    """A call that was made: which, about which pod, with which query, answered how (None: not yet)."""

    call: str
    pod: str | None
    query: Mapping[str, str]
    status: int | None


@dataclass(frozen=True)
class SeenPod:
    """A pod that was ever created, gone or not, as it is now or was last."""

    document: Mapping[str, Any]
    log: tuple[str, ...]
    gone: bool
    runs_process: bool

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.document["metadata"]["labels"]
        return labels

    @property
    def phase(self) -> str:
        return str(self.document["status"]["phase"])

    @property
    def exit_code(self) -> int | None:
        """The base container's exit code, None before its end."""
        ended = self.base_state.get("terminated")
        return int(ended["exitCode"]) if ended else None

    @property
    def base_state(self) -> Mapping[str, Any]:
        """The base container's state."""
        state: Mapping[str, Any] = self.document["status"]["containerStatuses"][0]["state"]
        return state

    @property
    def deleted(self) -> bool:
        """Whether somebody has asked for its deletion."""
        return "deletionTimestamp" in self.document["metadata"]


class KubernetesApi:
    """The API on a free port of this machine, in a process of its own that ends with this one.

    `isolation` forces `namespaces` or `processes`; by default it is whatever the machine allows. `image_folders` are further parts of
    every pod's image: where a pod sees a folder, and where it is.
    """

    def __init__(
        self, *, isolation: str | None = None, image_folders: Mapping[str, Path] | None = None
    ) -> None:
        self._orders = {
            "isolation": isolation,
            "image_folders": {target: str(source) for target, source in (image_folders or {}).items()},
            "starter_pid": os.getpid(),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = Path()
        self.url = ""
        self.isolation = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """The file that tells a client where the API is."""
        return self.folder / "kubeconfig"

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server; returns when it takes calls.

        Errors: RuntimeError with what it has said when it does not.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="kubernetes-api-"))
        log = self.folder / "server.log"
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    f"{__package__}.server",
                    json.dumps({**self._orders, "folder": str(self.folder)}),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env={"PYTHONPATH": os.pathsep.join(map(str, SOURCES)), "PATH": os.defpath},
                start_new_session=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            told = log.read_text(encoding="utf-8")
            self.stop()
            raise RuntimeError(f"the stand-in did not start: {told}")
        report = json.loads(said)
        self.url, self.isolation = f"http://127.0.0.1:{report['port']}", report["isolation"]
        self.kubeconfig.write_text(json.dumps(self._kubeconfig()), encoding="utf-8")

    def stop(self) -> None:
        """End the server and all pods; nothing of them is left."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(STOP_SECONDS)
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    # Orders.

    def order(self, order: Order) -> int:
        """Give an order; its number is for `lift`."""
        return int(self._call("POST", "orders", order_document(order))["number"])

    def lift(self, number: int) -> None:
        """Take an order back; held pods go on."""
        self._call("DELETE", f"orders/{number}")

    def act(self, action: Action, selector: str = "") -> list[str]:
        """Let something happen to the pods that a selector means; give their names."""
        names: list[str] = self._call("POST", "actions", {"action": action, "selector": selector})["pods"]
        return names

    def add_secret(self, name: str, values: Mapping[str, str], namespace: str = NAMESPACE) -> None:
        """Create a secret, or replace it."""
        self._call("PUT", f"secrets/{namespace}/{name}", dict(values))

    def reset(self) -> None:
        """Kill all pods and forget pods, orders, secrets, events and calls."""
        self._call("POST", "reset")

    # What has happened.

    def pods(self, selector: str = "") -> list[SeenPod]:
        """Give every pod that was ever created and meets a selector, oldest first."""
        seen = [
            SeenPod(each["document"], tuple(each["log"]), each["gone"], each["runs_process"])
            for each in self._call("GET", "pods")
        ]
        return [pod for pod in seen if matches(pod.labels, selector)]

    def pod(self, selector: str = "") -> SeenPod:
        """Give the one pod that a selector means."""
        (pod,) = self.pods(selector)
        return pod

    def calls(self, call: str | None = None) -> list[SeenCall]:
        """Give the calls that were made to the API, all or of one kind, oldest first."""
        seen = [
            SeenCall(each["call"], each["pod"], each["query"], each["status"])
            for each in self._call("GET", "calls")
        ]
        return [each for each in seen if call in {None, each.call}]

    def wait_for(
        self,
        condition: Callable[[SeenPod], bool],
        selector: str = "",
        *,
        timeout: float = 60,
        what: str = "a pod",
    ) -> SeenPod:
        """Wait until some pod of a selector meets a condition; give the first that does."""
        found: list[SeenPod] = []

        def holds() -> bool:
            found[:] = [pod for pod in self.pods(selector) if condition(pod)]
            return bool(found)

        wait_until(holds, timeout, what)
        return found[0]

    def _call(self, method: str, path: str, document: object = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}{PREFIX}/{path}",
            data=None if document is None else json.dumps(document).encode(),
            method=method,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
            return json.load(answer)

    def _kubeconfig(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "stand-in",
            "clusters": [{"name": "stand-in", "cluster": {"server": self.url}}],
            "users": [{"name": "stand-in", "user": {}}],
            "contexts": [
                {
                    "name": "stand-in",
                    "context": {"cluster": "stand-in", "user": "stand-in", "namespace": NAMESPACE},
                }
            ],
        }
