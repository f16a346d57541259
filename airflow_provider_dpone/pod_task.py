"""What the operators of the Kubernetes backend share: a pod of a pack, ended with its task, and never taken over.

Airflow's KubernetesPodOperator starts the pod, shows its log and cleans up. What becomes of the task is judged here from
what was seen of the pod, whatever the operator itself has made of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from inspect import unwrap
from typing import Any, ClassVar

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from airflow_provider_dpone.kubernetes_calls import (
    REQUEST_TIMEOUT_SECONDS,
    call_repeatedly,
    find_refusal,
    is_gone,
    told,
)
from airflow_provider_dpone.leftover_pods import delete_pod, end_leftover_pods
from airflow_provider_dpone.literal_environment import LiteralEnvironment
from airflow_provider_dpone.pod_kwargs import operator_arguments
from airflow_provider_dpone.pod_manager import OutcomePodManager
from airflow_provider_dpone.pod_security import complete_pod
from airflow_provider_dpone.pod_status import exit_code_of, is_running, reason_of
from dpone_contract.errors import PodRefusedError
from dpone_contract.pod import PodArguments

# Between Airflow's request to stop and its kill there may be a few seconds only.
_KILL_WAITS = (0.5, 1)


class PodTask(LiteralEnvironment, KubernetesPodOperator):
    """Runs one pod as `settings` (plain JSON of `PodArguments`) say; further arguments are those of Airflow's operator."""

    template_fields: Sequence[str] = ("env_vars",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"env_vars": "json"}
    ui_color = "#dcecf5"

    def __init__(self, *, settings: Mapping[str, Any], env_vars: dict[str, str], **kwargs: Any) -> None:
        pod = PodArguments.model_validate_json(json.dumps(settings))
        super().__init__(**{**operator_arguments(pod), **kwargs})
        self.pod_arguments = pod
        # Airflow's operator would make it a list of objects, which cannot be rendered one by one.
        self.env_vars = env_vars
        # Its argument for this has changed its name between releases.
        self.reattach_on_restart = self.durable = False
        self.own_pod: k8s.V1Pod | None = None
        self.seen_pod: k8s.V1Pod | None = None
        self.pod_is_gone = False

    @cached_property
    def pod_manager(self) -> OutcomePodManager:
        """Airflow's, with bounded ends."""
        return OutcomePodManager(kube_client=self.client)

    def run_pod(self, context: Any) -> Any:
        """Let Airflow's operator run the pod, or defer."""
        # Its guard against operators that are called by others takes a call by a subclass for one.
        return unwrap(KubernetesPodOperator.execute)(self, context)

    def build_pod_request_obj(self, context: Any = None, **kwargs: Any) -> k8s.V1Pod:
        """Build the pod, and complete it by what Airflow's operator has no argument for in all of its releases."""
        env_vars = self.env_vars
        try:
            built = super().build_pod_request_obj(context, **kwargs)
        finally:
            self.env_vars = env_vars
        return complete_pod(built, self.pod_arguments, env_vars)

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Any) -> k8s.V1Pod:
        """Start this attempt's own pod, once those of earlier attempts are ended."""
        labels = self._get_ti_pod_labels(context, include_try_number=False)
        end_leftover_pods(self.client, pod_request_obj.metadata.namespace, labels)
        self.own_pod = super().get_or_create_pod(pod_request_obj, context)
        return self.own_pod

    def process_pod_deletion(self, pod: k8s.V1Pod, *, reraise: bool = True) -> Any:
        """Look at a pod once more before it may be deleted."""
        if pod is not None:
            self.look_at(pod)
        return super().process_pod_deletion(pod, reraise=reraise)

    def on_kill(self) -> None:
        """End the pod, in bounded time; the run in it has the pod's grace to release what it has not started."""
        self._killed = True
        pod = self.pod or self.pod_request_obj
        if pod is None:
            return
        try:
            grace = self.termination_grace_period
            delete_pod(self.client, pod.metadata.name, pod.metadata.namespace, grace, _KILL_WAITS)
        except (ApiException, HTTPError, OSError) as error:
            self.log.warning("the pod %s could not be ended: %s", pod.metadata.name, told(error))

    def look_at(self, pod: k8s.V1Pod) -> None:
        """Remember a pod as it is now, for as far as Kubernetes still knows it."""
        try:
            self.seen_pod = call_repeatedly(
                lambda: self.client.read_namespaced_pod(
                    pod.metadata.name, pod.metadata.namespace, _request_timeout=REQUEST_TIMEOUT_SECONDS
                ),
                "look at the pod",
            )
        except (ApiException, HTTPError, OSError) as error:
            self.pod_is_gone = is_gone(error)

    def look_at_own_pod(self) -> None:
        """Look at this attempt's pod, if it was made and has not been seen since."""
        if self.own_pod is not None and self.seen_pod is None:
            self.look_at(self.own_pod)

    def end_running_pod(self) -> None:
        """End this attempt's pod where it still runs; its log and its outcome are read while it ends."""
        self.look_at_own_pod()
        if self.seen_pod is not None and is_running(self.seen_pod, self.base_container_name):
            self.log.warning("the task has run out of time; its pod is ended")
            meta = self.seen_pod.metadata
            delete_pod(self.client, meta.name, meta.namespace, self.termination_grace_period)

    def exit_code(self) -> int | None:
        """How the pod's command ended, where that is known."""
        return None if self.seen_pod is None else exit_code_of(self.seen_pod, self.base_container_name)

    def why_ended(self, error: BaseException | None) -> str | None:
        """Why there is no good end, as far as it is known: from Airflow, the pod's status, or the error that was met."""
        if self._killed:
            return "Airflow ended the task, and its pod with it"
        reason = None if self.seen_pod is None else reason_of(self.seen_pod, self.base_container_name)
        if reason is not None:
            return reason
        if self.pod_is_gone or is_gone(error):
            return "the pod is gone, and what it left with it"
        return None if error is None else told(error)

    def find_refusal(self, error: BaseException | None) -> PodRefusedError | None:
        """What a retry would meet again, if that is why the task fails."""
        refusal = None if self._killed else find_refusal(error)
        if refusal is not None:
            refusal.where = f"task {self.task_id}"
        return refusal
