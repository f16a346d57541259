"""What of a source is loaded: some columns, some rows; and what is refused before anything moves."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import History, day, manifest_text


def selecting(*lines: str, chunks: int = 3) -> str:
    """Give a manifest with further lines in its source."""
    table = "  table: { schema: source, name: history }\n"
    text = manifest_text(chunks)
    assert 1 == text.count(table)
    return text.replace(table, table + "".join(f"  {line}\n" for line in lines))


def test_columns_that_are_not_named_stay_what_the_target_makes_of_them(history: History) -> None:
    history.sql("ALTER TABLE target.history ALTER note SET DEFAULT 'made here'")
    text = selecting("columns: [id, price, day]")
    done = history.run("run", history.manifest(text))
    assert 0 == done.exit_code, done.output
    assert 60 == history.value(
        "SELECT count(*) FROM target.history WHERE note = 'made here' AND amount IS NULL"
    )
    assert [] == history.sql(
        "SELECT day, id, price FROM source.history WHERE day <= '2013-01-03'"
        " EXCEPT SELECT day, id, price FROM target.history"
    )


@pytest.mark.parametrize(
    "lines", [("exclude_columns: [note]",), ("columns: [day, note, id]", "exclude_columns: [note]")]
)
def test_a_created_target_has_the_columns_that_are_loaded(history: History, lines: tuple[str, ...]) -> None:
    history.sql("DROP TABLE target.history")
    done = history.run("run", history.manifest(selecting(*lines)))
    assert 0 == done.exit_code, done.output
    names = [
        row[0]
        for row in history.sql(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = 'target.history'::regclass AND attnum > 0 ORDER BY attnum"
        )
    ]
    assert (["day", "id"] if len(lines) > 1 else ["day", "id", "amount", "price"]) == names
    assert 60 == history.value("SELECT count(*) FROM target.history")


def test_a_column_that_cannot_be_kept_may_be_left_out(history: History) -> None:
    for schema in ("source", "target"):
        history.sql(f"ALTER TABLE {schema}.history ADD COLUMN odd regclass")
    done = history.run("run", history.manifest(selecting("exclude_columns: [odd]")))
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


@pytest.mark.parametrize(
    "where",
    [
        "id % 2 = 0 OR note LIKE '%10%'",
        "(id % 2 = 0) OR (note LIKE '%10%') -- even ones",
        "\"id\" % 2 = 0 or /* the tenth */ note like '%10%'",
    ],
    ids=["or", "comment", "quotes"],
)
def test_a_filter_says_what_is_read_and_the_whole_slice_is_replaced(history: History, where: str) -> None:
    history.add_stale_rows()
    history.sql("INSERT INTO source.history (day, id) VALUES (NULL, 1)")
    done = history.run("run", history.manifest(selecting(f"where: |\n      {where}")))
    assert 0 == done.exit_code, done.output
    condition = where.partition("--")[0]
    window = "day <= '2013-01-03'"
    assert history.content("source.history", f"{window} AND ({condition})") == history.content(
        "target.history", window
    )
    assert 21 == history.value("SELECT count(*) FROM target.history WHERE note = 'stale'")


def test_another_filter_is_another_campaign(history: History) -> None:
    history.run("run", history.manifest(selecting('where: "id < 50"')))
    told = history.run("run", history.manifest(selecting('where: "id < 51"')))
    assert (2, "DPONE_BACKFILL_CAMPAIGN_DRIFT") == (told.exit_code, told.error_code), told.output


def test_rows_without_a_value_that_the_filter_leaves_out_do_not_count(history: History) -> None:
    history.sql("INSERT INTO source.history (day, id) VALUES (NULL, -1)")
    refused = history.run("run", history.manifest(selecting('where: "id < 50"')))
    assert "DPONE_BACKFILL_NULLS_FOUND" == refused.error_code
    done = history.run("run", history.manifest(selecting('where: "id >= 0"')))
    assert 0 == done.exit_code, done.output


MISTAKES = {
    "a column that is not there": ("columns: [day, Id]", "DPONE_COLUMNS_DIFFER", "'Id'"),
    "an excluded column that is not there": ("exclude_columns: [nota]", "DPONE_COLUMNS_DIFFER", "'nota'"),
    "no chunk column": ("columns: [id]", "DPONE_COLUMNS_DIFFER", "'day'"),
    "an excluded chunk column": ("exclude_columns: [day]", "DPONE_COLUMNS_DIFFER", "'day'"),
    "a column that the target needs": (
        "exclude_columns: [id]",
        "DPONE_COLUMNS_DIFFER",
        "id (integer NOT NULL)",
    ),
    "no column": ("columns: []", "DPONE_MANIFEST_INVALID", "columns"),
    "a column twice": ("columns: [day, id, day]", "DPONE_MANIFEST_INVALID", "each column once"),
    "an empty filter": ('where: " "', "DPONE_MANIFEST_INVALID", "where"),
    "a token in a filter": ("where: \"day = '{{ ds }}'\"", "DPONE_MANIFEST_INVALID", "tokens"),
    "a filter over a column that is not there": ('where: "region = 1"', "DPONE_MANIFEST_INVALID", "region"),
    "a filter that is no condition": ('where: "id"', "DPONE_MANIFEST_INVALID", "boolean"),
    "brackets that do not match": ('where: "true) OR (true"', "DPONE_MANIFEST_INVALID", "source.where"),
    "a further clause": ('where: "true ORDER BY id LIMIT 1"', "DPONE_MANIFEST_INVALID", "source.where"),
    "a second statement": (
        'where: "true; DROP TABLE source.history"',
        "DPONE_MANIFEST_INVALID",
        "source.where",
    ),
    "a comment without an end": ('where: "true /* x"', "DPONE_MANIFEST_INVALID", "source.where"),
    "an aggregate": ('where: "count(*) > 1"', "DPONE_MANIFEST_INVALID", "aggregate"),
    "a value of another type": ("where: \"day > 'soon'\"", "DPONE_MANIFEST_INVALID", "source.where"),
    "a parameter": ('where: "id = $1"', "DPONE_MANIFEST_INVALID", "source.where"),
}


@pytest.mark.parametrize("line, code, told", MISTAKES.values(), ids=MISTAKES)
def test_a_selection_that_does_not_fit_is_refused(history: History, line: str, code: str, told: str) -> None:
    history.sql("ALTER TABLE target.history ALTER id SET NOT NULL")
    for command in (("run",), ("backfill", "plan", "--connect")):
        refused = history.run(*command, history.manifest(selecting(line)))
        assert 2 == refused.exit_code, refused.output
        assert code in refused.stderr
        assert told in refused.stderr
        assert "Traceback" not in refused.output
    assert not history.has_ledger_rows()
    assert 0 == history.value("SELECT count(*) FROM target.history")


@pytest.mark.parametrize("verify", ["counts", "checksum"])
def test_filters_and_views_are_read_on_the_wall_clock_of_the_window(history: History, verify: str) -> None:
    """Whatever zone the database has: midnight of Kathmandu is not one of Berlin, and neither is UTC's."""
    history.sql(
        """
        CREATE TABLE source.instants (id integer, at timestamptz);
        INSERT INTO source.instants SELECT n, timestamptz '2013-01-01 00:00+01' + n * interval '1 hour'
          FROM generate_series(-24, 71) n;
        CREATE VIEW source.history_of_days AS SELECT id, at, at::date AS day FROM source.instants;
        CREATE TABLE target.history_of_days (id integer, at timestamptz, day date)
        """
    )
    history.sql(
        f"ALTER DATABASE \"{history.value('SELECT current_database()')}\" SET TimeZone = 'Asia/Kathmandu'"
    )
    text = (
        manifest_text(3)
        .replace("name: history }", "name: history_of_days }\n  where: at >= '2013-01-01 12:00'", 1)
        .replace("name: history }", "name: history_of_days }")
        .replace("step: 1d", "step: 1d\n        timezone: Europe/Berlin")
        .replace("    backfill:\n", f"    backfill:\n      verify: {verify}\n")
    )
    done = history.run("run", history.manifest(text))
    assert 0 == done.exit_code, done.output
    # Of the first day the second half, by Berlin's clock; then two whole days of Berlin.
    assert [(day(1), 12, 12), (day(2), 24, 24), (day(3), 24, 48)] == history.sql(
        "SELECT day, count(*)::int, min(id) FROM target.history_of_days GROUP BY day ORDER BY day"
    )
    assert 0 == history.run("backfill", "verify", history.manifest(text)).exit_code
