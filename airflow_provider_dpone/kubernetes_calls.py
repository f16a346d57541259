"""Calls of the Kubernetes API that the provider makes itself: bounded in time, repeated where the API is merely busy."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from airflow_provider_dpone.version_compat import AirflowException
from dpone_contract.errors import PodRefusedError

# Seconds before each further try.
WAITS: tuple[float, ...] = (1, 2, 4, 8)
# Where giving up ends a pod that runs.
PATIENT_WAITS: tuple[float, ...] = (*WAITS, 15, 30)
REQUEST_TIMEOUT_SECONDS = 30
FORBIDDEN, NOT_FOUND, TAKEN, INVALID = 403, 404, 409, 422
# 410: the API has forgotten the state that a list began with. 0: no answer at all, as for a broken exec.
_BUSY = frozenset({0, 408, 410, 429, 500, 502, 503, 504})
# A namespace that is full denies a pod by the same status, and has room for it later.
_FULL = "exceeded quota"
_HANDSHAKE = "Handshake status "
_BODY_LIMIT = 300

Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


def call_repeatedly(call: Callable[[], Answer], what: str, waits: tuple[float, ...] = WAITS) -> Answer:
    """Give what a call answers; repeated after each wait while the API is busy or out of reach.

    Errors: the last one of the call.
    """
    for wait in waits:
        try:
            return call()
        except (ApiException, HTTPError, OSError) as error:
            if isinstance(error, ApiException) and status_of(error) not in _BUSY:
                raise
            _log.warning("Kubernetes could not %s, and is asked again: %s", what, told(error))
        time.sleep(wait)
    return call()


def status_of(error: ApiException) -> int:
    """Give the HTTP status of an API's refusal, also of an exec, which the client reports by its text."""
    reason = str(error.reason or "")
    if not error.status and reason.startswith(_HANDSHAKE):
        number = reason.removeprefix(_HANDSHAKE)[:3]
        return int(number) if number.isdecimal() else 0
    return int(error.status or 0)


def told(error: BaseException) -> str:
    """Give one bounded line of an error, without the headers and the body that the client adds."""
    if isinstance(error, ApiException):
        message = _message(error.body) or str(error.reason or "no answer").split(" -+-+- ", maxsplit=1)[0]
        return f"HTTP {status_of(error)}: {message}"[:_BODY_LIMIT]
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no text'}"[:_BODY_LIMIT]


def find_refusal(error: BaseException | None) -> PodRefusedError | None:
    """Find, in an error and in what it came from, the refusal that a retry would meet again."""
    for link in _chain(error):
        if isinstance(link, ApiException) and status_of(link) in (FORBIDDEN, INVALID):
            if _FULL in told(link):
                return None
            denied = status_of(link) == FORBIDDEN
            return PodRefusedError(
                f"Kubernetes {'does not allow it' if denied else 'finds the pod invalid'}: {told(link)}",
                next_step="grant Airflow's service account what is denied here, or mend what the namespace does not admit"
                if denied
                else "correct the workload's pod settings and build the pack again",
            )
    return None


def origin_of(error: Exception) -> BaseException:
    """Give what an error began with: Airflow's operator cleans up after an error, and fails once more while it does."""
    links = [link for link in _chain(error) if isinstance(link, AirflowException | ApiException)]
    return links[-1] if links else error


def is_gone(error: BaseException | None) -> bool:
    """Say whether an error, or what it came from, is that a pod does not exist any more."""
    return any(isinstance(link, ApiException) and status_of(link) == NOT_FOUND for link in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _message(body: object) -> str | None:
    try:
        document = json.loads(body) if isinstance(body, str | bytes) else None
    except ValueError:
        return None
    message = document.get("message") if isinstance(document, dict) else None
    return message if isinstance(message, str) else None
