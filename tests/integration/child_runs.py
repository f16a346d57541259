"""`dpone` as a child process of a test: started in a session of its own, watched, signalled, ended with all that it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

from dpone_contract.outcome import RunOutcome, parse_outcome
from tests.integration.fault_lane import FAULTS_VARIABLE, RELEASE
from tests.waiting import wait_until

MARK = "DPONE_TEST_MARK"
DPONE = Path(sys.executable).with_name("dpone")
Fault = tuple[str, int, str]
"""A step, a chunk, and what happens to the lane there."""


@dataclass(frozen=True)
class Finished:
    """A command that has ended. `outcome` is the document that it wrote, None where it wrote none."""

    exit_code: int
    stdout: str
    stderr: str
    outcome: RunOutcome | None

    @property
    def output(self) -> str:
        """Both streams."""
        return self.stdout + self.stderr

    @property
    def error_code(self) -> str | None:
        """The code of the outcome's error."""
        return self.outcome.error.code if self.outcome and self.outcome.error else None


class Run:
    """One `dpone` in a session of its own; its lanes carry the same mark in their environment.

    `folder` takes its output, its outcome and what its faults have to tell; `prefix` is a command that runs it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        faults: Sequence[Fault] | None = None,
        *,
        prefix: Sequence[str] = (),
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.folder = folder
        self._outcome_path = folder / "outcome.json"
        command = [str(DPONE)]
        if faults is not None:
            (folder / "faults.json").write_text(json.dumps(faults), encoding="utf-8")
            command = [sys.executable, "-m", "tests.integration.run_with_faults"]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DPONE_")}
        own = {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "DPONE_OUTCOME_PATH": str(self._outcome_path),
            FAULTS_VARIABLE: str(folder),
            MARK: self.mark,
        }
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*prefix, *command, *arguments],
                env={**inherited, **own, **environ},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def _stdout(self) -> Path:
        return self.folder / "stdout"

    @property
    def _stderr(self) -> Path:
        return self.folder / "stderr"

    def stderr(self) -> str:
        """What it has said so far."""
        return self._stderr.read_text(encoding="utf-8")

    def ended(self) -> bool:
        """Whether the command itself has ended."""
        return self.process.poll() is not None

    def finish(self, timeout: float = 60) -> Finished:
        """Wait for its end."""
        try:
            exit_code = self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"dpone did not end within {timeout} s: {self.stderr()}") from error
        outcome = None
        if self._outcome_path.exists():
            outcome = parse_outcome(self._outcome_path.read_bytes())
        return Finished(exit_code, self._stdout.read_text(encoding="utf-8"), self.stderr(), outcome)

    def wait_for(self, step: str, chunk_index: int) -> int:
        """Wait until a fault was reached; give the lane's process id."""
        return self.told_at(step, chunk_index)[0]

    def told_at(self, step: str, chunk_index: int) -> tuple[int, tuple[int, ...]]:
        """Wait until a fault was reached; give the lane's process id, and its sessions' at the server."""
        reached = self.folder / f"{step}.{chunk_index}"
        wait_until(lambda: reached.exists() or self.ended(), 60, f"{step} of chunk {chunk_index}")
        assert reached.exists(), f"dpone ended before {step} of chunk {chunk_index}: {self.stderr()}"
        told = json.loads(reached.read_text(encoding="utf-8"))
        return told["lane"], tuple(told["sessions"])

    def reached(self, step: str, chunk_index: int) -> bool:
        """Whether a fault was reached."""
        return (self.folder / f"{step}.{chunk_index}").exists()

    def wait_for_words(self, words: str) -> None:
        """Wait until it has said something on stderr."""
        wait_until(lambda: words in self.stderr() or self.ended(), 60, f"{words!r} on stderr")
        assert words in self.stderr()

    def release(self) -> None:
        """Let held lanes go on."""
        (self.folder / RELEASE).touch()

    def signal(self, number: signal.Signals) -> None:
        """Signal the command alone."""
        os.kill(self.process.pid, number)

    def signal_group(self, number: signal.Signals) -> None:
        """Signal its process group, as a terminal does for Ctrl-C."""
        os.killpg(self.process.pid, number)

    def processes(self) -> list[int]:
        """Give every process that carries the mark, zombies aside."""
        found = []
        for process in psutil.process_iter(["pid", "status"]):
            with suppress(psutil.Error, OSError):
                marked = process.environ().get(MARK) == self.mark
                if marked and process.info["status"] != psutil.STATUS_ZOMBIE:
                    found.append(process.info["pid"])
        return found

    def wait_until_nothing_is_left(self) -> None:
        """Wait until neither the command nor a lane of it exists."""
        wait_until(lambda: not self.processes(), 20, "the end of every process of the run")

    def kill(self) -> None:
        """End whatever is left, whatever its state."""
        if not self.ended():
            self.process.kill()
            self.process.wait(20)
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
