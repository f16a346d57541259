"""Airflow's pod manager, with what it lacks for an outcome: a bounded reading, and ends that are waited for with a bound."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import timedelta
from typing import Any

from airflow.providers.cncf.kubernetes.utils.pod_manager import PodManager
from airflow.providers.cncf.kubernetes.utils.xcom_sidecar import PodDefaults
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream
from websocket import WebSocketException

from airflow_provider_dpone.kubernetes_calls import (
    PATIENT_WAITS,
    REQUEST_TIMEOUT_SECONDS,
    TAKEN,
    call_repeatedly,
    status_of,
)
from airflow_provider_dpone.pod_status import has_ended, is_running, is_terminal, state_of
from dpone_contract.environment import POD_OUTCOME_PATH
from dpone_contract.outcome import OUTCOME_SIZE_LIMIT_BYTES

SIDECAR = PodDefaults.SIDECAR_CONTAINER_NAME
SIDECAR_START = timedelta(minutes=5)
SIDECAR_END = timedelta(seconds=30)
EXEC_LIMIT = timedelta(seconds=60)
_LOOK_SECONDS = 1
_READ = f"if [ -s {POD_OUTCOME_PATH} ]; then cat {POD_OUTCOME_PATH}; fi"
# The sidecar's shell is the first process of its container; where the pod shares its processes, it is found by its text.
_END = "kill -2 1 2>/dev/null || kill -2 $(pgrep -f trap)"


class OutcomePodManager(PodManager):
    """Starts and watches a pod like Airflow's own; gives the outcome as bytes, at most one more than the limit."""

    def run_pod_async(self, pod: k8s.V1Pod, **kwargs: Any) -> k8s.V1Pod:
        """Start a pod. Unlike Airflow's, it does not write the whole pod into the log where that fails."""
        body = self._client.api_client.sanitize_for_serialization(pod)
        tries = 0

        def create() -> k8s.V1Pod:
            nonlocal tries
            tries += 1
            try:
                return self._client.create_namespaced_pod(
                    namespace=pod.metadata.namespace, body=body, **kwargs
                )
            except ApiException as error:
                # The name is this attempt's alone: the answer to an earlier try was lost. Nobody else's pod is taken over.
                if status_of(error) == TAKEN and tries > 1:
                    return self.read_pod(pod)
                raise

        return call_repeatedly(create, "start the pod")

    def read_pod(self, pod: k8s.V1Pod) -> k8s.V1Pod:
        """Look at a pod; an API that is away for a minute does not end what runs."""
        return call_repeatedly(
            lambda: self._client.read_namespaced_pod(
                pod.metadata.name, pod.metadata.namespace, _request_timeout=REQUEST_TIMEOUT_SECONDS
            ),
            "look at the pod",
            PATIENT_WAITS,
        )

    def await_xcom_sidecar_container_start(
        self, pod: k8s.V1Pod, timeout: int = 900, log_interval: int = 30
    ) -> None:
        """Nothing: `read_outcome` waits itself, and not for a pod that has ended."""

    def await_pod_completion(
        self,
        pod: k8s.V1Pod,
        istio_enabled: bool = False,  # noqa: ARG002  Airflow's signature
        container_name: str = "base",
        do_xcom_push: bool = False,  # noqa: ARG002  Airflow's signature
    ) -> k8s.V1Pod:
        """Wait until the run has ended, and then a little for the rest of its pod; not for one that has not begun."""
        deadline: float | None = None
        while True:
            found = self.read_pod(pod)
            if is_terminal(found):
                return found
            if not is_running(found, container_name):
                if not has_ended(found, container_name):
                    return found
                deadline = deadline or time.monotonic() + SIDECAR_END.total_seconds()
                if time.monotonic() > deadline:
                    return found
            time.sleep(_LOOK_SECONDS)

    def await_run(self, pod: k8s.V1Pod, container: str) -> k8s.V1Pod:
        """Give the pod once its outcome may be read: the run is not under way, and the sidecar has had time to start."""
        deadline: float | None = None
        while True:
            found = self.read_pod(pod)
            if not is_running(found, container):
                sidecar = state_of(found, SIDECAR)
                settled = sidecar is None or sidecar.waiting is None
                if settled or not has_ended(found, container) or is_terminal(found):
                    return found
                deadline = deadline or time.monotonic() + SIDECAR_START.total_seconds()
                if time.monotonic() > deadline:
                    return found
            time.sleep(_LOOK_SECONDS)

    def read_outcome(self, pod: k8s.V1Pod) -> bytes:
        """Give what the run left, nothing where it left nothing.

        Errors: of the Kubernetes API, once it has been asked repeatedly.
        """
        return call_repeatedly(lambda: self._run_in_sidecar(pod, _READ, required=True), "read the outcome")

    def end_sidecar(self, pod: k8s.V1Pod) -> None:
        """Let the pod end; errors as in `read_outcome`."""
        call_repeatedly(lambda: self._run_in_sidecar(pod, _END, required=False), "end the sidecar")

    def _run_in_sidecar(self, pod: k8s.V1Pod, script: str, *, required: bool) -> bytes:
        try:
            with closing(self._open_shell(pod, script)) as shell:
                data, whole = _read(shell)
        except WebSocketException as error:
            raise ConnectionError(f"the connection to the sidecar broke: {type(error).__name__}") from error
        if required and not whole:
            raise ConnectionError("the sidecar did not give the outcome to its end")
        return data

    def _open_shell(self, pod: k8s.V1Pod, script: str) -> Any:
        try:
            return stream(
                self._client.connect_get_namespaced_pod_exec,
                pod.metadata.name,
                pod.metadata.namespace,
                container=SIDECAR,
                command=["/bin/sh", "-c", script],
                stdin=False,
                stdout=True,
                stderr=True,
                tty=False,
                binary=True,
                _preload_content=False,
            )
        except AttributeError as error:
            # A refused handshake has no body, and the client (36 for one) fails once more when it wants to read that.
            if isinstance(error.__context__, ApiException):
                raise error.__context__ from None
            raise


def _read(shell: Any) -> tuple[bytes, bool]:
    # As much as an outcome may have and one byte more; and whether the command has given all that it had to give.
    deadline = time.monotonic() + EXEC_LIMIT.total_seconds()
    data = bytearray()
    while shell.is_open() and len(data) <= OUTCOME_SIZE_LIMIT_BYTES:
        if time.monotonic() > deadline:
            raise TimeoutError("the sidecar does not answer")
        shell.update(timeout=1)
        if shell.peek_stdout():
            data += shell.read_stdout()
    if len(data) > OUTCOME_SIZE_LIMIT_BYTES:
        return bytes(data[: OUTCOME_SIZE_LIMIT_BYTES + 1]), True
    if shell.peek_stdout():
        data += shell.read_stdout()
    return bytes(data[: OUTCOME_SIZE_LIMIT_BYTES + 1]), _ended_well(shell)


def _ended_well(shell: Any) -> bool:
    try:
        return bool(shell.returncode == 0)
    except (TypeError, KeyError, ValueError):  # the connection ended without a word on how the command did
        return False
