"""`exec` over a websocket, as far as Airflow needs it: reading the XCom file out of the sidecar, and ending the sidecar.

Frames are those of channel.k8s.io: the first byte is the channel, 0 standard input, 1 output, 2 errors, 3 the end.
"""

from __future__ import annotations

import json
import re
import shlex

from aiohttp import WSMsgType, web

from tests.kubernetes_api.api_errors import failure, pod_not_found
from tests.kubernetes_api.cluster import Cluster
from tests.kubernetes_api.pods import Container, Pod

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")
STDIN, STDOUT, STDERR, END = b"\x00", b"\x01", b"\x02", b"\x03"
# What a kubelet copies at once.
FRAME_BYTES = 32 * 1024
ENDS_SIDECAR = re.compile(r"\bkill -2\b")


class ExecCalls:
    """Runs commands in a pod's sidecar."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def exec(self, request: web.Request) -> web.StreamResponse:
        """Answer one exec, of a command or of a shell that reads commands."""
        pod = self._cluster.find(request.match_info["namespace"], request.match_info["name"])
        if pod is None:
            return pod_not_found(request.match_info["name"])
        name = request.query.get("container", pod.base.name)
        container = pod.container(name)
        if container is None or not container.runs:
            return failure(500, f'unable to upgrade connection: container not found ("{name}")')
        if container is pod.base:
            return failure(500, "this stand-in runs commands in the sidecar alone")
        socket = web.WebSocketResponse(protocols=PROTOCOLS)
        await socket.prepare(request)
        command = request.query.getall("command")
        if request.query.get("stdin", "").lower() == "true":
            exit_code = await self._converse(socket, pod, container)
        else:
            script = command[2] if command[:2] == ["/bin/sh", "-c"] else shlex.join(command)
            exit_code = await self._run(socket, pod, container, script)
        if not socket.closed:
            await socket.send_bytes(END + json.dumps(_end(exit_code)).encode())
            await socket.close()
        return socket

    async def _converse(self, socket: web.WebSocketResponse, pod: Pod, container: Container) -> int:
        exit_code = 0
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                data = message.data.encode()
            elif message.type is WSMsgType.BINARY:
                data = message.data
            else:
                continue
            if data[:1] == STDIN and data[1:].strip():
                exit_code = await self._run(socket, pod, container, data[1:].decode())
                if container.terminated:
                    break
        return exit_code

    async def _run(self, socket: web.WebSocketResponse, pod: Pod, container: Container, script: str) -> int:
        if ENDS_SIDECAR.search(script):
            # Its handler for SIGINT ends with 0; the shell that sent the signal dies of it too.
            pod.end(container, 0)
            return 130
        exit_code, out, err = await self._cluster.kubelet(pod).run_in_sidecar(script)
        for channel, content in ((STDOUT, out), (STDERR, err)):
            for start in range(0, len(content), FRAME_BYTES):
                await socket.send_bytes(channel + content[start : start + FRAME_BYTES])
        return exit_code


def _end(exit_code: int) -> dict[str, object]:
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }
