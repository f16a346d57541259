"""Lines are bounded, whatever a child writes."""

import os
import sys
from datetime import timedelta

import pytest

from airflow_provider_dpone.child_process import LINE_LIMIT_BYTES, ChildProcess, LineCutter


def cut(*parts, limit=10_000_000):
    lines = []
    cutter = LineCutter(lines.append, limit)
    for part in parts:
        cutter.feed(part)
    cutter.finish()
    return lines


@pytest.mark.parametrize(
    "parts, lines",
    [
        ((b"one\ntwo\n",), ["one", "two"]),
        ((b"o", b"ne\nt", b"wo"), ["one", "two"]),
        ((b"\n\n",), []),
        ((b"crlf\r\n",), ["crlf"]),
        ((b"\xd0", b"\xb6\n"), ["ж"]),
        ((b"\xff\n",), ["�"]),
        ((), []),
    ],
)
def test_lines_are_cut_wherever_the_stream_breaks(parts, lines):
    assert cut(*parts) == lines


def test_a_long_line_is_cut_and_the_next_is_whole():
    long = b"x" * (LINE_LIMIT_BYTES * 3)
    assert cut(long[:5000], long[5000:] + b"\nnext\n") == ["x" * LINE_LIMIT_BYTES + " ...", "next"]


def test_output_beyond_the_limit_is_left_out_and_said():
    lines = cut(b"12345\n" * 100, limit=12)
    assert lines == [
        "12345",
        "12345",
        "12345",
        "(the run writes too much; the rest of its output is left out)",
    ]


def test_a_child_that_writes_without_end_is_drained():
    lines = []
    program = "import sys\nfor _ in range(200): sys.stdout.write('y' * 100_000)\nprint()\nprint('end')"
    with ChildProcess([sys.executable, "-c", program], dict(os.environ), lines.append) as child:
        assert child.wait(timedelta(seconds=60))
        assert child.exit_code() == 0
    assert [len(line) for line in lines] == [LINE_LIMIT_BYTES + 4, 3]


def test_waiting_is_bounded():
    program = "import time; time.sleep(600)"
    with ChildProcess([sys.executable, "-c", program], dict(os.environ), print) as child:
        assert not child.wait(timedelta(milliseconds=50))
    assert child.exit_code() == -9


def test_a_child_that_closes_its_output_is_still_waited_for():
    program = "import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(7)"
    with ChildProcess([sys.executable, "-c", program], dict(os.environ), print) as child:
        assert child.wait(timedelta(seconds=30))
        assert child.exit_code() == 7
