"""The stand-in's own process: `python -m tests.kubernetes_api.server ORDERS`, started by `KubernetesApi` and by nobody else.

It says its port as one line of JSON, serves, and ends when its standard input ends, when the process that started it is dead, or on
SIGTERM. With it end all pods' processes; the folder that it was given is removed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.kubernetes_api.api_errors import failure
from tests.kubernetes_api.cluster import Cluster
from tests.kubernetes_api.control_calls import PREFIX, ControlCalls
from tests.kubernetes_api.exec_calls import ExecCalls
from tests.kubernetes_api.image import Image, Isolation, find_isolation
from tests.kubernetes_api.orders import Call
from tests.kubernetes_api.pod_calls import PodCalls
from tests.kubernetes_api.pods import instant_text, now

PODS = "/api/v1/namespaces/{namespace}/pods"
POD = PODS + "/{name}"
END_SECONDS = 10
LARGEST_REQUEST_BYTES = 16 * 1024 * 1024

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_application(cluster: Cluster) -> web.Application:
    """Give the API and the control calls over a cluster."""
    pods, execs = PodCalls(cluster), ExecCalls(cluster)
    audit: list[dict[str, Any]] = []
    routes: list[tuple[str, str, Call, Answer]] = [
        ("POST", PODS, Call.CREATE, pods.create),
        ("GET", PODS, Call.LIST, pods.list_pods),
        ("GET", POD, Call.READ, pods.read),
        ("PATCH", POD, Call.PATCH, pods.patch),
        ("DELETE", POD, Call.DELETE, pods.delete),
        ("GET", POD + "/log", Call.LOG, pods.log),
        ("GET", POD + "/exec", Call.EXEC, execs.exec),
        ("POST", POD + "/exec", Call.EXEC, execs.exec),
        ("GET", "/api/v1/namespaces/{namespace}/events", Call.EVENTS, pods.events),
        ("GET", "/api/v1/namespaces/{namespace}", Call.READ, pods.namespace),
        ("GET", "/version/", Call.VERSION, pods.version),
    ]
    application = web.Application(middlewares=[_unknown_paths], client_max_size=LARGEST_REQUEST_BYTES)
    for method, path, call, answer in routes:
        application.router.add_route(method, path, _audited(cluster, audit, call, answer))
    application.add_routes(ControlCalls(cluster, audit).routes())
    return application


def _audited(cluster: Cluster, audit: list[dict[str, Any]], call: Call, answer: Answer) -> Answer:
    """Write a call down, and answer it as ordered before the API does."""

    async def answered(request: web.Request) -> web.StreamResponse:
        entry: dict[str, Any] = {
            "call": call.value,
            "pod": request.match_info.get("name"),
            "query": dict(request.query),
            "at": instant_text(now()),
            "status": None,
        }
        audit.append(entry)
        order = cluster.orders.failure(call, await _labels(cluster, call, request))
        response = failure(order.status, order.message) if order else await answer(request)
        entry["status"] = response.status
        return response

    return answered


async def _labels(cluster: Cluster, call: Call, request: web.Request) -> dict[str, str]:
    if call is Call.CREATE:
        labels: dict[str, str] = (await request.json()).get("metadata", {}).get("labels") or {}
        return labels
    pod = cluster.find(request.match_info.get("namespace", ""), request.match_info.get("name", ""))
    return pod.labels if pod else {}


@web.middleware
async def _unknown_paths(request: web.Request, handler: Answer) -> web.StreamResponse:
    """Answer what is no part of this stand-in loudly, so that nobody takes it for an empty answer."""
    try:
        return await handler(request)
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as error:
        if request.path.startswith(PREFIX):
            raise
        return failure(error.status, f"this stand-in has no {request.method} {request.path}")


async def serve(orders: dict[str, Any]) -> None:
    """Serve until it is time to end, then leave nothing behind."""
    folder = Path(orders["folder"])
    isolation = Isolation(orders["isolation"]) if orders["isolation"] else find_isolation()
    (folder / "pods").mkdir()
    cluster = Cluster(folder / "pods", Image(folders=orders["image_folders"]), isolation)
    end = _ends(orders["starter_pid"])
    runner = web.AppRunner(build_application(cluster), shutdown_timeout=0.1)
    try:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        with suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), json.dumps({"port": port, "isolation": isolation}).encode() + b"\n")
        await end.wait()
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(cluster.reset(), END_SECONDS)
        await runner.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _ends(starter_pid: int) -> asyncio.Event:
    """Give an event that is set when this process should end."""
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    # A Ctrl-C is the starter's to judge.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_reader(sys.stdin.fileno(), end.set)
    # A child that the starter forked may hold the pipe's other end too, and outlive it.
    with suppress(ProcessLookupError):
        loop.add_reader(os.pidfd_open(starter_pid), end.set)
    if os.getppid() != starter_pid:
        end.set()
    return end


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
