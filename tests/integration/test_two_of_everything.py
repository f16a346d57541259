"""Two of everything: eight processes for one range, clocks that are minutes apart, hosts and process ids that are the same."""

import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest

from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy
from dpone_contract.process import Process, build_process, encode_process
from tests.integration.campaigns import (
    MISCOUNTED,
    History,
    item_environ,
    items_of,
    manifest_text,
    mapped_process,
)
from tests.integration.child_runs import Run
from tests.integration.fault_lane import HOLD
from tests.waiting import wait_until

RACERS = 8
MANY = 200
LEDGER = "dpone_audit.__dpone__backfill_chunks"
FAKETIME = "libfaketime/vendor/libfaketime/src/libfaketime.so.1"


def process_of_many(chunks: int, max_active: int) -> Process:
    """One item of many small chunks, which whoever runs it takes one by one."""
    text = manifest_text().replace("column: day", "column: id").replace("step: 1d", "step: 1")
    text = text.replace('from: "2013-01-01"', "from: 0").replace('to: "2013-01-03"', f"to: {chunks - 1}")
    limits = MappingLimits(max_items=1, max_active=max_active, pool="dpone_backfill")
    policy = MappingPolicy(mode=MappingMode.SUMMARY, limits=limits)
    return build_process(parse_manifest(text, "history.yaml"), policy)


def test_eight_processes_race_for_two_hundred_chunks(history: History) -> None:
    process = process_of_many(MANY, max_active=RACERS)
    runs = [history.start_item(process) for _ in range(RACERS)]
    finished = [run.finish(180) for run in runs]
    assert [0] * RACERS == [done.exit_code for done in finished], [done.stderr for done in finished]
    committed = [
        done.outcome.backfill.chunks_committed for done in finished if done.outcome and done.outcome.backfill
    ]
    assert MANY == sum(committed)
    assert sum(count > 0 for count in committed) > 1, "one of them did everything"
    assert history.content("source.history") == history.content("target.history")
    assert [(MANY, MANY, 1)] == history.sql(
        f"SELECT count(*), count(*) FILTER (WHERE status = 'committed'), max(attempt) FROM {LEDGER}"
    )
    commits = "SELECT count(*) FROM dpone_audit.__dpone__backfill_events WHERE kind = 'committed'"
    assert MANY == history.value(commits)
    assert [] == history.sql(MISCOUNTED)


@pytest.mark.parametrize("offset", ["-5m", "+5m"])
def test_a_clock_that_is_five_minutes_off_changes_no_lease(history: History, offset: str) -> None:
    """Leases are by the database's clock: neither does this run's lapse early, nor does it take what is another's."""
    skewed = {
        "LD_PRELOAD": str(Path(str(distribution("libfaketime").locate_file(FAKETIME)))),
        "FAKETIME": offset,
        "DONT_FAKE_MONOTONIC": "1",
    }
    seen = subprocess.run(["date", "+%s"], env=skewed, capture_output=True, text=True, check=True).stdout
    now = subprocess.run(["date", "+%s"], capture_output=True, text=True, check=True).stdout
    assert abs(int(seen) - int(now)) > 290, "the clock is not off"
    process = mapped_process(3, items=2, max_active=2)
    right = history.start_item(process, faults=[("copying", 1, HOLD)])
    right.wait_for("copying", 1)
    wrong = history.start_item(process, faults=[("copying", 2, HOLD)], environ=skewed)
    wrong.wait_for("copying", 2)
    leases = history.sql(
        "SELECT chunk_index, extract(epoch FROM lease_expires_at - clock_timestamp())::float"
        f" FROM {LEDGER} WHERE status = 'running' ORDER BY 1"
    )
    assert [1, 2] == [index for index, _ in leases]
    assert all(50 < float(str(left)) <= 90 for _, left in leases), leases
    right.release()
    wrong.release()
    for run in (right, wrong):
        done = run.finish()
        assert 0 == done.exit_code, done.output
    history.require_loaded(2)
    assert {1: ("committed", 1), 2: ("committed", 1)} == history.chunks()


def unshared() -> tuple[str, ...] | None:
    """Give the command that begins process ids and host name anew, where this user may."""
    if shutil.which("unshare") is None:
        return None
    for alone in (("unshare", "--pid", "--fork", "--uts"), ("unshare", "-r", "--pid", "--fork", "--uts")):
        command = [*alone, "hostname", "twin"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return alone
    return None


def test_equal_hosts_and_process_ids_own_different_chunks(history: History) -> None:
    """Two pods may well have both: an owner is neither."""
    alone = unshared()
    if alone is None:
        pytest.skip(
            "this user may not begin process ids anew; owners are random tokens, as the unit tests say"
        )
    process = mapped_process(3, items=2, max_active=2)
    environ = {**history.environ, **item_environ(process, items_of(process)[0])}
    runs = []
    for number, chunk in ((1, 1), (2, 2)):
        folder = history.folder / f"twin-{number}"
        folder.mkdir()
        twin = ("sh", "-c", 'hostname twin; exec "$0" "$@"')
        arguments = ("run", "--process", encode_process(process))
        run = Run(arguments, environ, folder, [("copying", chunk, HOLD)], prefix=(*alone, *twin))
        history.runs.append(run)
        runs.append(run)
        reached = folder / f"copying.{chunk}"
        wait_until(lambda found=reached, of=run: found.exists() or of.ended(), 60)  # type: ignore[misc]  # bound at once
        assert reached.exists(), run.stderr()
    assert (runs[0].folder / "copying.1").read_text().split(",")[0] == (
        runs[1].folder / "copying.2"
    ).read_text().split(",")[0], "the lanes' process ids are not equal"
    owners = history.sql(f"SELECT DISTINCT owner FROM {LEDGER} WHERE status = 'running'")
    assert 2 == len(owners)
    for run in runs:
        run.release()
    for run in runs:
        done = run.finish()
        assert 0 == done.exit_code, done.output
    history.require_loaded(2)
