"""The `dpone` command with lanes that meet faults, and with two bounds that a test may shorten. For tests only."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from dpone_packbuilder.cli import main
from dpone_runtime import bootstrap, execute
from dpone_runtime.ports.lanes import LanePool
from dpone_runtime.services import run_chunks

SILENCE_VARIABLE = "DPONE_TEST_LANE_SILENCE"
"""Seconds that a lane may say nothing."""

GRACE_VARIABLE = "DPONE_TEST_STOP_GRACE"
"""Seconds that chunks at work have once the run was told to stop, or a chunk has failed."""

OPENER = "tests.integration.fault_lane:open_lane"


def run() -> None:
    """Name the lanes' opener, shorten what is to be shortened, and hand over to the command."""
    execute.execute = _with_fault_lanes(execute.execute)
    if silence := os.environ.get(SILENCE_VARIABLE):
        lanes = bootstrap.PreparedRun.lanes

        def impatient(prepared: bootstrap.PreparedRun, opener: str) -> LanePool:
            return lanes(prepared, opener, timedelta(seconds=float(silence)))

        bootstrap.PreparedRun.lanes = impatient  # type: ignore[method-assign,assignment]  # for this process only
    if grace := os.environ.get(GRACE_VARIABLE):
        run_chunks.STOP_GRACE = run_chunks.FAILURE_GRACE = timedelta(seconds=float(grace))
    main()


def _with_fault_lanes(original: Callable[..., Any]) -> Callable[..., Any]:
    def ordered(process: Any, context: Any, environ: Any, order: Any, interruption: Any) -> Any:
        return original(process, context, environ, replace(order, lane_opener=OPENER), interruption)

    return ordered


if __name__ == "__main__":
    run()
