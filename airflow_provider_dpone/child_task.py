"""What the operators of the process backend share: a command run as a child process, with the worker's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow_provider_dpone.child_process import ChildProcess
from airflow_provider_dpone.literal_environment import LiteralEnvironment
from airflow_provider_dpone.task_env import PROVIDER_OWNED
from airflow_provider_dpone.version_compat import BaseOperator
from dpone_contract.environment import EnvVar

KILL_GRACE = timedelta(seconds=30)


class ChildTask(LiteralEnvironment, BaseOperator):
    """Runs commands as child processes; ends them when Airflow ends it."""

    template_fields: Sequence[str] = ("env_vars",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"env_vars": "json"}
    ui_color = "#dcecf5"

    # Kept on the class, so that neither Airflow's serializer nor a copy of the operator meets a process.
    _child: ChildProcess | None = None

    def __init__(self, **kwargs: Any) -> None:
        # Needed: from a class without one Airflow 3.3 takes no inlets, rather than none of them, for a mapped task's default.
        super().__init__(**kwargs)

    def on_kill(self) -> None:
        """End the child and its process group: asked first, killed after 30 seconds.

        Airflow 3 may kill this process sooner; then the run ends itself, since its parent is gone.
        """
        if self._child is not None:
            self._child.end(KILL_GRACE)

    def start_command(self, command: Sequence[str], env: Mapping[str, str]) -> ChildProcess:
        """Start a command with the worker's environment and `env` over it.

        Errors: OSError when it cannot be started.
        """
        whole = {**worker_env(os.environ), **env, EnvVar.PARENT_PID.value: str(os.getpid())}
        return ChildProcess(command, whole, self._log_line)

    def finish_command(self, child: ChildProcess) -> int:
        """Wait for a started command and give its exit code, a signal negative."""
        with child:
            self._child = child
            try:
                child.wait()
                return child.exit_code()
            except BaseException:
                # A timeout or an interruption: asked to stop, a run releases what it has not started.
                child.end(KILL_GRACE)
                raise
            finally:
                self._child = None

    def _log_line(self, line: str) -> None:
        self.log.info("%s", line)


def worker_env(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the part of a worker's environment that a run may see.

    Airflow's own settings (its database and keys among them) stay behind, connections pass. A variable whose name the
    provider owns is never inherited.
    """
    return {
        name: value
        for name, value in environ.items()
        if name not in PROVIDER_OWNED
        and (name.startswith("AIRFLOW_CONN_") or not name.lstrip("_").startswith("AIRFLOW"))
    }
