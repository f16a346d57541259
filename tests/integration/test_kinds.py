"""Every kind of window, run through a real server: a failure in the middle, a resume, and a second run that moves nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy
from dpone_contract.process import build_process
from tests.integration.campaigns import History, manifest_text

BERLIN = "Europe/Berlin"


@dataclass(frozen=True)
class Case:
    """A column type, a window along it, what lies within and without, and how many chunks there are."""

    type: str
    chunk: dict[str, Any]
    within: tuple[str | None, ...]
    without: tuple[str | None, ...]
    chunks: int
    refused: int
    """Index of the value within that the target refuses at first."""
    failed_chunk: int


CASES = {
    "integers along an integer column": Case(
        type="integer",
        chunk={"from": -10, "to": 19, "step": 10},
        within=("-10", "-1", "0", "9", "10", "19"),
        without=("-11", "20", "-2147483648", "2147483647", None),
        chunks=3,
        refused=2,
        failed_chunk=2,
    ),
    "the whole range of a bigint": Case(
        type="bigint",
        chunk={"from": "-9223372036854775808", "to": "9223372036854775807", "step": "4611686018427387904"},
        within=("-9223372036854775808", "-1", "0", "9223372036854775806", "9223372036854775807"),
        without=(None,),
        chunks=4,
        refused=2,
        failed_chunk=3,
    ),
    "numbers with a fraction": Case(
        type="numeric(12,3)",
        chunk={"from": 0, "to": 9, "step": 5},
        within=("0", "4.999", "5", "9.999"),
        without=("-0.001", "10", "NaN"),
        chunks=2,
        refused=2,
        failed_chunk=2,
    ),
    "hours along timestamptz": Case(
        type="timestamp with time zone",
        chunk={
            "from": "2013-10-27T00:00:00",
            "to": "2013-10-27T05:00:00",
            "step": "2h",
            "timezone": BERLIN,
        },
        within=(
            "2013-10-27 00:00+02",
            "2013-10-27 02:30+02",
            "2013-10-27 02:30+01",
            "2013-10-27 04:59:59.999999+01",
        ),
        without=("2013-10-26 23:59:59.999999+02", "2013-10-27 05:00+01", "infinity", "-infinity", None),
        chunks=3,
        refused=1,
        failed_chunk=2,
    ),
    "days of a zone along a timestamp of milliseconds": Case(
        type="timestamp(3) without time zone",
        chunk={
            "from": "2013-10-26T22:00:00+00:00",
            "to": "2013-10-28T23:00:00+00:00",
            "step": "1d",
            "timezone": BERLIN,
        },
        within=("2013-10-27", "2013-10-27 23:59:59.999", "2013-10-28", "2013-10-28 23:59:59.999"),
        without=("2013-10-26 23:59:59.999", "2013-10-29"),
        chunks=2,
        refused=2,
        failed_chunk=2,
    ),
    "instants along a date column": Case(
        type="date",
        chunk={"from": "2013-01-01T00:00:00+00:00", "to": "2013-01-03T00:00:00+00:00", "step": "1d"},
        within=("2013-01-01", "2013-01-02"),
        without=("2012-12-31", "2013-01-03", "infinity"),
        chunks=2,
        refused=1,
        failed_chunk=2,
    ),
    "buckets of uuids": Case(
        type="uuid",
        chunk={"kind": "uuid", "buckets": 3},
        within=(
            "00000000-0000-0000-0000-000000000000",
            "55555555-5555-5555-5555-555555555554",
            "55555555-5555-5555-5555-555555555555",
            "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ),
        without=(None,),
        chunks=3,
        refused=2,
        failed_chunk=2,
    ),
    "written bounds": Case(
        type="bigint",
        chunk={"boundaries": [0, 10, 1000, 1001]},
        within=("0", "9", "10", "999", "1000"),
        without=("-1", "1001"),
        chunks=3,
        refused=2,
        failed_chunk=2,
    ),
}


def prepare(history: History, case: Case, nulls: str) -> str:
    """Make source and target of a case, the target holding a stale row for each value; give the manifest's path."""
    history.sql("DROP TABLE source.history, target.history")
    history.sql(
        f"CREATE TABLE source.history (key {case.type}, id integer); CREATE TABLE target.history (LIKE source.history)"
    )
    for number, value in enumerate(case.within + case.without):
        history.sql("INSERT INTO source.history VALUES (%s, %s)", value, number)
        history.sql("INSERT INTO target.history VALUES (%s, %s)", value, -1 - number)
    before, _, rest = manifest_text().partition("      chunk:\n")
    chunk = json.dumps({"column": "key", "nulls": nulls, **case.chunk})
    return history.manifest(f"{before}      chunk: {chunk}\n      state:{rest.partition('      state:')[2]}")


def loaded(case: Case) -> list[tuple[int]]:
    """Fresh rows of what lies within, and the untouched stale rows of what lies without."""
    stale = [-1 - number for number in range(len(case.within), len(case.within + case.without))]
    return [(number,) for number in sorted([*stale, *range(len(case.within))])]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_window_of_each_kind_is_loaded_resumed_and_left_alone(history: History, case: Case) -> None:
    manifest = prepare(history, case, "ignore")
    history.sql(f"ALTER TABLE target.history ADD CONSTRAINT clean CHECK (id <> {case.refused})")

    planned = history.run("backfill", "plan", manifest, "--connect")
    assert 0 == planned.exit_code, planned.output
    failed = history.run("run", manifest)
    assert 1 == failed.exit_code, failed.output
    assert ("failed", 1) == history.chunks()[case.failed_chunk]

    history.sql("ALTER TABLE target.history DROP CONSTRAINT clean")
    resumed = history.run("backfill", "resume", manifest)
    assert 0 == resumed.exit_code, resumed.output
    attempts = {index: 2 if index == case.failed_chunk else 1 for index in range(1, case.chunks + 1)}
    assert {index: ("committed", attempt) for index, attempt in attempts.items()} == history.chunks()
    assert loaded(case) == history.sql("SELECT id FROM target.history ORDER BY id")

    before = history.sql("SELECT ctid::text, xmin::text FROM target.history ORDER BY 1")
    again = history.run("run", manifest)
    assert 0 == again.exit_code, again.output
    assert before == history.sql("SELECT ctid::text, xmin::text FROM target.history ORDER BY 1")


def test_rows_without_a_value_are_a_chunk_of_their_own(history: History) -> None:
    case = Case(
        type="integer",
        chunk={"from": 1, "to": 20, "step": 10},
        within=("1", "20", None, None),
        without=("21",),
        chunks=3,
        refused=2,
        failed_chunk=3,
    )
    manifest = prepare(history, case, "include")
    done = history.run("run", manifest)
    assert 0 == done.exit_code, done.output
    assert [1, 2, 3] == list(history.chunks())
    assert loaded(case) == history.sql("SELECT id FROM target.history ORDER BY id")
    bounds = "SELECT lower_bound, upper_bound, rows_loaded FROM dpone_audit.__dpone__backfill_chunks ORDER BY chunk_index"
    assert [("1", "11", 1), ("11", "21", 1), ("NULL", "NULL", 2)] == history.sql(bounds)
    assert [(True,)] == history.sql("SELECT window_everything FROM dpone_audit.__dpone__backfill_campaigns")


def test_mapped_items_load_their_own_part_and_the_last_one_null(history: History) -> None:
    case = Case(
        type="uuid",
        chunk={"buckets": 3},
        within=("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", None),
        without=(),
        chunks=4,
        refused=0,
        failed_chunk=1,
    )
    text = Path(prepare(history, case, "include")).read_text(encoding="utf-8")
    limits = MappingLimits(max_items=2, max_active=1, pool="dpone_backfill")
    policy = MappingPolicy(mode=MappingMode.SUMMARY, limits=limits)
    process = build_process(parse_manifest(text, "history.yaml"), policy)
    for item, chunks in ((1, [3, 4]), (0, [1, 2, 3, 4])):
        done = history.start_item(process, item).finish()
        assert 0 == done.exit_code, done.output
        assert chunks == list(history.chunks())
    assert loaded(case) == history.sql("SELECT id FROM target.history ORDER BY id")


@pytest.mark.parametrize(
    "type_name, chunk, hint",
    [
        ("text", {"from": 1, "to": 2, "step": 1}, "smallint, integer, bigint or numeric"),
        (
            "integer",
            {"from": "2013-01-01", "to": "2013-01-02", "step": "1d"},
            "date, timestamp or timestamptz",
        ),
        ("text", {"kind": "uuid", "buckets": 2}, "of type uuid"),
        (
            "uuid",
            {"from": "2013-01-01T00:00", "to": "2013-01-02T00:00", "step": "1d"},
            "timestamp, timestamptz or date",
        ),
        ("date", {"from": "2013-01-01T00:00", "to": "2013-01-02T00:00", "step": "6h"}, "not midnight in UTC"),
    ],
)
@pytest.mark.parametrize("command", [("run",), ("backfill", "plan", "--connect")])
def test_a_kind_that_does_not_fit_the_column_is_refused_before_anything_moves(
    history: History, type_name: str, chunk: dict[str, Any], hint: str, command: tuple[str, ...]
) -> None:
    case = Case(type_name, chunk, (), (), 0, 0, 0)
    refused = history.run(*command, prepare(history, case, "ignore"))
    assert 2 == refused.exit_code, refused.output
    assert "DPONE_COLUMNS_DIFFER" in refused.output
    assert hint in refused.output
    assert not history.has_ledger_rows()


def test_an_interval_of_airflow_is_taken_as_days_of_a_date_column(history: History) -> None:
    case = Case(
        type="date",
        chunk={
            "kind": "date",
            "from": "{{ data_interval_start }}",
            "to": "{{ data_interval_end }}",
            "step": "1d",
            "timezone": BERLIN,
        },
        within=("2013-03-31",),
        without=("2013-03-30", "2013-04-01"),
        chunks=1,
        refused=0,
        failed_chunk=1,
    )
    # The day on which Berlin puts its clocks forward, as Airflow tells it.
    interval = {
        "DPONE_INTERVAL_START": "2013-03-30 23:00:00+00:00",
        "DPONE_INTERVAL_END": "2013-03-31T22:00:00+00:00",
    }
    manifest = prepare(history, case, "ignore")
    done = history.run("run", manifest, environ=interval)
    assert 0 == done.exit_code, done.output
    assert loaded(case) == history.sql("SELECT id FROM target.history ORDER BY id")
    by_flag = history.run(
        "backfill",
        "status",
        manifest,
        "--interval-start",
        "2013-03-31T00:00:00+01:00",
        "--interval-end",
        "2013-04-01T00:00:00+02:00",
    )
    assert 0 == by_flag.exit_code, by_flag.output
    assert "complete" in by_flag.stdout
