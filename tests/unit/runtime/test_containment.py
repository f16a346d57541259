"""Whether a process group is gone: only evidence says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_runtime.adapters.lanes import containment
from dpone_runtime.adapters.lanes.containment import end_groups, group_alive
from dpone_runtime.services.run_chunks import LANE_END_GRACE
from tests.waiting import wait_until


@pytest.fixture
def sleeper():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, start_new_session=True) as process:
        yield process
        process.kill()


def test_a_group_that_was_ended_is_gone_although_nobody_has_reaped_it(sleeper):
    assert group_alive(sleeper.pid)
    end_groups([sleeper.pid], LANE_END_GRACE)
    assert not group_alive(sleeper.pid)
    assert -signal.SIGTERM == sleeper.wait(10)


def test_a_stopped_group_is_ended(sleeper):
    os.kill(sleeper.pid, signal.SIGSTOP)
    end_groups([sleeper.pid], LANE_END_GRACE)
    assert not group_alive(sleeper.pid)


def test_without_evidence_a_group_is_alive(sleeper, monkeypatch, tmp_path: Path):
    sleeper.kill()
    wait_until(lambda: not group_alive(sleeper.pid))
    # Its leader is not reaped: the kernel still knows the group, and nothing says whether any of it can run.
    monkeypatch.setattr(containment, "PROCESSES", tmp_path / "nowhere")
    assert group_alive(sleeper.pid)
    monkeypatch.setattr(containment, "PROCESSES", tmp_path)
    assert not group_alive(sleeper.pid)
    entry = tmp_path / "17"
    entry.mkdir()
    assert not group_alive(sleeper.pid)
    for unreadable in ("", "17 (x) S", "17 (x) S one two", f"17 (x) S 1 {sleeper.pid} 1"):
        (entry / "stat").write_text(unreadable)
        assert group_alive(sleeper.pid)
    for gone in (f"17 (x) Z 1 {sleeper.pid} 1", f"17 (x ) Z) S 1 {sleeper.pid + 1} 1"):
        (entry / "stat").write_text(gone)
        assert not group_alive(sleeper.pid)
