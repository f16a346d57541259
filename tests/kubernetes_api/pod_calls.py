"""The calls about pods and events that Airflow's pod operator makes, in both of its modes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from tests.kubernetes_api.api_errors import failure, pod_not_found
from tests.kubernetes_api.cluster import Cluster
from tests.kubernetes_api.pod_logs import LogRequest, log_lines
from tests.kubernetes_api.pod_validation import InvalidPodError, require_valid_pod
from tests.kubernetes_api.pods import Json, Pod

VERSION = {
    "major": "1",
    "minor": "31",
    "gitVersion": "v1.31.0",
    "gitCommit": "0",
    "gitTreeState": "clean",
    "buildDate": "2024-08-13T07:28:49Z",
    "goVersion": "go1.22.5",
    "compiler": "gc",
    "platform": "linux/amd64",
}
WATCH_SECONDS = 60.0


class PodCalls:
    """One method a call."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def pod_of(self, request: web.Request) -> Pod | None:
        """Find the pod that a path names."""
        return self._cluster.find(request.match_info["namespace"], request.match_info["name"])

    def show(self, pod: Pod) -> Json:
        """Give a pod as of now."""
        self._cluster.resource_version += 1
        return pod.document(self._cluster.resource_version)

    async def version(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(VERSION)

    async def namespace(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["namespace"]
        return web.json_response({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})

    async def create(self, request: web.Request) -> web.StreamResponse:
        namespace, document = request.match_info["namespace"], await request.json()
        try:
            require_valid_pod(document)
        except InvalidPodError as error:
            name = document.get("metadata", {}).get("name")
            return failure(error.status, f'Pod "{name}" is invalid: {error}')
        name = document["metadata"].get("name")
        if name is not None and self._cluster.find(namespace, name):
            return failure(409, f'pods "{name}" already exists')
        return web.json_response(self.show(self._cluster.create(namespace, document)), status=201)

    async def list_pods(self, request: web.Request) -> web.StreamResponse:
        selector, fields = request.query.get("labelSelector", ""), _fields(request)
        pods = [
            pod
            for pod in self._cluster.pods(selector, request.match_info["namespace"])
            if fields.get("metadata.name") in {None, pod.name}
        ]
        if _asks(request, "watch"):
            return failure(400, "this stand-in watches events alone")
        return self._listed("PodList", [self.show(pod) for pod in pods])

    async def read(self, request: web.Request) -> web.StreamResponse:
        pod = self.pod_of(request)
        return web.json_response(self.show(pod)) if pod else pod_not_found(request.match_info["name"])

    async def patch(self, request: web.Request) -> web.StreamResponse:
        pod = self.pod_of(request)
        if pod is None:
            return pod_not_found(request.match_info["name"])
        body = await request.json()
        changes = _of_json_patch(body) if isinstance(body, list) else body.get("metadata") or {}
        for kind in ("labels", "annotations"):
            held: dict[str, str] = pod.metadata.setdefault(kind, {})
            for key, value in (changes.get(kind) or {}).items():
                if value is None:
                    held.pop(key, None)
                else:
                    held[key] = value
        pod.notify()
        return web.json_response(self.show(pod))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        pod = self.pod_of(request)
        if pod is None:
            return pod_not_found(request.match_info["name"])
        body: Json = {}
        with suppress(json.JSONDecodeError):
            body = await request.json() or {}
        asked = request.query.get("gracePeriodSeconds", body.get("gracePeriodSeconds"))
        self._cluster.delete(pod, None if asked is None else int(asked))
        # An ended pod is gone with the answer, as nothing of it has to be waited for.
        await asyncio.sleep(0)
        return web.json_response(self.show(pod))

    async def log(self, request: web.Request) -> web.StreamResponse:
        pod = self.pod_of(request)
        if pod is None:
            return pod_not_found(request.match_info["name"])
        name = request.query.get("container", pod.base.name)
        container = pod.container(name)
        if container is None:
            return failure(400, f"container {name} is not valid for pod {pod.name}")
        if reason := container.state.get("waiting", {}).get("reason"):
            return failure(400, f'container "{name}" in pod "{pod.name}" is waiting to start: {reason}')
        wanted = LogRequest.of_query(request.query)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        with suppress(ConnectionError):
            async for line in log_lines(pod, container, wanted):
                await response.write(line)
        return response

    async def events(self, request: web.Request) -> web.StreamResponse:
        namespace, fields = request.match_info["namespace"], _fields(request)

        def meant(event: Json) -> bool:
            involved = event["involvedObject"]
            return involved["namespace"] == namespace and fields.get("involvedObject.name") in {
                None,
                involved["name"],
            }

        if _asks(request, "watch"):
            return await self._watch(request, meant)
        return self._listed("EventList", [event for event in self._cluster.events if meant(event)])

    async def _watch(self, request: web.Request, meant: Callable[[Json], bool]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        seconds = float(request.query.get("timeoutSeconds") or WATCH_SECONDS)
        since = int(request.query.get("resourceVersion") or 0)
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(seconds):
                async for event in self._events_since(since):
                    if meant(event):
                        await response.write(json.dumps({"type": "ADDED", "object": event}).encode() + b"\n")
        return response

    async def _events_since(self, version: int) -> AsyncIterator[Json]:
        while True:
            changed = self._cluster.changed
            for event in list(self._cluster.events):
                if int(event["metadata"]["resourceVersion"]) > version:
                    version = int(event["metadata"]["resourceVersion"])
                    yield event
            await changed.wait()

    def _listed(self, kind: str, items: list[Json]) -> web.Response:
        metadata = {"resourceVersion": str(self._cluster.resource_version)}
        return web.json_response({"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items})


def _asks(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() in {"true", "1"}


def _fields(request: web.Request) -> dict[str, str]:
    selector = request.query.get("fieldSelector", "")
    return dict(part.split("=", 1) for part in selector.split(",") if "=" in part)


def _of_json_patch(operations: list[Any]) -> dict[str, dict[str, str | None]]:
    changes: dict[str, dict[str, str | None]] = {"labels": {}, "annotations": {}}
    for operation in operations:
        _, _, kind, *key = operation["path"].split("/")
        value = None if operation["op"] == "remove" else operation["value"]
        if key:
            changes[kind][key[0].replace("~1", "/").replace("~0", "~")] = value
        else:
            changes[kind] |= value or {}
    return changes
