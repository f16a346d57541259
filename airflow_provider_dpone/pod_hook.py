"""A hook in a pod: its command runs once, before all items or after them, judged by its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_dpone.judgement import task_failure
from airflow_provider_dpone.pod_security import literal
from airflow_provider_dpone.pod_task import PodTask
from airflow_provider_dpone.process_hook import hook_failure


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

    def judge(self, context: Any, failure: Exception | None) -> None:  # noqa: ARG002  it has no document to keep
        """Errors: AirflowException unless the command was seen to end with exit code 0."""
        exit_code = self.exit_code()
        if exit_code == 0:
            return
        ended = None if exit_code is None else f"it ended with {exit_code}"
        parts = [ended, self.why_ended()]
        reason = ", ".join(part for part in parts if part) or "its end was not seen"
        raise task_failure(self.find_refusal(failure) or hook_failure(self.task_id, reason))
