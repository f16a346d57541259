"""`DponeProcessOperator`: one `dpone run` as a child process of the worker, judged by its own outcome."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from airflow_provider_dpone.child_process import ChildProcess
from airflow_provider_dpone.outcomes import ExpectedOutcome, require_passed
from airflow_provider_dpone.version_compat import AirflowException, AirflowFailException, BaseOperator
from dpone_contract.environment import EnvVar
from dpone_contract.errors import DponeError, ExitCode, OutcomeInvalidError
from dpone_contract.mapping_item import parse_item
from dpone_contract.outcome import OUTCOME_SIZE_LIMIT_BYTES, parse_outcome

KILL_GRACE = timedelta(seconds=30)
FAILED_OUTCOME_KEY = "dpone_outcome"

_PROVIDER_OWNED = frozenset(name.value for name in EnvVar)


class DponeProcessOperator(BaseOperator):
    """Runs `dpone run --process ...` as a child process and fails unless its outcome says that the work is done.

    `process` is the encoded process; `env_vars` (templated) its environment beside the worker's own; `labels` names the
    items of a mapped task in their order; `command` replaces the `dpone` that stands beside the worker's Python, or
    else is found on PATH.
    """

    template_fields: Sequence[str] = ("env_vars",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"env_vars": "json"}
    ui_color = "#dcecf5"

    def __init__(
        self,
        *,
        process: str,
        env_vars: dict[str, str],
        labels: Sequence[str] = (),
        command: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.process = process
        self.env_vars = env_vars
        self.labels = labels
        self.command = command

    # Kept on the class, so that neither Airflow's serializer nor a copy of the operator meets a process.
    _child: ChildProcess | None = None

    @property
    def dpone_label(self) -> str:
        """The label of this task's item, for `map_index_template`; a task that is not mapped has none."""
        item = self.env_vars.get(EnvVar.MAPPING_ITEM)
        return self.labels[parse_item(item).item_index] if item is not None else ""

    def execute(self, context: Any) -> dict[str, object]:
        """Run the process and give its outcome document, which Airflow keeps as XCom `return_value`.

        Errors: AirflowFailException where a retry cannot help (the run was refused), else AirflowException.
        """
        with _private_file() as path:
            exit_code = self._run(self.command or _default_command(), path)
            data = _read_bounded(path)
        try:
            outcome = require_passed(data, ExpectedOutcome.of_env(self.env_vars), exit_code)
        except DponeError as error:
            self._push_failed(context, data)
            if exit_code == ExitCode.REFUSED:
                raise AirflowFailException(str(error)) from error
            raise AirflowException(str(error)) from error
        return outcome.to_document()

    def on_kill(self) -> None:
        """End the child and its process group: asked first, killed after 30 seconds.

        Airflow 3 may kill this process sooner; then the run ends itself, since its parent is gone.
        """
        if self._child is not None:
            self._child.end(KILL_GRACE)

    def _run(self, command: Sequence[str], outcome_path: Path) -> int:
        env = {
            **worker_env(os.environ),
            **self.env_vars,
            EnvVar.OUTCOME_PATH.value: str(outcome_path),
            EnvVar.PARENT_PID.value: str(os.getpid()),
        }
        try:
            child = ChildProcess([*command, "run", "--process", self.process], env, self._log_line)
        except OSError as error:
            raise AirflowException(
                str(
                    OutcomeInvalidError(
                        f"the command {command[0]} could not be started: {error.strerror}",
                        where=f"task {self.task_id}",
                        next_step="install dpone-runtime into the environment of the Airflow worker",
                    )
                )
            ) from error
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

    def _push_failed(self, context: Any, data: bytes | None) -> None:
        # Best effort: the task fails for the run's own reason, whatever becomes of this.
        try:
            context["ti"].xcom_push(key=FAILED_OUTCOME_KEY, value=parse_outcome(data or b"").to_document())
        except OutcomeInvalidError:
            return
        except Exception:  # noqa: BLE001  whatever Airflow's API raises
            self.log.warning("the failed outcome could not be kept as XCom")


def worker_env(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the part of a worker's environment that a run may see.

    Airflow's own settings (its database and keys among them) stay behind, connections pass. A variable whose name the
    provider owns is never inherited.
    """
    return {
        name: value
        for name, value in environ.items()
        if name not in _PROVIDER_OWNED
        and (name.startswith("AIRFLOW_CONN_") or not name.lstrip("_").startswith("AIRFLOW"))
    }


def _default_command() -> tuple[str, ...]:
    beside = Path(sys.executable).with_name("dpone")
    return (str(beside),) if beside.is_file() else (shutil.which("dpone") or "dpone",)


@contextmanager
def _private_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dpone-") as folder:
        yield Path(folder) / "outcome.json"


def _read_bounded(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(OUTCOME_SIZE_LIMIT_BYTES + 1)
    except OSError:
        return None
