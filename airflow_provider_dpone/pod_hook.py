"""A hook in a pod: its command runs once, before all items or after them, judged by its exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubernetes.client import models as k8s

from airflow_provider_dpone.judgement import task_failure
from airflow_provider_dpone.pod_security import literal
from airflow_provider_dpone.pod_task import PodTask
from airflow_provider_dpone.process_hook import hook_failure
from airflow_provider_dpone.version_compat import TaskDeferred


class DponePodHookOperator(PodTask):
    """Runs the command of a hook in a pod with the image, secrets and security of its process."""

    def __init__(
        self, *, settings: Mapping[str, Any], command: Sequence[str], env_vars: dict[str, str], **kwargs: Any
    ) -> None:
        super().__init__(
            settings=settings,
            env_vars=env_vars,
            **{
                **kwargs,
                "cmds": [literal(part) for part in command],
                "arguments": [],
                "do_xcom_push": False,
            },
        )

    def execute(self, context: Any) -> None:
        """Run the pod; Errors: AirflowException unless its command was seen to end with exit code 0."""
        self._watch(lambda: self.run_pod(context))

    def trigger_reentry(self, context: Any, event: dict[str, Any]) -> None:
        """Judge the pod once the triggerer has seen its end."""
        self.own_pod = k8s.V1Pod(metadata=k8s.V1ObjectMeta(name=event["name"], namespace=event["namespace"]))
        if event.get("status") == "timeout":
            self.end_running_pod()
        self._watch(lambda: super(DponePodHookOperator, self).trigger_reentry(context, event))

    def _watch(self, run: Callable[[], Any]) -> None:
        failure: Exception | None = None
        try:
            run()
        except TaskDeferred:
            raise
        except Exception as error:  # noqa: BLE001  the boundary to Airflow's operator, whose word is not the judgement
            failure = error
        self.look_at_own_pod()
        exit_code = self.exit_code()
        if exit_code == 0:
            return
        ended = None if exit_code is None else f"it ended with {exit_code}"
        parts = [ended, self.why_ended(failure)]
        reason = ", ".join(part for part in parts if part) or "its end was not seen"
        raise task_failure(self.find_refusal(failure) or hook_failure(self.task_id, reason)) from None
