"""What a person sees of a run: one line redrawn on a terminal, plain lines in a log, only bad news when quiet."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dpone_runtime.progress import LINE_EVERY, Progress
from dpone_runtime.services.run_report import Failure, RunReport
from tests.campaign_factories import FixedClock, make_plan, make_record

FAILURE = Failure(2, 3, "DPONE_BACKFILL_CHUNK_FAILED", "the rows are bad", None, infrastructure=False)
REPORT = RunReport(selected=10, skipped=2, committed=3, rows_loaded=3000, bytes_moved=6_000_000)


@pytest.fixture
def clock():
    return FixedClock()


def progress(clock, *, quiet=False, terminal=False):
    return Progress(make_plan(10), clock.elapsed, quiet=quiet, terminal=terminal)


def test_the_line_tells_chunks_rows_rates_and_what_is_left(clock):
    shown = progress(clock)
    clock.advance(timedelta(seconds=30))
    expected = (
        "[#####     ]  50%  5/10 chunks | 2 at work | 3,000 rows | 0.2 MB/s | 100 rows/s | about 50 s left"
    )
    assert expected == shown.line(2, REPORT)


def test_a_line_on_a_terminal_fits_it(clock, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown = progress(clock, terminal=True)
    clock.advance(timedelta(seconds=1))
    shown.tick(1, REPORT)
    assert 39 == len(capsys.readouterr().err.removeprefix("\r\x1b[2K"))


def test_bytes_on_their_way_count_until_their_chunk_is_committed(clock):
    shown = progress(clock)
    clock.advance(timedelta(seconds=1))
    shown.moved(make_record().chunk_index, 3_000_000)
    shown.moved(99, 2_000_000)
    assert "5.0 MB/s" in shown.line(2, RunReport(selected=1))
    shown.committed(make_record(), 10, 3_000_000)
    # What another lane has under way still counts.
    assert "2.0 MB/s" in shown.line(1, RunReport(selected=1))


@pytest.mark.parametrize("elapsed, left", [(30, "50 s"), (300, "8 min"), (30_000, "13.9 h")])
def test_what_is_left_is_rounded_for_people(clock, elapsed, left):
    shown = progress(clock)
    clock.advance(timedelta(seconds=elapsed))
    assert f"about {left} left" in shown.line(1, REPORT)


def test_failures_are_in_the_line(clock):
    assert "1 failed" in progress(clock).line(0, RunReport(selected=3, failures=[FAILURE]))


def test_an_empty_selection_is_done(clock):
    assert "100%" in progress(clock).line(0, RunReport())


def test_a_log_gets_a_line_every_few_seconds_without_escape_codes(clock, capsys):
    shown = progress(clock)
    for _ in range(25):
        clock.advance(LINE_EVERY / 5)
        shown.tick(1, REPORT)
    shown.waiting("waiting")
    shown.failed(FAILURE)
    shown.finish()
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert "" == out
    assert 5 == sum(line.startswith("[") for line in lines)
    assert "\x1b" not in err
    assert "\r" not in err
    assert [
        "waiting",
        "chunk 2 (2013-01-02) failed, attempt 3: DPONE_BACKFILL_CHUNK_FAILED: the rows are bad",
    ] == lines[-2:]


def test_a_terminal_gets_one_line_that_is_redrawn_and_cleared(clock, capsys):
    shown = progress(clock, terminal=True)
    for _ in range(3):
        clock.advance(timedelta(milliseconds=250))
        shown.tick(1, REPORT)
    shown.say("opened")
    clock.advance(timedelta(seconds=1))
    shown.tick(1, REPORT)
    shown.finish()
    err = capsys.readouterr().err
    assert 1 == err.count("\n")
    assert "\r\x1b[2Kopened\n" in err
    assert err.endswith("\r\x1b[2K")


def test_a_terminal_is_not_redrawn_faster_than_an_eye_sees(clock, capsys):
    shown = progress(clock, terminal=True)
    for _ in range(100):
        clock.advance(timedelta(milliseconds=10))
        shown.tick(1, REPORT)
    assert 5 == capsys.readouterr().err.count("[#####")


@pytest.mark.parametrize("terminal", [False, True])
def test_quiet_tells_failures_alone(clock, capsys, terminal):
    shown = progress(clock, quiet=True, terminal=terminal)
    clock.advance(timedelta(seconds=60))
    shown.tick(1, REPORT)
    shown.waiting("waiting")
    shown.say("opened")
    shown.failed(FAILURE)
    shown.finish()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("chunk 2 (2013-01-02) failed")
