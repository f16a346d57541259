"""Four lanes of one run: each chunk once, no lane waits for a slower one, and whatever ends is ended in bounded time."""

import os
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import psycopg
import pytest

from quickstart.embedded_postgres import EmbeddedPostgres
from tests.integration.campaigns import DAYS, History, manifest_text, opened_history, with_lanes
from tests.integration.child_runs import Fault, Run
from tests.integration.fault_lane import (
    BEAR_A_CHILD,
    BEFORE_LOAD,
    FREEZE,
    HOLD,
    IGNORE_SIGTERM,
    KILL_LANE,
    NOTE,
)
from tests.integration.file_history import FileHistory
from tests.integration.inner_modes import APPEND, MERGE, REPLACE, Scenario, mode_text
from tests.integration.run_with_faults import GRACE_VARIABLE, SILENCE_VARIABLE
from tests.waiting import wait_until

LANES = 4
EVERY = range(1, DAYS + 1)
COMMITTED = dict.fromkeys(EVERY, ("committed", 1))
FIRST_FOUR: list[Fault] = [(BEFORE_LOAD, index, HOLD) for index in range(1, LANES + 1)]


def start(history: History, faults: list[Fault], **environ: str) -> Run:
    path = history.manifest(manifest_text(DAYS, lanes=LANES))
    return history.start("run", path, faults=faults, environ=environ)


def require_the_rest(history: History) -> None:
    """Run the same campaign again, with four lanes, and require all of it."""
    history.lapse_leases()
    done = history.run("run", history.manifest(manifest_text(DAYS, lanes=LANES)))
    assert 0 == done.exit_code, done.output
    history.require_loaded(DAYS)


# Work.


@pytest.mark.parametrize("scenario", [REPLACE, APPEND, MERGE], ids=lambda scenario: scenario.mode)
def test_four_lanes_load_a_campaign_once(history: History, scenario: Scenario) -> None:
    scenario = replace(scenario, chunks=DAYS)
    scenario.prepare(history)
    faults = [("committed", index, NOTE) for index in EVERY]
    run = history.start("run", history.manifest(with_lanes(scenario.text(), LANES)), faults=faults)
    done = run.finish()
    assert 0 == done.exit_code, done.output
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert (DAYS, 200, 200) == (
        done.outcome.backfill.chunks_committed,
        done.outcome.backfill.rows_extracted,
        done.outcome.backfill.rows_loaded,
    )
    assert LANES == len({run.wait_for("committed", index) for index in EVERY})
    assert COMMITTED == history.chunks()
    assert all(["claimed", "committed"] == history.events(index) for index in EVERY)
    assert ["opened", "completed"] == history.events(None)
    history.require_loaded(DAYS)
    run.wait_until_nothing_is_left()


def test_four_lanes_of_numbers_and_of_rows_without_one_leave_no_point_out(history: History) -> None:
    history.sql(
        "INSERT INTO source.history (day, id, note) SELECT NULL, n, 'no day' FROM generate_series(1, 5) n"
    )
    history.sql("INSERT INTO target.history SELECT * FROM source.history WHERE id % 3 = 0")
    text = with_lanes(mode_text("replace", first="0", last="199", step="7"), LANES)
    text = text.replace("column: day", "column: id").replace('"0"', "0").replace('"199"', "199")
    done = history.run("run", history.manifest(text))
    assert 0 == done.exit_code, done.output
    assert history.content("source.history") == history.content("target.history")
    assert 29 == len(history.chunks())


@pytest.mark.parametrize("killed", [False, True])
def test_four_lanes_over_a_ledger_in_a_folder_load_a_campaign_once(
    database: str, tmp_path: Path, *, killed: bool
) -> None:
    history = FileHistory(database, tmp_path)
    try:
        history.add_stale_rows()
        path = history.manifest(manifest_text(DAYS, lanes=LANES))
        done = history.run("run", path, faults=[("before commit", 3, KILL_LANE)] if killed else [])
        assert (5 if killed else 0) == done.exit_code, done.output
        if killed:
            again = history.run("run", path)
            assert 0 == again.exit_code, again.output
        history.require_loaded(DAYS)
    finally:
        history.close()


def test_no_more_lanes_than_chunks_are_started(history: History) -> None:
    faults = [("committed", index, NOTE) for index in (1, 2)]
    run = history.start(
        "run", history.manifest(manifest_text(2, lanes=64)), faults=[*faults, (BEFORE_LOAD, 1, HOLD)]
    )
    run.wait_for("committed", 2)
    # The command, its warden, and a lane a chunk.
    assert 4 == len(run.processes())
    run.release()
    assert 0 == run.finish().exit_code
    history.require_loaded(2)


def test_a_slow_lane_keeps_no_other_waiting(history: History) -> None:
    """Skew: one of four lanes is held at its first chunk; the other three do all the rest on the sessions they have."""
    history.add_stale_rows()
    others = [index for index in EVERY if index != 1]
    run = start(history, [("guarded", 1, HOLD), *(("committed", index, NOTE) for index in others)])
    held, _ = run.told_at("guarded", 1)
    told = {index: run.told_at("committed", index) for index in others}
    assert {**COMMITTED, 1: ("running", 1)} == history.chunks()
    by_lane = Counter(lane for lane, _ in told.values())
    assert held not in by_lane
    assert (LANES - 1, DAYS - 1) == (len(by_lane), by_lane.total())
    # No lane but reached two chunks or more on the very sessions that it began with.
    assert max(by_lane.values()) >= 2
    assert len(by_lane) == len(set(told.values()))
    run.release()
    done = run.finish()
    assert 0 == done.exit_code, done.output
    assert COMMITTED == history.chunks()
    history.require_loaded(DAYS)


# Failures.


def test_lanes_that_the_server_has_no_room_for_end_the_run_before_any_claim(
    history: History, database: str
) -> None:
    history.add_reader("loader", "secret")
    # The ledger, the fence and three lanes.
    history.sql(
        "GRANT INSERT, DELETE ON target.history TO loader; ALTER ROLE loader CONNECTION LIMIT 5;"
        f"GRANT CREATE ON DATABASE {urlsplit(database).path[1:]} TO loader"
    )
    found = urlsplit(database)
    loader = found._replace(netloc=f"loader:secret@{found.hostname}:{found.port}").geturl()
    path = history.manifest(manifest_text(DAYS, lanes=LANES))
    done = history.run("run", path, environ={"DPONE_CONN_TARGET_DB": loader})
    assert (5, "DPONE_CONNECTION_FAILED") == (done.exit_code, done.error_code), done.output
    assert "too many connections" in done.stderr
    assert "Traceback" not in done.output
    assert {} == history.chunks()
    done = history.run(
        "run", history.manifest(manifest_text(DAYS, lanes=3)), environ={"DPONE_CONN_TARGET_DB": loader}
    )
    assert 0 == done.exit_code, done.output
    history.require_loaded(DAYS)


def test_a_lane_that_the_server_has_no_room_for_is_opened_once_there_is_some(tmp_path: Path) -> None:
    with EmbeddedPostgres() as server, opened_history(server.uri("postgres"), tmp_path) as history:
        history.add_reader("loader", "secret")
        # The ledger, the fence, both lanes, and somebody who leaves.
        history.sql(
            "GRANT INSERT, DELETE ON target.history TO loader; ALTER ROLE loader CONNECTION LIMIT 4;"
            "CREATE SCHEMA dpone_audit AUTHORIZATION loader"
        )
        found = urlsplit(history.uri)
        loader = found._replace(netloc=f"loader:secret@{found.hostname}:{found.port}").geturl()
        log = server.folder / "server.log"
        with psycopg.connect(loader):
            run = history.start(
                "run",
                history.manifest(manifest_text(DAYS, lanes=2)),
                environ={"DPONE_CONN_TARGET_DB": loader},
            )
            refusal = "too many connections for role"
            wait_until(lambda: refusal in log.read_text() or run.ended(), 60, "the refusal of a lane")
        done = run.finish()
        assert 0 == done.exit_code, done.output
        assert refusal in log.read_text()
        history.require_loaded(DAYS)


def test_a_failure_of_one_lane_bounds_its_peers(history: History) -> None:
    history.add_stale_rows()
    before = history.versions(1)
    run = start(
        history,
        [("copied", 1, HOLD), (BEFORE_LOAD, 2, HOLD), ("copied", 3, HOLD), ("copied", 4, HOLD)],
        **{GRACE_VARIABLE: "1"},
    )
    lanes = [run.wait_for(step, index) for step, index in (("copied", 1), ("copied", 3), ("copied", 4))]
    os.kill(run.wait_for(BEFORE_LOAD, 2), signal.SIGKILL)
    done = run.finish(30)
    assert (5, "DPONE_BACKFILL_LANE_LOST") == (done.exit_code, done.error_code), done.output
    assert "killed by signal 9" in done.stderr
    assert "3 chunks may finish" in done.stderr
    assert not any(map(psutil.pid_exists, lanes))
    run.wait_until_nothing_is_left()
    # Nobody has to wait for a lease of those that were ended.
    assert {1: ("pending", 1), 2: ("failed", 1), 3: ("pending", 1), 4: ("pending", 1)} == history.chunks()
    assert ["claimed", "released"] == history.events(1)
    assert before == history.versions(1)
    require_the_rest(history)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_all_lanes_killed_at_once_end_the_run(history: History, number: signal.Signals) -> None:
    run = start(history, FIRST_FOUR)
    lanes = [run.wait_for(BEFORE_LOAD, index) for index in range(1, LANES + 1)]
    assert LANES == len(set(lanes))
    for lane in lanes:
        os.kill(lane, number)
    done = run.finish(30)
    assert 5 == done.exit_code, done.output
    assert "Traceback" not in done.output
    assert dict.fromkeys(range(1, LANES + 1), ("failed", 1)) == history.chunks()
    run.wait_until_nothing_is_left()
    require_the_rest(history)


def test_a_frozen_lane_is_ended_and_its_peers_finish(history: History) -> None:
    history.add_stale_rows()
    before = history.versions(2)
    run = start(history, [("copied", 2, FREEZE)], **{SILENCE_VARIABLE: "2"})
    lane = run.wait_for("copied", 2)
    done = run.finish(30)
    assert (5, "DPONE_BACKFILL_LANE_LOST") == (done.exit_code, done.error_code), done.output
    assert "it was silent for 2 s; killed by signal" in done.stderr
    assert not psutil.pid_exists(lane)
    assert ("failed", 1) == history.chunks()[2]
    assert before == history.versions(2)
    run.wait_until_nothing_is_left()
    require_the_rest(history)


# Signals to the run.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_chunks_at_work_may_finish(history: History, number: signal.Signals) -> None:
    run = start(history, FIRST_FOUR)
    for index in range(1, LANES + 1):
        run.wait_for(BEFORE_LOAD, index)
    run.signal_group(number)
    run.wait_for_words("4 chunks may finish")
    run.release()
    done = run.finish()
    assert (5, "DPONE_INTERRUPTED") == (done.exit_code, done.error_code), done.output
    assert dict.fromkeys(range(1, LANES + 1), ("committed", 1)) == history.chunks()
    run.wait_until_nothing_is_left()
    require_the_rest(history)


@pytest.mark.parametrize("what", [HOLD, IGNORE_SIGTERM, BEAR_A_CHILD])
def test_lanes_that_do_not_finish_are_ended_with_all_that_they_started(history: History, what: str) -> None:
    run = start(
        history, [("copied", index, what) for index in range(1, LANES + 1)], **{GRACE_VARIABLE: "0.5"}
    )
    for index in range(1, LANES + 1):
        run.wait_for("copied", index)
    if what == BEAR_A_CHILD:
        wait_until(lambda: len(run.processes()) == 2 + LANES * 2, 30, "a child of each lane")
    run.signal(signal.SIGTERM)
    began = time.monotonic()
    done = run.finish(30)
    # Half a second of grace, and one deadline of three seconds for all lanes together, which is not twelve.
    assert time.monotonic() - began < 11
    assert (5, "DPONE_INTERRUPTED") == (done.exit_code, done.error_code), done.output
    assert [] == run.processes()
    assert dict.fromkeys(range(1, LANES + 1), ("pending", 1)) == history.chunks()
    require_the_rest(history)


@pytest.mark.parametrize("what", [HOLD, IGNORE_SIGTERM, BEAR_A_CHILD, FREEZE])
def test_nothing_outlives_a_coordinator_that_is_killed(history: History, what: str) -> None:
    run = start(history, [("copied", 2, what), *(("copied", index, HOLD) for index in (1, 3, 4))])
    for index in range(1, LANES + 1):
        run.wait_for("copied", index)
    if what == BEAR_A_CHILD:
        wait_until(lambda: len(run.processes()) == 2 + LANES + 1, 30, "a child of one lane")
    run.signal(signal.SIGKILL)
    assert -signal.SIGKILL == run.finish().exit_code
    run.wait_until_nothing_is_left()
    assert dict.fromkeys(range(1, LANES + 1), ("running", 1)) == history.chunks()
    require_the_rest(history)
