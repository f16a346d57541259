"""The kubelet: runs a pod's base container as a process of this machine and keeps the pod's status in step with it.

    created -> held? -> configured? -> started -> output to the log -> ended -> its XCom file as ordered -> terminated

A sidecar is not a process: it runs from the start, does not listen to SIGTERM (the real one is a shell without a handler for it), and
ends when it is killed, by an exec or with its pod.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes_api.image import Image, Isolation, entry_command, write_orders
from tests.kubernetes_api.orders import OrderBook, PodFault, PodOrder
from tests.kubernetes_api.pod_environment import (
    ContainerConfigError,
    Secrets,
    container_command,
    container_environment,
    container_user,
)
from tests.kubernetes_api.pods import Json, Pod

XCOM_FOLDER = "/airflow/xcom"
OUTCOME_FILE = "return.json"
KILLED = 137
LINE_LIMIT = 16 * 1024 * 1024
NOT_FOUND, NOT_STARTED = 127, 128


@dataclass(frozen=True)
class Node:
    """What a kubelet works with: a folder of its own, the image, how containers are kept apart, orders, and events."""

    folder: Path
    image: Image
    isolation: Isolation
    orders: OrderBook
    tell: Callable[[Pod, str, str, str], None]


class Kubelet:
    """One pod's life on the node."""

    def __init__(
        self, node: Node, pod: Pod, faults: dict[int, PodOrder], secrets: Callable[[], Secrets]
    ) -> None:
        self.pod = pod
        self._node = node
        self._faults = faults
        self._secrets = secrets
        self._folder = node.folder / str(pod.metadata["uid"])
        self._process: asyncio.subprocess.Process | None = None
        self._reason = ""
        self._starts = False
        self._life = asyncio.create_task(self._live())
        self._deadline = asyncio.create_task(self._end_at_deadline())

    # Asked from outside.

    async def stop(self, grace_seconds: float) -> None:
        """Ask the pod to end, kill it when its time is over."""
        self._node.tell(self.pod, "Normal", "Killing", f"Stopping container {self.pod.base.name}")
        await self._signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._until(lambda: self.pod.ended or not self._has_started())
        await self.kill()

    async def kill(self, reason: str = "") -> None:
        """End every container at once."""
        await self.kill_base(reason)
        for sidecar in self.pod.sidecars:
            self.pod.end(sidecar, KILLED, reason)
        self._deadline.cancel()

    async def kill_base(self, reason: str = "") -> None:
        """Send the base container SIGKILL and wait until it, and all that it started, is gone."""
        await self._until(lambda: not self._starts)
        if not self._has_process():
            self._life.cancel()
            self.pod.end(self.pod.base, KILLED, reason)
            return
        self._reason = reason
        # To the container's runtime, which passes it on as SIGKILL and waits for the end.
        await self._signal(signal.SIGUSR1)
        await self._life

    def remove(self) -> None:
        """Leave nothing of an ended pod on the node."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def runs_process(self) -> bool:
        """Whether the base container's processes live."""
        return self._has_process()

    async def run_in_sidecar(self, script: str) -> tuple[int, bytes, bytes]:
        """Run a shell script that sees the XCom folder; give exit code, standard output and standard error."""
        shown = script.replace(XCOM_FOLDER, str(self._volume_of(XCOM_FOLDER) or self._folder))
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            shown,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out, err

    # The pod's life.

    async def _live(self) -> None:
        pod = self.pod
        self._folder.mkdir(mode=0o700)
        await self._held()
        if order := self._fault(PodFault.WAIT):
            self._wait(order.reason, order.text)
            return
        try:
            reader = await self._start()
        except ContainerConfigError as error:
            self._wait("CreateContainerConfigError", str(error))
            return
        started = await self._report(reader)
        for sidecar in pod.sidecars:
            pod.start(sidecar)
        if started == "started":
            self._node.tell(pod, "Normal", "Started", f"Started container {pod.base.name}")
            pod.start(pod.base)
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            pod.say(line.decode(errors="replace").rstrip("\n"))
        exit_code = await self._process.wait()
        if started == "started":
            self._end_base(exit_code)
        else:
            self._node.tell(pod, "Warning", "Failed", f"Error: failed to start container: {started}")
            pod.end(pod.base, exit_code, "StartError", started)

    async def _held(self) -> None:
        holds = [number for number, order in self._faults.items() if order.fault is PodFault.HOLD]
        while any(self._node.orders.holds(number) for number in holds):
            await asyncio.sleep(0.02)

    def _wait(self, reason: str, message: str) -> None:
        self._node.tell(self.pod, "Warning", "Failed", f"Error: {reason}: {message}")
        self.pod.wait_with(reason, message)

    async def _start(self) -> int:
        """Start the container; give the descriptor that tells whether its command runs."""
        pod, spec = self.pod, self.pod.spec["containers"][0]
        document = {"metadata": pod.metadata, "spec": pod.spec}
        user = container_user(document, spec)
        environment = container_environment(document, spec, self._node.image.environment, self._secrets())
        command = container_command(spec, environment)
        if order := self._fault(PodFault.COMMAND):
            command = list(order.command)
        if self._node.isolation is Isolation.PROCESSES:
            command, environment = self._without_namespaces(command, environment)
        root = self._folder / "root"
        root.mkdir()
        reader, writer = os.pipe()
        orders = self._folder / "orders.json"
        write_orders(
            orders,
            self._node.isolation,
            command,
            environment,
            root,
            writer,
            mounts=self._mounts(spec),
            read_only_root=bool((spec.get("securityContext") or {}).get("readOnlyRootFilesystem")),
            user=user,
            working_folder=spec.get("workingDir") or "/",
        )
        self._starts = True
        self._process = await asyncio.create_subprocess_exec(
            *entry_command(orders),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={},
            cwd=str(self._folder),
            pass_fds=(writer,),
            start_new_session=True,
            limit=LINE_LIMIT,
        )
        os.close(writer)
        return reader

    async def _report(self, reader: int) -> str:
        stream = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(stream)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: protocol, os.fdopen(reader, "rb")
        )
        said = (await stream.read()).decode(errors="replace").strip()
        transport.close()
        self._starts = False
        (self._folder / "orders.json").unlink(missing_ok=True)
        return said or "the container's runtime ended"

    def _end_base(self, exit_code: int) -> None:
        pod = self.pod
        self._spoil_outcome()
        if self._fault(PodFault.SIDECAR_FAILS):
            for sidecar in pod.sidecars:
                pod.end(sidecar, 1)
        order = self._fault(PodFault.EXIT_CODE)
        pod.end(pod.base, order.number if order else exit_code, self._reason)

    def _spoil_outcome(self) -> None:
        folder = self._volume_of(XCOM_FOLDER)
        if folder is None:
            return
        outcome = folder / OUTCOME_FILE
        if order := self._fault(PodFault.TRUNCATE_OUTCOME):
            outcome.write_bytes(outcome.read_bytes()[: order.number])
        if order := self._fault(PodFault.REPLACE_OUTCOME):
            outcome.write_text(order.text, encoding="utf-8")
        if self._fault(PodFault.REMOVE_OUTCOME):
            outcome.unlink(missing_ok=True)

    async def _end_at_deadline(self) -> None:
        seconds = self.pod.spec.get("activeDeadlineSeconds")
        if not seconds:
            return
        await asyncio.sleep(float(seconds))
        self.pod.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        await self._signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pod.grace_seconds):
                await self._until(lambda: not self._has_process())
        await self.kill_base()
        for sidecar in self.pod.sidecars:
            self.pod.end(sidecar, KILLED)

    # What it is made of.

    def _fault(self, fault: PodFault) -> PodOrder | None:
        return next((order for order in self._faults.values() if order.fault is fault), None)

    def _has_started(self) -> bool:
        return self._process is not None

    def _has_process(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def _signal(self, number: signal.Signals) -> None:
        # A container's runtime listens once it has told that it has started.
        await self._until(lambda: not self._starts)
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            changed = self.pod.changed
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await changed.wait()

    def _mounts(self, spec: Json) -> list[Json]:
        mounts: list[Json] = self._node.image.mounts()
        volumes: dict[str, Json] = {volume["name"]: volume for volume in self.pod.spec.get("volumes") or ()}
        for mounted in spec.get("volumeMounts") or ():
            source = self._volume_source(volumes[mounted["name"]])
            mounts.append(
                {
                    "source": str(source),
                    "target": mounted["mountPath"],
                    "read_only": bool(mounted.get("readOnly")),
                }
            )
        return mounts

    def _volume_source(self, volume: Json) -> Path:
        if host := volume.get("hostPath"):
            return Path(str(host["path"]))
        folder = self._folder / "volumes" / str(volume["name"])
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _volume_of(self, target: str) -> Path | None:
        """Find the folder behind a mount of the base container."""
        volumes: dict[str, Json] = {volume["name"]: volume for volume in self.pod.spec.get("volumes") or ()}
        for mounted in self.pod.spec["containers"][0].get("volumeMounts") or ():
            if mounted["mountPath"] == target:
                return self._volume_source(volumes[mounted["name"]])
        return None

    def _without_namespaces(
        self, command: list[str], environment: dict[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """Name the volumes' own folders where their mounts are named, since nothing can be mounted."""
        folders = {mount["target"]: mount["source"] for mount in self._mounts(self.pod.spec["containers"][0])}
        if XCOM_FOLDER in folders:
            environment = {"DPONE_OUTCOME_PATH": f"{folders[XCOM_FOLDER]}/{OUTCOME_FILE}", **environment}
        private = self._folder / "tmp"
        private.mkdir(exist_ok=True)
        environment = {"TMPDIR": folders.get("/tmp", str(private)), **environment}
        for target, source in folders.items():
            command = [word.replace(target, source) for word in command] if target == XCOM_FOLDER else command
        return command, environment
