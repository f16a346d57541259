"""The `dpone` command with a coordinator and lanes that meet faults, and with bounds that a test may shorten. For tests only."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from dpone_packbuilder.cli import main
from dpone_runtime import bootstrap, execute
from dpone_runtime.adapters.lanes.pool import SILENCE, ProcessLanePool
from dpone_runtime.adapters.postgres import session
from dpone_runtime.adapters.sql import ledger
from dpone_runtime.ports.lanes import LanePool
from dpone_runtime.services import run_chunks
from tests.integration.fault_coordinator import WatchedLedger, WatchedRun
from tests.integration.fault_lane import FAULTS_VARIABLE

SILENCE_VARIABLE = "DPONE_TEST_LANE_SILENCE"
"""Seconds that a lane may say nothing."""

GRACE_VARIABLE = "DPONE_TEST_STOP_GRACE"
"""Seconds that chunks at work have once the run was told to stop, or a chunk has failed."""

FENCE_VARIABLE = "DPONE_TEST_FENCE_SILENCE"
"""Seconds without a word after which a run loses its fence to this one."""

RENEWAL_VARIABLE = "DPONE_TEST_RENEW_EVERY"
"""Seconds after which a lease is renewed."""

SWAP_TRIES_VARIABLE = "DPONE_TEST_SWAP_TRIES"
"""How often the swap stands in the queue for the live table."""

PUBLICATION_WAIT_VARIABLE = "DPONE_TEST_PUBLICATION_WAIT"
"""Seconds that a publication waits for each of its other locks."""

IDLE_VARIABLE = "DPONE_TEST_PROTOCOL_IDLE"
"""Seconds that a transaction of the ledger may idle before the server ends it."""

OPENER = "tests.integration.fault_lane:open_lane"


def run() -> None:
    """Name the lanes' opener, watch ledger and lanes, shorten what is to be shortened, and hand over to the command."""
    watched = WatchedRun(Path(os.environ[FAULTS_VARIABLE]))
    execute.execute = _with_fault_lanes(execute.execute)
    bootstrap.look_at_ends = watched.then("ends seen", bootstrap.look_at_ends)
    bootstrap.find_loaded_table = watched.before("shadow sought", bootstrap.find_loaded_table)
    execute.prepare_run = _with_watched_ledger(execute.prepare_run, watched)
    lanes = bootstrap.PreparedRun.lanes
    silence = timedelta(seconds=float(os.environ.get(SILENCE_VARIABLE, SILENCE.total_seconds())))

    def watched_lanes(prepared: bootstrap.PreparedRun, opener: str) -> LanePool:
        pool = lanes(prepared, opener, silence)
        assert isinstance(pool, ProcessLanePool)
        return watched.lanes(pool)

    bootstrap.PreparedRun.lanes = watched_lanes  # type: ignore[method-assign,assignment]  # for this process only
    session.build_missing_index = watched.then("index built", session.build_missing_index, only_if_given=True)
    session.hold_shadow = watched.then("shadow held", session.hold_shadow)
    session.swap_tables = watched.then("swapped", session.swap_tables)
    if tries := os.environ.get(SWAP_TRIES_VARIABLE):
        ledger.SWAP_TRIES = int(tries)
    if wait := os.environ.get(PUBLICATION_WAIT_VARIABLE):
        ledger.PUBLICATION_WAIT = timedelta(seconds=float(wait))
    if grace := os.environ.get(GRACE_VARIABLE):
        run_chunks.STOP_GRACE = run_chunks.FAILURE_GRACE = timedelta(seconds=float(grace))
    if idle := os.environ.get(IDLE_VARIABLE):
        session.PROTOCOL_IDLE_MS = int(float(idle) * 1000)
    if silent := os.environ.get(FENCE_VARIABLE):
        session.FENCE_SILENCE = timedelta(seconds=float(silent))
    if renewal := os.environ.get(RENEWAL_VARIABLE):
        run_chunks.RENEW_EVERY = timedelta(seconds=float(renewal))
    main()


def _with_fault_lanes(original: Callable[..., Any]) -> Callable[..., Any]:
    def ordered(process: Any, context: Any, environ: Any, order: Any, interruption: Any) -> Any:
        return original(process, context, environ, replace(order, lane_opener=OPENER), interruption)

    return ordered


def _with_watched_ledger(original: Callable[..., Any], watched: WatchedRun) -> Callable[..., Any]:
    def prepared(process: Any, planned: Any, connections: Any, *, restart: bool) -> Any:
        found = original(process, planned, connections, restart=restart)
        watched.happen("prepared")
        return replace(found, ledger=WatchedLedger(found.ledger, watched))

    return prepared


if __name__ == "__main__":
    run()
