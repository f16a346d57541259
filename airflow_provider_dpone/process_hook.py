"""A hook in a child process of the worker: its command runs once, before all items or after them, judged by its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_dpone.child_task import ChildTask
from airflow_provider_dpone.judgement import task_failure
from dpone_contract.errors import HookFailedError


class DponeProcessHookOperator(ChildTask):
    """Runs the command of a hook as a child process of the worker."""

    def __init__(self, *, command: Sequence[str], env_vars: dict[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command
        self.env_vars = env_vars

    def execute(self, context: Any) -> None:  # noqa: ARG002  Airflow's signature
        """Run the command; Errors: AirflowException unless it ends with exit code 0."""
        try:
            child = self.start_command(self.command, self.env_vars)
        except OSError as error:
            raise task_failure(
                hook_failure(self.task_id, f"it could not be started: {error.strerror}")
            ) from None
        exit_code = self.finish_command(child)
        if exit_code != 0:
            raise task_failure(hook_failure(self.task_id, f"it ended with {exit_code}"))


def hook_failure(task_id: str, reason: str) -> HookFailedError:
    """Give the error of a hook, whatever it ran in."""
    return HookFailedError(
        f"the hook's command failed: {reason}",
        where=f"task {task_id}",
        next_step="read its log above, mend the cause and clear this task",
    )
