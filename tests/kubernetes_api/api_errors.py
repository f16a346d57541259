"""Answers of the API that tell of a failure, as `Status` documents."""

from __future__ import annotations

from aiohttp import web

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "AlreadyExists",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def failure(status: int, message: str) -> web.Response:
    """Give a failure; one of too many requests says when to come again, as a real API does."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(status, "Unknown"),
        "code": status,
    }
    headers = {"Retry-After": "1"} if status == 429 else {}
    return web.json_response(document, status=status, headers=headers)


def pod_not_found(name: str) -> web.Response:
    """Give the answer about a pod that is not there."""
    return failure(404, f'pods "{name}" not found')
