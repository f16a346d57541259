"""`DponeProcessOperator`: one `dpone run` as a child process of the worker, judged by its own outcome."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_dpone.child_task import ChildTask
from airflow_provider_dpone.judgement import Evidence, judge_run
from dpone_contract.environment import EnvVar
from dpone_contract.outcome import OUTCOME_SIZE_LIMIT_BYTES


class DponeProcessOperator(ChildTask):
    """Runs `dpone run --process ...` as a child process and fails unless its outcome says that the work is done.

    `process` is the encoded process; `env_vars` (templated) its environment beside the worker's own; `item_labels` names
    the items of a mapped task in their order; `command` replaces the `dpone` that stands beside the worker's Python, or
    else is found on PATH.
    """

    def __init__(
        self,
        *,
        process: str,
        env_vars: dict[str, str],
        item_labels: Sequence[str] = (),
        command: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.process = process
        self.env_vars = env_vars
        self.item_labels = item_labels
        self.command = command

    def execute(self, context: Any) -> dict[str, object]:
        """Run the process and give its outcome document, which Airflow keeps as XCom `return_value`.

        Errors: as in `judge_run`.
        """
        return judge_run(self._run(), self.env_vars, context)

    def _run(self) -> Evidence:
        command = [*(self.command or _default_command()), "run", "--process", self.process]
        with _private_file() as path:
            try:
                child = self.start_command(command, {**self.env_vars, EnvVar.OUTCOME_PATH.value: str(path)})
            except OSError as error:
                reason = f"{command[0]} could not be started ({error.strerror})"
                return Evidence(None, reason=f"{reason}; install dpone-runtime where the Airflow worker runs")
            exit_code = self.finish_command(child)
            return Evidence(_read_bounded(path), exit_code)


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
