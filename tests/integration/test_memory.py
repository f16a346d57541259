"""What lane and coordinator hold at their peak: a long row twice, whatever their number, and nothing of a target that is slow.

Peaks are the kernel's own (`VmHWM`), of a real run whose lane is held after its commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.campaigns import FIRST_DAY, History, manifest_text
from tests.integration.fault_lane import HOLD

MEGABYTE = 1024 * 1024
ROW = 50 * MEGABYTE
ON_LINUX = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux tells a process's peak"
)
WIDE = """
ALTER TABLE source.history ADD payload bytea;
ALTER TABLE target.history ADD payload bytea;
DELETE FROM source.history;
INSERT INTO source.history (day, id, note, payload)
SELECT '{day}', n, CASE n % 2 WHEN 0 THEN repeat('x', {size}) END,
       CASE n % 2 WHEN 1 THEN convert_to(repeat('y', {size}), 'UTF8') END FROM generate_series(1, {rows}) n
"""


@dataclass(frozen=True)
class Peaks:
    """Bytes that were resident at most."""

    lane: int
    coordinator: int


def peak_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def measured(history: History, name: str) -> Peaks:
    """Run the first day as a campaign of its own, and look at both processes once it is committed."""
    text = manifest_text(1).replace("    backfill:\n", f"    backfill:\n      backfill_id: {name}\n")
    run = history.start("run", history.manifest(text), faults=[("committed", 1, HOLD)])
    lane = run.wait_for("committed", 1)
    found = Peaks(peak_of(lane), peak_of(run.process.pid))
    run.release()
    done = run.finish(120)
    assert 0 == done.exit_code, done.output
    return found


@ON_LINUX
def test_rows_of_50_megabytes_are_held_twice_whatever_their_number(history: History) -> None:
    """libpq holds a row in its buffer and hands out a copy; what is written is never held whole."""
    ordinary = measured(history, "ordinary")
    peaks = []
    for rows in (2, 6):
        if rows == 2:
            history.sql(WIDE.format(day=FIRST_DAY, size=ROW, rows=rows))
        else:
            history.sql(
                "INSERT INTO source.history SELECT day, id + n * 2, note, amount, price, payload"
                " FROM source.history, generate_series(1, 2) n"
            )
        peaks.append(measured(history, f"rows-{rows}"))
    few, many = peaks
    assert 6 == history.value(
        "SELECT count(*) FROM target.history WHERE octet_length(coalesce(note::bytea, payload)) = %s", ROW
    )
    assert few.lane - ordinary.lane < 2.3 * ROW
    assert abs(many.lane - few.lane) < ROW / 4
    assert many.coordinator - ordinary.coordinator < 5 * MEGABYTE
    assert max(ordinary.lane, ordinary.coordinator) < 150 * MEGABYTE


@ON_LINUX
def test_a_target_slower_than_its_source_grows_neither_process(history: History) -> None:
    """100 MB are ready on the one side at once; the other takes each row some milliseconds after the one before."""
    ordinary = measured(history, "ordinary")
    history.sql("DELETE FROM source.history")
    history.sql(
        "INSERT INTO source.history (day, id, note) SELECT %s, n, repeat('x', 500000) FROM generate_series(1, 200) n",
        FIRST_DAY,
    )
    history.sql(
        "CREATE FUNCTION target.wait() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$;"
        "CREATE TRIGGER wait BEFORE INSERT ON target.history FOR EACH ROW EXECUTE FUNCTION target.wait()"
    )
    slow = measured(history, "slow")
    assert 200 == history.value("SELECT count(*) FROM target.history")
    assert slow.lane - ordinary.lane < 8 * MEGABYTE
    assert slow.coordinator - ordinary.coordinator < 5 * MEGABYTE
