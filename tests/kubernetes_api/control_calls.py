"""The calls by which a test speaks to the stand-in itself: orders, actions, secrets, and what has happened."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.kubernetes_api.cluster import Cluster
from tests.kubernetes_api.orders import Action, parse_order
from tests.kubernetes_api.pods import Pod

PREFIX = "/stand-in"


class ControlCalls:
    """One method a call."""

    def __init__(self, cluster: Cluster, audit: list[dict[str, Any]]) -> None:
        self._cluster = cluster
        self._audit = audit

    def routes(self) -> list[web.RouteDef]:
        """Give the routes, all below one prefix."""
        return [
            web.post(f"{PREFIX}/orders", self.add_order),
            web.delete(f"{PREFIX}/orders/{{number}}", self.lift_order),
            web.post(f"{PREFIX}/actions", self.act),
            web.put(f"{PREFIX}/secrets/{{namespace}}/{{name}}", self.put_secret),
            web.get(f"{PREFIX}/pods", self.pods),
            web.get(f"{PREFIX}/calls", self.calls),
            web.post(f"{PREFIX}/reset", self.reset),
        ]

    async def add_order(self, request: web.Request) -> web.StreamResponse:
        try:
            number = self._cluster.orders.add(parse_order(await request.json()))
        except (ValueError, TypeError, KeyError) as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response({"number": number})

    async def lift_order(self, request: web.Request) -> web.StreamResponse:
        self._cluster.orders.lift(int(request.match_info["number"]))
        return web.json_response({})

    async def act(self, request: web.Request) -> web.StreamResponse:
        document = await request.json()
        pods = self._cluster.pods(document["selector"])
        await self._cluster.act(Action(document["action"]), pods)
        return web.json_response({"pods": [pod.name for pod in pods]})

    async def put_secret(self, request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        self._cluster.secrets.setdefault(namespace, {})[name] = await request.json()
        return web.json_response({})

    async def pods(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response([self._facts(pod) for pod in self._cluster.history])

    async def calls(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(self._audit)

    async def reset(self, _request: web.Request) -> web.StreamResponse:
        await self._cluster.reset()
        self._audit.clear()
        return web.json_response({})

    def _facts(self, pod: Pod) -> dict[str, Any]:
        return {
            "gone": pod.gone,
            "runs_process": self._cluster.kubelet(pod).runs_process(),
            "log": [line.text for line in pod.lines],
            "document": pod.document(self._cluster.resource_version),
        }
