"""What may be loaded into, with all that hangs on it, and what may be loaded from; what breaks the promise is refused by name."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import FIRST_DAY, History, day, manifest_text
from tests.integration.test_mistakes import PASSWORD, as_user

PARTITIONED = f"""
ALTER TABLE {{0}}.history RENAME TO flat;
CREATE TABLE {{0}}.history (LIKE {{0}}.flat) PARTITION BY RANGE (day);
CREATE TABLE {{0}}.first PARTITION OF {{0}}.history FOR VALUES FROM ('{FIRST_DAY}') TO ('{day(3)}');
CREATE TABLE {{0}}.rest (price numeric(14,3), day date, note text, id integer NOT NULL, amount bigint);
ALTER TABLE {{0}}.history ATTACH PARTITION {{0}}.rest DEFAULT;
INSERT INTO {{0}}.history SELECT * FROM {{0}}.flat;
"""


def require_same(history: History, chunks: int = 3) -> None:
    window = f"day <= '{day(chunks)}'"
    assert 20 * chunks == history.content("target.history", window)[0]
    assert history.content("source.history", window) == history.content("target.history", window)


def load(history: History) -> None:
    """Load over stale rows; a second run moves nothing."""
    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    require_same(history)
    again = history.run("run", history.manifest())
    assert 0 == again.exit_code, again.output


def test_a_partitioned_target_is_replaced_across_its_partitions(history: History) -> None:
    history.sql(PARTITIONED.format("target"))
    history.add_stale_rows()
    load(history)
    assert [(40,)] == history.sql("SELECT count(*) FROM target.first")


def test_a_row_without_a_partition_fails_its_chunk_alone(history: History) -> None:
    history.sql(PARTITIONED.format("target"))
    history.sql("ALTER TABLE target.history DETACH PARTITION target.rest")
    failed = history.run("run", history.manifest())
    assert 1 == failed.exit_code, failed.output
    assert "no partition" in failed.stderr
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("failed", 1)} == history.chunks()


SOURCES = {
    "a partitioned table": PARTITIONED.format("source"),
    "a table that others inherit from": "CREATE TABLE source.old (more text) INHERITS (source.history);"
    f"INSERT INTO source.old (day, id, more) VALUES ('{FIRST_DAY}', 1000, 'x'); DELETE FROM source.history WHERE id = 3",
    "a view": "ALTER TABLE source.history RENAME TO flat;"
    "CREATE VIEW source.history AS SELECT day, id, note, amount, price FROM source.flat",
    "a materialized view": "ALTER TABLE source.history RENAME TO flat;"
    "CREATE MATERIALIZED VIEW source.history AS SELECT * FROM source.flat",
    "an unlogged table": "ALTER TABLE source.history SET UNLOGGED",
}


@pytest.mark.parametrize("statements", SOURCES.values(), ids=SOURCES)
def test_a_source_may_be(history: History, statements: str) -> None:
    history.sql(statements)
    history.add_stale_rows()
    load(history)


@pytest.mark.parametrize("statements", SOURCES.values(), ids=SOURCES)
def test_a_target_is_created_from(history: History, statements: str) -> None:
    history.sql(statements)
    history.sql("DROP TABLE target.history")
    load(history)
    assert "r" == history.value("SELECT relkind::text FROM pg_class WHERE oid = 'target.history'::regclass")


def test_indexes_keys_triggers_and_views_of_a_target_live_on(history: History) -> None:
    history.sql(
        """
        CREATE TABLE target.days (day date PRIMARY KEY);
        INSERT INTO target.days SELECT DISTINCT day FROM source.history;
        ALTER TABLE target.history ADD PRIMARY KEY (id, day), ADD CHECK (id > -100),
          ADD FOREIGN KEY (day) REFERENCES target.days, ADD UNIQUE (day, id);
        CREATE INDEX ON target.history (lower(note)) WHERE amount > 0;
        CREATE VIEW target.totals AS SELECT day, count(*) AS n FROM target.history GROUP BY day;
        CREATE TABLE target.audit (what text, id integer);
        CREATE FUNCTION target.note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO target.audit VALUES (TG_OP, coalesce(NEW.id, OLD.id)); RETURN coalesce(NEW, OLD); END $$;
        CREATE TRIGGER noted BEFORE INSERT OR DELETE ON target.history FOR EACH ROW EXECUTE FUNCTION target.note_change();
        """
    )
    history.add_stale_rows()
    history.sql("TRUNCATE target.audit")
    load(history)
    assert [("DELETE", 9), ("INSERT", 60)] == history.sql(
        "SELECT what, count(*) FROM target.audit GROUP BY 1 ORDER BY 1"
    )
    assert [(20,)] == history.sql(f"SELECT n FROM target.totals WHERE day = '{FIRST_DAY}'")


def test_a_foreign_key_that_is_not_met_fails_its_chunk_and_says_no_value(history: History) -> None:
    history.sql("CREATE TABLE target.days (day date PRIMARY KEY)")
    history.sql(f"INSERT INTO target.days VALUES ('{FIRST_DAY}')")
    history.sql("ALTER TABLE target.history ADD CONSTRAINT known FOREIGN KEY (day) REFERENCES target.days")
    failed = history.run("run", history.manifest())
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert "known" in failed.stderr
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()


UNFIT = {
    "children": ("CREATE TABLE target.child () INHERITS (target.history)", "inherit from it"),
    "a rule on DELETE": (
        "CREATE RULE keep AS ON DELETE TO target.history DO INSTEAD NOTHING",
        "a rule on DELETE",
    ),
    "an unlogged partition": (
        PARTITIONED.format("target") + "ALTER TABLE target.first SET UNLOGGED",
        "the partition target.first",
    ),
    "a materialized view": (
        "DROP TABLE target.history; CREATE MATERIALIZED VIEW target.history AS SELECT * FROM source.history",
        "a materialized view",
    ),
    "a sequence": ("DROP TABLE target.history; CREATE SEQUENCE target.history", "a sequence"),
    "a foreign table": (
        (
            "DROP TABLE target.history; CREATE FOREIGN DATA WRAPPER w; CREATE SERVER away FOREIGN DATA WRAPPER w;"
            "CREATE FOREIGN TABLE target.history (day date, id integer) SERVER away"
        ),
        "a foreign table",
    ),
}


@pytest.mark.parametrize("statements, told", UNFIT.values(), ids=UNFIT)
@pytest.mark.parametrize("command", [("run",), ("backfill", "plan", "--connect")])
def test_a_target_that_breaks_the_promise_is_refused(
    history: History, statements: str, told: str, command: tuple[str, ...]
) -> None:
    history.sql(statements)
    refused = history.run(*command, history.manifest(manifest_text(1)))
    assert 2 == refused.exit_code, refused.output
    assert "DPONE_TABLE_UNSUITABLE" in refused.stderr
    assert told in refused.stderr
    assert not history.has_ledger_rows()


@pytest.mark.parametrize("schema, side", [("source", "SOURCE_DB"), ("target", "TARGET_DB")])
@pytest.mark.parametrize("command", [("run",), ("backfill", "plan", "--connect")])
def test_row_security_that_hides_rows_is_refused_and_any_other_is_not(
    history: History, schema: str, side: str, command: tuple[str, ...]
) -> None:
    history.add_reader("loader", PASSWORD)
    history.sql(
        "GRANT INSERT, DELETE ON target.history TO loader;"
        f"CREATE POLICY partly ON {schema}.history USING (id < 10); ALTER TABLE {schema}.history ENABLE ROW LEVEL SECURITY"
    )
    environ = {f"DPONE_CONN_{side}": as_user(history.uri, "loader")}
    refused = history.run(*command, history.manifest(), environ=environ)
    assert 2 == refused.exit_code, refused.output
    assert "DPONE_TABLE_UNSUITABLE" in refused.stderr
    assert "row security" in refused.stderr
    assert not history.has_ledger_rows()
    done = history.run(*command, history.manifest())
    assert 0 == done.exit_code, done.output
