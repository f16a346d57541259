"""Presets, cron lines and dates that Airflow takes are accepted, others are told with a way out."""

import pytest

from dpone_packbuilder.schedule import PRESETS, find_schedule_problem, is_date_or_instant


@pytest.mark.parametrize(
    "schedule",
    [
        *PRESETS,
        "0 3 * * *",
        "*/15 * * * *",
        "0 0-6/2 * * *",
        "0 0 1,15 * *",
        "0 0 L * *",
        "0 0 * JAN-mar mon",
        "0 0 * * 7",
        "0 0 * * fri#2",
        "59 23 31 12 0",
    ],
)
def test_a_schedule_that_airflow_takes_is_accepted(schedule):
    assert find_schedule_problem(schedule) is None


@pytest.mark.parametrize(
    "schedule, hint",
    [
        ("@dayly", "did you mean '@daily'?"),
        ("@never", "use one of: @once"),
        ("daily", 'write for example "0 3 * * *"'),
        ("", 'write for example "0 3 * * *"'),
        ("0 0 * *", 'write for example "0 3 * * *"'),
        ("0 0 0 * * *", 'write for example "0 3 * * *"'),
        ("60 0 * * *", "use 0..59"),
        ("0 24 * * *", "use 0..23"),
        ("0 0 0 * *", "use 1..31"),
        ("0 0 * 13 *", "use 1..12"),
        ("0 0 * * 8", "use 0..7"),
        ("0 0 * * someday", "use 0..7"),
        ("*/0 * * * *", "use 0..59"),
        ("0,, * * * *", "use 0..59"),
    ],
)
def test_a_schedule_that_airflow_refuses_is_told(schedule, hint):
    problem = find_schedule_problem(schedule)
    assert problem is not None
    assert problem[1].startswith(hint)


@pytest.mark.parametrize("text", ["2024-02-29", "2024-02-29T03:00:00+02:00", "2024-02-29 03:00"])
def test_a_date_or_instant_is_recognised(text):
    assert is_date_or_instant(text)


@pytest.mark.parametrize("text", ["2023-02-29", "20240229", "2024-W01-1", "today", "", "2024-02-29T25:00"])
def test_what_is_no_date_is_not(text):
    assert not is_date_or_instant(text)
