"""Domains on either side: they count as what they are made of, and the target's own are obeyed row by row."""

from __future__ import annotations

from tests.integration.campaigns import History, checked, manifest_text

DOMAINS = """
CREATE TYPE source.mood AS ENUM ('sad', 'glad');
CREATE TYPE source.pair AS (a integer, b text);
CREATE DOMAIN source.small AS integer CHECK (value < 1000);
CREATE DOMAIN source.smaller AS source.small NOT NULL DEFAULT 7;
CREATE DOMAIN source.feeling AS source.mood CHECK (value <> 'sad');
CREATE DOMAIN source.known_pair AS source.pair CHECK (value IS NULL OR (value).a IS NOT NULL);
CREATE DOMAIN source.list AS integer[] CHECK (cardinality(value) > 0);
"""
PAIRS = {
    ("source.small", "source.small"): "id",
    ("source.smaller", "source.small"): "id",
    ("source.small", "source.smaller"): "id",
    ("source.small", "integer"): "id",
    ("source.small", "bigint"): "id",
    ("integer", "source.smaller"): "id",
    ("source.feeling", "source.mood"): "'glad'",
    ("source.feeling", "source.feeling"): "'glad'",
    ("source.mood", "source.feeling"): "'glad'",
    ("source.feeling", "text"): "'glad'",
    ("source.known_pair", "source.pair"): "ROW(id, 'x')",
    ("source.pair", "source.known_pair"): "ROW(id, 'x')",
    ("source.small[]", "integer[]"): "ARRAY[id, NULL]",
    ("integer[]", "source.small[]"): "ARRAY[id]",
    ("source.small[]", "source.small[]"): "ARRAY[id]",
    ("source.list", "integer[]"): "ARRAY[id, NULL]",
    ("integer[]", "source.list"): "ARRAY[id]",
    ("source.feeling[]", "source.mood[]"): "'{glad,glad}'",
    ("source.known_pair[]", "source.pair[]"): "ARRAY[ROW(id, 'x')::source.known_pair]",
}
NEEDED = [number for number, pair in enumerate(PAIRS) if "source.smaller" in pair]


def test_domains_and_what_they_are_made_of_go_into_each_other(history: History) -> None:
    history.sql(DOMAINS)
    for number, ((source, target), value) in enumerate(PAIRS.items()):
        history.sql(f"ALTER TABLE source.history ADD c{number} {source}")
        history.sql(f"ALTER TABLE target.history ADD c{number} {target}")
        history.sql(f"UPDATE source.history SET c{number} = {value} WHERE id % 3 > 0 OR {number in NEEDED}")
    done = history.run("run", history.manifest(checked(manifest_text())))
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


def test_null_in_a_domain_of_the_target_that_takes_none_fails_its_chunk_by_name(history: History) -> None:
    history.sql(DOMAINS)
    history.sql(
        "ALTER TABLE source.history ADD c integer DEFAULT 1; ALTER TABLE target.history ADD c source.smaller"
    )
    history.sql("UPDATE source.history SET c = NULL WHERE id = 25")
    failed = history.run("run", history.manifest())
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert "domain source.smaller does not allow null values" in failed.stderr


def test_a_column_that_the_source_lacks_may_get_the_default_of_its_domain(history: History) -> None:
    history.sql(DOMAINS)
    history.sql("ALTER TABLE target.history ADD c source.smaller")
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    assert [(7, 60)] == history.sql("SELECT c::integer, count(*) FROM target.history GROUP BY 1")


def test_a_domain_that_takes_no_null_and_has_no_default_needs_a_column(history: History) -> None:
    history.sql(
        "CREATE DOMAIN source.needed AS integer NOT NULL; CREATE DOMAIN source.above AS source.needed"
    )
    history.sql("ALTER TABLE target.history ADD c source.above")
    refused = history.run("run", history.manifest())
    assert (2, "DPONE_COLUMNS_DIFFER") == (refused.exit_code, refused.error_code), refused.output
    assert "c (integer NOT NULL) is missing in the source" in refused.stderr


def test_a_created_target_has_what_a_domain_is_made_of(history: History) -> None:
    history.sql(DOMAINS)
    history.sql(
        "ALTER TABLE source.history ADD a source.smaller, ADD b source.feeling, ADD c source.known_pair, ADD d source.list,"
        " ADD e source.small[]; DROP TABLE target.history"
    )
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)
    assert [("integer",), ("source.mood",), ("source.pair",), ("integer[]",), ("integer[]",)] == history.sql(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'target.history'::regclass AND attnum > 5 ORDER BY attnum"
    )
