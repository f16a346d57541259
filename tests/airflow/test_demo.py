"""The demo leaves nothing behind when it is stopped in the middle; that it proves its load, `tox run -e demo` shows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.waiting import wait_until

STARTED_WITHIN = 180.0
ENDED_WITHIN = timedelta(seconds=60)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for all of a demo's files, which the database's own user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="dpone-demo-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.airflow_live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_demo_leaves_no_process_and_no_file(temporary: Path, number: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    log = temporary / "demo.log"
    with log.open("wb") as output:
        demo = subprocess.Popen(
            [sys.executable, "-m", "quickstart.demo"],
            env={
                **os.environ,
                "PYTHONPATH": "example_dags",
                "TMPDIR": str(temporary),
                "DPONE_DEMO_MARK": mark,
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: " running" in log.read_text() or demo.poll() is not None,
            timeout=STARTED_WITHIN,
            what="tasks at work",
        )
        # To the whole group, as a terminal sends Ctrl-C.
        os.killpg(demo.pid, number)
        assert demo.wait(timeout=ENDED_WITHIN.total_seconds()) == 130, log.read_text()
    finally:
        if demo.poll() is None:
            demo.kill()
    assert "Traceback" not in log.read_text()
    wait_until(lambda: not processes_of(mark, temporary), what="the end of every process of the demo")
    log.unlink()
    assert list(temporary.iterdir()) == []


def processes_of(mark: str, folder: Path) -> list[int]:
    """Processes that carry the mark, or that work in the folder (the database's do not carry it)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                carried = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and (mark.encode() in carried or str(folder).encode() in carried):
                found.append(int(entry.name))
    return found
