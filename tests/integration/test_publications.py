"""Publication by shadow swap on a real server: what is exchanged, what comes with it, what it leaves."""

from __future__ import annotations

import psycopg
import pytest

from dpone_runtime.adapters.postgres.table_contract import table_contract
from tests.integration.campaigns import History, day, manifest_text, mapped_process
from tests.integration.publications import LIVE, receipt, relation, status, swapped, tables

INDEXES = "SELECT indexname FROM pg_indexes WHERE tablename = 'history' AND schemaname = 'target' ORDER BY 1"


def contract(history: History) -> tuple[tuple[str, str], ...]:
    """What makes up the live table."""
    return table_contract(history.connection, int(relation(history)))


@pytest.mark.parametrize("mode", ["incremental_append", "partition_replace", "replace"])
def test_what_was_loaded_is_live_at_once_and_what_was_live_is_kept(history: History, mode: str) -> None:
    history.sql(LIVE)
    history.add_stale_rows()
    before, old, made_of = relation(history), history.content("target.history"), contract(history)
    indexes = history.sql(INDEXES)

    done = history.run("run", history.manifest(swapped(10, mode=mode)))

    assert 0 == done.exit_code, done.output
    assert history.content("source.history") == history.content("target.history")
    assert made_of == contract(history)
    assert indexes == history.sql(INDEXES)
    live, backup = tables(history)
    assert "history" == live
    assert old == history.content(f'target."{backup}"')
    assert before == relation(history, f'target."{backup}"')
    found = receipt(history)
    assert (before, relation(history), 200, f"target.{backup}") == (
        found["replaced_relation"],
        found["live_relation"],
        found["rows"],
        found["backup"],
    )
    assert "published" == status(history)
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert "published" == done.outcome.backfill.campaign_status


def test_indexes_that_keep_no_row_out_are_built_once_everything_is_loaded(history: History) -> None:
    """The chunk that fails is looked at: the shadow has the unique index, the one of the chunk column, and no other."""
    history.sql(LIVE)
    history.sql(
        "CREATE INDEX history_day ON target.history (day); COMMENT ON INDEX target.history_note IS 'of notes'"
    )
    history.sql("UPDATE source.history SET price = -1 WHERE id = 45")
    manifest = history.manifest(swapped(10))
    made_of, indexes = contract(history), history.sql(INDEXES)

    failed = history.run("run", manifest)

    assert 1 == failed.exit_code, failed.output
    found = [str(row[0]) for row in history.sql(INDEXES.replace("= 'history'", "LIKE '%shadow%'"))]
    assert 2 == len(found)
    assert not [name for name in found if "note" in name]
    history.sql("UPDATE source.history SET price = 1 WHERE id = 45")
    done = history.run("run", manifest)
    assert 0 == done.exit_code, done.output
    assert "index history_note is built" in done.stderr
    assert indexes == history.sql(INDEXES)
    assert made_of == contract(history)


def test_statistics_come_with_the_table(history: History) -> None:
    done = history.run("run", history.manifest(swapped(10)))

    assert 0 == done.exit_code, done.output
    assert 200 == history.value("SELECT reltuples::int FROM pg_class WHERE oid = 'target.history'::regclass")


def test_a_full_refresh_is_published_too(history: History) -> None:
    history.add_stale_rows()
    text = swapped(mode="full_refresh", text=manifest_text(10).replace("step: 1d", "step: 10d"))

    done = history.run("run", history.manifest(text))

    assert 0 == done.exit_code, done.output
    assert history.content("source.history") == history.content("target.history")


def test_nothing_is_seen_before_it_is_published(history: History) -> None:
    """A campaign of which a chunk failed has changed nothing that anybody reads; the next run loads the rest and publishes."""
    history.add_stale_rows()
    old = history.content("target.history")
    history.sql("ALTER TABLE target.history ADD CONSTRAINT kept CHECK (id <> 45) NOT VALID")
    history.sql("ALTER TABLE target.history VALIDATE CONSTRAINT kept")
    history.sql("UPDATE source.history SET id = 45, note = 'moved' WHERE id = 44")
    manifest = history.manifest(swapped(10))

    failed = history.run("run", manifest)

    assert 1 == failed.exit_code, failed.output
    assert old == history.content("target.history")
    history.sql("UPDATE source.history SET id = -45 WHERE id = 45")
    done = history.run("run", manifest)
    assert 0 == done.exit_code, done.output
    assert history.content("source.history") == history.content("target.history")


def test_a_published_campaign_has_nothing_to_do(history: History) -> None:
    manifest = history.manifest(swapped())
    assert 0 == history.run("run", manifest).exit_code
    before = (relation(history), tables(history), history.events(None))

    again = history.run("run", manifest)

    assert 0 == again.exit_code, again.output
    assert "no row moved" in again.stdout
    assert before == (relation(history), tables(history), history.events(None))


def test_a_backup_is_dropped_where_nobody_keeps_it(history: History) -> None:
    history.sql(LIVE)
    history.add_stale_rows()
    indexes = history.sql(INDEXES)

    done = history.run("run", history.manifest(swapped(keep=False)))

    assert 0 == done.exit_code, done.output
    assert ["history"] == tables(history)
    assert indexes == history.sql(INDEXES)
    assert receipt(history)["backup"] is None


def test_a_restart_makes_a_second_shadow_and_a_second_backup(history: History) -> None:
    manifest = history.manifest(swapped(mode="partition_replace"))
    assert 0 == history.run("run", manifest).exit_code
    first = relation(history)
    history.sql("UPDATE source.history SET note = 'corrected'")

    done = history.run("backfill", "restart", manifest, "--reason", "corrected upstream", "--execute")

    assert 0 == done.exit_code, done.output
    assert 3 == len(tables(history))
    assert first == receipt(history)["replaced_relation"]
    assert [("corrected",)] == history.sql("SELECT DISTINCT note FROM target.history")
    assert ["opened", "completed", "published", "round_begun", "completed", "published"] == history.events(
        None
    )


def test_items_load_one_shadow_and_the_last_one_publishes(history: History) -> None:
    process = mapped_process(items=3, max_active=3, text=swapped(6))
    done = [history.start_item(process, index) for index in range(3)]

    finished = [run.finish() for run in done]

    assert [0, 0, 0] == [run.exit_code for run in finished], [run.output for run in finished]
    assert 1 == history.events(None).count("published")
    assert history.content("source.history", f"day <= '{day(6)}'") == history.content("target.history")


def test_a_target_that_is_missing_is_made_and_then_exchanged(history: History) -> None:
    history.sql("DROP TABLE target.history")

    done = history.run("run", history.manifest(swapped()))

    assert 0 == done.exit_code, done.output
    assert 2 == len(tables(history))
    assert history.content("source.history", f"day <= '{day(3)}'") == history.content("target.history")


SURFACES = {
    "trigger stamp": "CREATE FUNCTION target.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
    "CREATE TRIGGER stamp AFTER INSERT ON target.history EXECUTE FUNCTION target.f()",
    "rule notes": "CREATE RULE notes AS ON UPDATE TO target.history DO ALSO NOTIFY history",
    "policy mine": "CREATE POLICY mine ON target.history USING (true)",
    "foreign key to_days": "CREATE TABLE target.days (day date PRIMARY KEY);"
    "ALTER TABLE target.history ADD CONSTRAINT to_days FOREIGN KEY (day) REFERENCES target.days",
    "foreign key of target.notes notes_id_fkey": "ALTER TABLE target.history ADD UNIQUE (id);"
    "CREATE TABLE target.notes (id integer REFERENCES target.history (id))",
    "identity column row_id": "ALTER TABLE target.history ADD COLUMN row_id bigint GENERATED ALWAYS AS IDENTITY",
    "sequence that the table owns target.history_row_id_seq": "ALTER TABLE target.history ADD COLUMN row_id bigserial",
    "privileges on column note": "GRANT SELECT (note) ON target.history TO PUBLIC",
    "it is partitioned": "DROP TABLE target.history; CREATE TABLE target.history (LIKE source.history) PARTITION BY RANGE (day);"
    "CREATE TABLE target.all_days PARTITION OF target.history DEFAULT",
    "it is a partition, or inherits, of target.parts": "CREATE TABLE target.parts (LIKE source.history) PARTITION BY RANGE (day);"
    "ALTER TABLE target.parts ATTACH PARTITION target.history DEFAULT",
    "it is of the type target.one": "DROP TABLE target.history; CREATE TYPE target.one AS (day date, id integer, note text, "
    "amount bigint, price numeric(14,3)); CREATE TABLE target.history OF target.one",
    "index that is not valid target.history_twice": "INSERT INTO target.history (id) VALUES (1), (1)",
    "used by rule _RETURN on view target.shown": "CREATE VIEW target.shown AS SELECT id FROM target.history",
    "used by rule _RETURN on materialized view target.kept": "CREATE MATERIALIZED VIEW target.kept AS SELECT id FROM target.history",
    "used by function target.rows()": "CREATE FUNCTION target.rows() RETURNS bigint LANGUAGE sql BEGIN ATOMIC "
    "SELECT count(*) FROM target.history; END",
    "used by function target.first(target.history)": "CREATE FUNCTION target.first(target.history) RETURNS integer LANGUAGE sql AS "
    "'SELECT $1.id'",
    "used by column whole of table target.wholes": "CREATE TABLE target.wholes (whole target.history)",
    "used by column wholes of table target.many": "CREATE TABLE target.many (wholes target.history[])",
    "publication everything": "CREATE PUBLICATION everything FOR ALL TABLES",
    "publication mine": "CREATE PUBLICATION mine FOR TABLE target.history",
    "extended statistics both": "CREATE STATISTICS target.both ON day, id FROM target.history",
    "mark of CLUSTER on index target.history_day": "CREATE INDEX history_day ON target.history (day);"
    "ALTER TABLE target.history CLUSTER ON history_day",
    "replica identity": "ALTER TABLE target.history REPLICA IDENTITY FULL",
    "constraint late CHECK ((id >= 0)) NOT VALID": "ALTER TABLE target.history ADD CONSTRAINT late CHECK (id >= 0) NOT VALID",
}


@pytest.mark.parametrize("surface", SURFACES)
def test_what_no_other_table_can_be_given_is_refused_by_name(history: History, surface: str) -> None:
    history.sql(SURFACES[surface])
    if "not valid" in surface:
        with pytest.raises(psycopg.errors.UniqueViolation):
            history.sql("CREATE UNIQUE INDEX CONCURRENTLY history_twice ON target.history (id)")
    before = tables(history)

    done = history.run("run", history.manifest(swapped()))

    assert (2, "DPONE_BACKFILL_PUBLICATION_REFUSED") == (done.exit_code, done.error_code), done.output
    assert surface in done.stderr
    assert before == tables(history)
    assert not history.has_ledger_rows()
