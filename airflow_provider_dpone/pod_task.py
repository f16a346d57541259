"""What the operators of the Kubernetes backend share: a pod of a pack, ended with its task, and never taken over.

Airflow's KubernetesPodOperator starts the pod, shows its log and cleans up. What becomes of the task is judged here from
what was seen of the pod, whatever the operator itself has made of it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import unwrap
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from airflow_provider_dpone.kubernetes_calls import (
    REQUEST_TIMEOUT_SECONDS,
    WAITS,
    call_repeatedly,
    find_refusal,
    is_gone,
    origin_of,
    told,
)
from airflow_provider_dpone.leftover_pods import delete_pod, end_leftover_pods
from airflow_provider_dpone.literal_environment import LiteralEnvironment
from airflow_provider_dpone.pod_kwargs import operator_arguments
from airflow_provider_dpone.pod_manager import OutcomePodManager
from airflow_provider_dpone.pod_security import complete_pod
from airflow_provider_dpone.pod_status import exit_code_of, has_ended, is_running, reason_of
from airflow_provider_dpone.pod_trigger import DponePodTrigger
from airflow_provider_dpone.version_compat import AirflowException, TaskDeferred
from dpone_contract.errors import InterruptedRunError, PodRefusedError
from dpone_contract.pod import DEADLINE_AFTER_TIMEOUT_SECONDS, ON_FINISH_ACTION, PodArguments

# Between Airflow's request to stop and its kill there may be a few seconds only.
_KILL_WAITS = (0.5, 1)
_KILL_ANSWER_SECONDS = 5


@dataclass(frozen=True)
class _Verdict:
    result: Any
    failure: Exception | None

    def give(self) -> Any:
        if self.failure is not None:
            raise self.failure from None
        return self.result


class PodTask(LiteralEnvironment, KubernetesPodOperator):
    """Runs one pod as `settings` (plain JSON of `PodArguments`) say; further arguments are those of Airflow's operator."""

    template_fields: Sequence[str] = ("env_vars",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"env_vars": "json"}
    ui_color = "#dcecf5"

    def __init__(self, *, settings: Mapping[str, Any], env_vars: dict[str, str], **kwargs: Any) -> None:
        pod = PodArguments.model_validate_json(json.dumps(settings))
        # What the pack says goes over whatever else is said.
        super().__init__(**{**kwargs, **operator_arguments(pod)})
        self.pod_arguments = pod
        # Airflow's operator would make it a list of objects, which cannot be rendered one by one.
        self.env_vars = env_vars
        # Its argument for this has changed its name between releases.
        self.reattach_on_restart = self.durable = False
        self.own_pod: k8s.V1Pod | None = None
        self.seen_pod: k8s.V1Pod | None = None
        self.pod_is_gone = False
        self.pod_was_cleaned = False
        self._told: str | None = None
        self._verdict: _Verdict | None = None

    @abstractmethod
    def judge(self, context: Any, failure: Exception | None) -> Any:
        """Give the task's result, or raise, by what was seen; `failure` is what Airflow's operator ended with."""

    def execute(self, context: Any) -> Any:
        """Run the pod to its end, or until it is handed to the triggerer, and judge it; errors as in `judge`."""
        # Airflow's guard against operators that are called by others takes a call by a subclass for one.
        return self._watch(context, lambda: unwrap(KubernetesPodOperator.execute)(self, context))

    def trigger_reentry(self, context: Any, event: dict[str, Any]) -> Any:
        """Judge the pod once the triggerer has seen its end; what the triggerer says of it is no evidence."""
        return self._watch(context, lambda: self._re_enter(context, event))

    def _re_enter(self, context: Any, event: dict[str, Any]) -> None:
        self.own_pod = k8s.V1Pod(metadata=k8s.V1ObjectMeta(name=event["name"], namespace=event["namespace"]))
        self.look_at(self.own_pod)
        if self.pod_is_gone:
            return
        if event.get("status") in ("timeout", "error"):
            self._told = str(event.get("message") or "").partition("\n")[0] or None
        pod = self.seen_pod
        if event.get("status") == "timeout" and pod is not None and is_running(pod, self.base_container_name):
            # Its log and its outcome are read while it ends.
            self._end(pod, "the task has run out of time")
        super().trigger_reentry(context, event)

    def _watch(self, context: Any, run: Callable[[], Any]) -> Any:
        failure: Exception | None = None
        try:
            run()
        except TaskDeferred:
            raise
        except Exception as error:  # noqa: BLE001  the boundary to Airflow's operator, whose word is not the judgement
            failure = error
            self._told = self._told or told(origin_of(error))
            self.log.info("Airflow's pod operator ended with %s", told(error))
        # A pod that has ended already when it is to be deferred comes here twice.
        self._verdict = self._verdict or self._find_verdict(context, failure)
        return self._verdict.give()

    def _find_verdict(self, context: Any, failure: Exception | None) -> _Verdict:
        if self.own_pod is not None and not self.pod_was_cleaned:
            self._leave(self.own_pod)
        try:
            return _Verdict(self.judge(context, failure), None)
        except Exception as error:  # noqa: BLE001  whatever Airflow is to be told
            return _Verdict(None, error)

    def _leave(self, pod: k8s.V1Pod) -> None:
        # Where Airflow's operator has not cleaned up: nothing of an attempt goes on when it has been judged.
        if self.seen_pod is None or not has_ended(self.seen_pod, self.base_container_name):
            self.look_at(pod)
        if self.seen_pod is not None and not self.pod_is_gone:
            self._end_unless_ended(self.seen_pod)

    def _end_unless_ended(self, pod: k8s.V1Pod) -> None:
        # Also one that is to be kept: kept is what has ended.
        if not has_ended(pod, self.base_container_name):
            self._end(pod, "nobody watches it any more")

    @cached_property
    def pod_manager(self) -> OutcomePodManager:
        """Airflow's, with bounded ends."""
        return OutcomePodManager(kube_client=self.client, callbacks=self.callbacks)

    def build_pod_request_obj(self, context: Any = None, **kwargs: Any) -> k8s.V1Pod:
        """Build the pod, and complete it by what Airflow's operator has no argument for in all of its releases."""
        env_vars, template = self.env_vars, self.pod_template_file
        if template is not None and not Path(template).is_file():
            # Airflow's operator would go on without it.
            raise AirflowException(f"the pod template {template} is not on this worker")
        try:
            built = super().build_pod_request_obj(context, **kwargs)
        finally:
            self.env_vars = env_vars
        if built.spec.active_deadline_seconds is None and self.execution_timeout is not None:
            seconds = ceil(self.execution_timeout.total_seconds())
            built.spec.active_deadline_seconds = seconds + DEADLINE_AFTER_TIMEOUT_SECONDS
        return complete_pod(built, self.pod_arguments, env_vars, self.base_container_name)

    @staticmethod
    def _get_ti_pod_labels(context: Any = None, include_try_number: bool = True) -> dict[str, str]:
        # Of a name without a Latin letter or a digit Airflow makes a label that Kubernetes refuses, with a dash before its hash.
        labels = KubernetesPodOperator._get_ti_pod_labels(context, include_try_number)
        return {name: text.lstrip("-") for name, text in labels.items()}

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Any) -> k8s.V1Pod:
        """Start this attempt's own pod, once those of earlier attempts are ended."""
        labels = self._get_ti_pod_labels(context, include_try_number=False)
        end_leftover_pods(self.client, pod_request_obj.metadata.namespace, labels)
        self.own_pod = super().get_or_create_pod(pod_request_obj, context)
        return self.own_pod

    def find_pod(self, *_: Any, **__: Any) -> k8s.V1Pod | None:
        """Give this attempt's own pod as it is now.

        Airflow's operator asks by labels, and takes, or even ends, the pod of another attempt that starts at the same time.
        """
        return None if self.own_pod is None else self.pod_manager.read_pod(self.own_pod)

    def defer(self, *, trigger: Any, **how: Any) -> NoReturn:
        """Wait by a trigger that sees every end of a pod."""
        if isinstance(trigger, KubernetesPodTrigger):
            arguments = trigger.serialize()[1]
            # Not what a DAG's default_args say: a task that is ended leaves no pod at work.
            kill = {"on_kill_action": "delete_pod"} if "on_kill_action" in arguments else {}
            trigger = DponePodTrigger(**{**arguments, **kill})
        super().defer(trigger=trigger, **how)

    def process_pod_deletion(self, pod: k8s.V1Pod, *, reraise: bool = True) -> Any:
        """Look at a pod once more before it may be deleted."""
        if pod is not None:
            self.look_at(pod)
            # One that was gone before is not gone for being cleaned up.
            self.pod_was_cleaned = not self.pod_is_gone
        deleted = super().process_pod_deletion(pod, reraise=reraise)
        kept = (
            pod is not None and (self.pod_arguments.on_finish_action or ON_FINISH_ACTION) != ON_FINISH_ACTION
        )
        if kept and self.seen_pod is not None and not self.pod_is_gone:
            self._end_unless_ended(self.seen_pod)
        return deleted

    def on_kill(self) -> None:
        """End the pod, in bounded time; the run in it has the pod's grace to release what it has not started."""
        self._killed = True
        # Airflow 2 raises an error of its own after this, which is not ours to replace.
        self.log.error(
            "%s",
            InterruptedRunError(
                "Airflow ends this task, and its pod with it",
                where=f"task {self.task_id}",
                next_step="clear the task to run it again; committed chunks will be skipped",
            ),
        )
        pod = self.pod or self.own_pod or self.pod_request_obj
        if pod is not None:
            self._end(pod, "Airflow ends the task", _KILL_WAITS, _KILL_ANSWER_SECONDS)

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

    def exit_code(self) -> int | None:
        """How the pod's command ended, where that is known."""
        return None if self.seen_pod is None else exit_code_of(self.seen_pod, self.base_container_name)

    def why_ended(self, otherwise: str | None = None) -> str | None:
        """Why there is no good end, by what is known best: Airflow's kill, the pod's status, `otherwise`, what was told."""
        if self._killed:
            return "Airflow ended the task, and its pod with it"
        reason = None if self.seen_pod is None else reason_of(self.seen_pod, self.base_container_name)
        if reason is not None:
            return reason
        if self.pod_is_gone and not self.pod_was_cleaned:
            return "the pod is gone, and what it left with it"
        return otherwise or self._told

    def find_refusal(self, error: BaseException | None) -> PodRefusedError | None:
        """What a retry would meet again, if that is why the task fails."""
        refusal = None if self._killed else find_refusal(error)
        if refusal is not None:
            refusal.where = f"task {self.task_id}"
        return refusal

    def _end(
        self,
        pod: k8s.V1Pod,
        why: str,
        waits: tuple[float, ...] = WAITS,
        answer_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        self.log.warning("the pod %s is ended: %s", pod.metadata.name, why)
        name, namespace, grace = pod.metadata.name, pod.metadata.namespace, self.termination_grace_period
        try:
            delete_pod(self.client, name, namespace, grace, waits=waits, answer_seconds=answer_seconds)
        except (ApiException, HTTPError, OSError) as error:
            self.log.warning("the pod %s could not be ended: %s", name, told(error))
