"""Types that differ: what the table lets through keeps every value at its extremes, and what a value does not fit is refused."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import FIRST_DAY, History, checked, manifest_text

PAIRS: dict[tuple[str, str], tuple[str, ...]] = {
    ("smallint", "integer"): ("-32768", "32767"),
    ("smallint", "bigint"): ("-32768", "32767"),
    ("smallint", "numeric(5,0)"): ("-32768", "32767"),
    ("smallint", "real"): ("-32768", "32767", "32765"),
    ("smallint", "double precision"): ("-32768", "32767"),
    ("integer", "bigint"): ("-2147483648", "2147483647"),
    ("integer", "numeric"): ("-2147483648", "2147483647"),
    ("integer", "double precision"): ("-2147483648", "2147483647", "2147483645"),
    ("bigint", "numeric(21,2)"): ("-9223372036854775808", "9223372036854775807"),
    ("oid", "bigint"): ("0", "4294967295"),
    ("real", "double precision"): ("0.1", "NaN", "-Infinity", "1e-45", "3.4028235e38", "-0"),
    ("numeric(5,2)", "numeric"): ("NaN", "-999.99", "1.50"),
    ("numeric(5,2)", "numeric(9,4)"): ("NaN", "-999.99", "1.50"),
    ("character varying(3)", "text"): ("", "日本語", "\\N"),
    ("character varying(3)", "character varying(4)"): ("", "a  "),
    ("text", "character varying"): ("", "日本語"),
    ("character(3)", "character(5)"): ("", "ab"),
    ("character(3)", "character varying(3)"): ("", "ab"),
    ("character(3)", "text"): ("", "ab", "日本語"),
    ("name", "text"): ("a" * 63, ""),
    ("json", "text"): (' {"a" : 1, "a":2} ',),
    ("uuid", "text"): ("ffffffff-ffff-ffff-ffff-ffffffffffff",),
    ("date", "timestamp without time zone"): ("infinity", "-infinity", "4713-01-01 BC", "294276-12-31"),
    ("timestamp(3) without time zone", "timestamp without time zone"): (
        "infinity",
        "2013-01-01 00:00:00.123",
    ),
    ("timestamp(0) with time zone", "timestamp(3) with time zone"): ("-infinity", "2013-10-27 02:30:00+01"),
    ("time(0) without time zone", "time without time zone"): ("24:00:00",),
    ("time(0) with time zone", "time with time zone"): ("24:00:00+15:59",),
    ("interval day to second(2)", "interval"): ("3 days 04:05:06.79",),
    ("bit(3)", "bit varying(3)"): ("101",),
    ("bit varying(3)", "bit varying"): ("", "1"),
    ("cidr", "inet"): ("10.0.0.0/8", "::/0"),
    ("macaddr", "macaddr8"): ("08:00:2b:01:02:03",),
}


def test_every_pair_keeps_its_extremes(history: History) -> None:
    history.sql("DROP TABLE source.history, target.history")
    for schema, side in (("source", 0), ("target", 1)):
        columns = ", ".join(f"c{number} {pair[side]}" for number, pair in enumerate(PAIRS))
        history.sql(f"CREATE TABLE {schema}.history (day date, id integer, {columns})")
    for number, values in enumerate(PAIRS.values()):
        for row, value in enumerate((*values, None)):
            history.sql(
                f"INSERT INTO source.history (day, id, c{number}) VALUES ('{FIRST_DAY}', %s, %s)",
                number * 100 + row,
                value,
            )
    planned = history.run("backfill", "plan", history.manifest(manifest_text(1)), "--connect")
    assert 0 == planned.exit_code, planned.output
    assert "c0 is loaded as integer" in planned.stdout
    done = history.run("run", history.manifest(checked(manifest_text(1))))
    assert 0 == done.exit_code, done.output
    for number, (source, target) in enumerate(PAIRS):
        lost = history.sql(
            f"SELECT s.c{number}::text, t.c{number}::text FROM source.history s FULL JOIN target.history t USING (id)"
            # There and back again: the target's value as the source's type is the value that it was.
            f" WHERE s.id IS NULL OR t.c{number}::{source}::text IS DISTINCT FROM s.c{number}::text"
        )
        assert [] == lost, (source, target)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Havana"])
def test_dates_become_midnights_of_the_declared_zone(history: History, zone: str) -> None:
    """Havana puts its clocks back at one o'clock: 2013-11-03 has midnight twice."""
    history.sql(
        f"UPDATE source.history SET day = day + 305; ALTER TABLE target.history ALTER day TYPE timestamptz"
        f" USING day AT TIME ZONE '{zone}'"
    )
    text = manifest_text(4, first="2013-11-02", last="2013-11-05")
    text = text.replace("        step: 1d\n", f"        step: 1d\n        timezone: {zone}\n")
    done = history.run("run", history.manifest(checked(text)))
    assert 0 == done.exit_code, done.output
    days = history.sql(
        "SELECT s.id, s.day = (t.day AT TIME ZONE %s)::date FROM source.history s JOIN target.history t USING (id)",
        zone,
    )
    assert 80 == len(days)
    assert all(same for _, same in days)


def test_a_value_that_the_target_cannot_hold_fails_its_chunk_without_being_told(history: History) -> None:
    history.sql(
        "ALTER TABLE source.history ADD COLUMN due date; UPDATE source.history SET due = '5874897-12-31' WHERE id = 25"
    )
    history.sql("ALTER TABLE target.history ADD COLUMN due timestamp")
    failed = history.run("run", history.manifest())
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert "date out of range for timestamp" in failed.stderr
    assert "5874897" not in failed.output
    assert ("committed", 1) == history.chunks()[1]
    assert ("failed", 1) == history.chunks()[2]


def test_the_chunk_column_may_be_wider_in_the_target(history: History) -> None:
    history.sql("ALTER TABLE target.history ALTER day TYPE timestamp")
    history.add_stale_rows()
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    assert 60 == history.value("SELECT count(*) FROM target.history WHERE note IS DISTINCT FROM 'stale'")
    assert 21 == history.value("SELECT count(*) FROM target.history WHERE note = 'stale'")
