"""What a live table would lose by a swap without being told, and runs whose settings are not those of the run before."""

from __future__ import annotations

import psycopg
import pytest

from tests.integration.campaigns import History
from tests.integration.child_runs import Finished
from tests.integration.fault_lane import HOLD
from tests.integration.publications import leave_unpublished, relation, shadow, start, status, swapped, tables
from tests.integration.run_with_faults import FENCE_VARIABLE, PUBLICATION_WAIT_VARIABLE, SWAP_TRIES_VARIABLE
from tests.waiting import wait_until

REFUSED = "DPONE_BACKFILL_PUBLICATION_REFUSED"


def unpublished(history: History) -> str:
    """A campaign that is loaded and not published; its manifest."""
    leave_unpublished(history)
    return history.manifest(swapped())


def require_refused(history: History, done: Finished, told: str, before: str) -> None:
    """Require a run to have been refused for what is told, and the live table to be the one of before."""
    assert (2, REFUSED) == (done.exit_code, done.error_code), done.output
    assert told in done.stderr
    assert before == relation(history)


def test_a_shadow_that_a_crash_would_empty_is_not_published(history: History) -> None:
    before, manifest = relation(history), unpublished(history)
    history.sql(f"ALTER TABLE {shadow(history)} SET UNLOGGED")

    told = history.run("run", manifest)

    require_refused(history, told, "table heap unlogged replica identity d is the shadow's alone", before)
    history.sql(f"ALTER TABLE {shadow(history)} SET LOGGED")
    assert 0 == history.run("run", manifest).exit_code
    assert "p" == history.value("SELECT relpersistence FROM pg_class WHERE oid = 'target.history'::regclass")
    assert "published" == status(history)


OTHER_SETTINGS = (
    "-c search_path=target,public -c timezone=America/New_York -c datestyle=SQL,DMY -c intervalstyle=iso_8601"
)


def test_a_run_whose_session_words_expressions_otherwise_goes_on(history: History) -> None:
    history.sql(
        "CREATE FUNCTION target.one(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 1';"
        "CREATE DOMAIN target.kind AS text;"
        "ALTER TABLE target.history ADD COLUMN at timestamptz DEFAULT '2020-01-01 00:00:00+00',"
        " ADD COLUMN during interval DEFAULT '1 day 2 hours', ADD COLUMN kind target.kind,"
        " ADD COLUMN one integer DEFAULT target.one(1);"
        "CREATE INDEX history_late ON target.history (target.one(id)) WHERE at > '2020-01-01 00:00:00+00'"
    )
    history.sql("SET timezone = 'UTC'")
    before, manifest = relation(history), unpublished(history)

    done = history.run("run", manifest, environ={"PGOPTIONS": OTHER_SETTINGS})

    assert 0 == done.exit_code, done.output
    assert "published" == status(history)
    assert before != relation(history)
    late = "SELECT pg_get_indexdef('target.history_late'::regclass)"
    assert str(history.value(late)).endswith(
        "WHERE (at > '2020-01-01 00:00:00+00'::timestamp with time zone)"
    )


BUILDING = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'CREATE INDEX %' AND wait_event = 'advisory')
"""
SILENT = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'dpone fence'
                  AND state_change < clock_timestamp() - interval '1500 ms')
"""
WAITS_FOR_A_TABLE = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'dpone ledger'
                  AND wait_event_type = 'Lock' AND wait_event = 'relation')
"""
SUBSCRIPTION = """
CREATE SUBSCRIPTION filling CONNECTION 'dbname=elsewhere' PUBLICATION theirs WITH (connect = false, slot_name = NONE, enabled = false);
INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate)
SELECT oid, 'target.history'::regclass, 'r' FROM pg_subscription WHERE subname = 'filling'
"""
HANGING = {
    "statistics target of index target.by_note": "CREATE INDEX by_note ON target.history (lower(note));"
    "ALTER INDEX target.by_note ALTER COLUMN 1 SET STATISTICS 777",
    "privileges or a comment on its row type": "COMMENT ON TYPE target.history IS 'a row'",
    "used by trigger pair on table target.other": "CREATE TABLE target.other (id integer);"
    "CREATE FUNCTION target.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
    "CREATE CONSTRAINT TRIGGER pair AFTER INSERT ON target.other FROM target.history FOR EACH ROW EXECUTE FUNCTION target.f()",
    "it is filled by subscription filling": SUBSCRIPTION,
}


@pytest.mark.parametrize("told", HANGING)
def test_what_would_stay_with_the_backup_in_silence_is_refused(history: History, told: str) -> None:
    history.sql(HANGING[told])
    before, found = relation(history), tables(history)

    done = history.run("run", history.manifest(swapped()))

    history.sql("DROP SUBSCRIPTION IF EXISTS filling")  # no database goes that has one
    require_refused(history, done, told, before)
    assert found == tables(history)


def test_what_an_event_trigger_gives_every_table_is_noticed_before_anything_is_loaded(
    history: History,
) -> None:
    history.sql(
        "CREATE FUNCTION target.close() RETURNS event_trigger LANGUAGE plpgsql AS $$ DECLARE made record; BEGIN"
        " FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE schema_name = 'target' LOOP"
        " EXECUTE 'ALTER TABLE ' || made.object_identity || ' ENABLE ROW LEVEL SECURITY'; END LOOP; END $$;"
        "CREATE EVENT TRIGGER close ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION target.close()"
    )
    before = relation(history)

    done = history.run("run", history.manifest(swapped()))

    require_refused(history, done, "row security", before)
    assert (["history"], False) == (tables(history), history.has_ledger_rows())


def test_a_users_own_tablespace_is_not_the_shadows(history: History) -> None:
    history.sql("CREATE INDEX by_note ON target.history (note)")
    history.sql("SET allow_in_place_tablespaces = on")
    history.sql("CREATE TABLESPACE of_user LOCATION ''")
    try:
        done = history.run(
            "run", history.manifest(swapped()), environ={"PGOPTIONS": "-c default_tablespace=of_user"}
        )
        assert 0 == done.exit_code, done.output
        found = "SELECT DISTINCT reltablespace FROM pg_class WHERE relnamespace = 'target'::regnamespace"
        assert [(0,)] == history.sql(found)
    finally:
        history.sql("DROP SCHEMA IF EXISTS dpone_audit CASCADE")  # the ledger is where the user's tables are
        history.sql("DROP TABLE IF EXISTS target.history CASCADE")
        history.sql("DROP TABLESPACE of_user")


def test_rows_that_an_index_does_not_take_are_told_with_a_way_out_that_works(history: History) -> None:
    history.sql(
        "CREATE FUNCTION target.share(id integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 1 / (id - 7)';"
        "CREATE INDEX shares ON target.history (target.share(id))"
    )
    before, manifest = relation(history), history.manifest(swapped(mode="partition_replace"))

    done = history.run("run", manifest)

    code = "DPONE_BACKFILL_PUBLICATION_MISMATCH"
    assert (4, code, before) == (done.exit_code, done.error_code, relation(history)), done.output
    assert (
        "index shares of target.history cannot be built on what was loaded: division by zero" in done.stderr
    )
    assert "dpone backfill restart MANIFEST --reason" in done.stderr
    history.sql("UPDATE source.history SET id = 70 WHERE id = 7")
    again = history.run("backfill", "restart", manifest, "--reason", "mended", "--execute")
    assert (0, "published") == (again.exit_code, status(history)), again.output


def test_no_index_is_built_for_a_live_table_that_has_changed(history: History) -> None:
    """What the live table gets at the last moment would have to go from the shadow again, after hours perhaps."""
    before = relation(history)
    run = start(history, faults=[("completed", 0, HOLD)])
    run.wait_for("completed", 0)
    history.sql("CREATE INDEX late ON target.history (note)")
    run.release()

    done = run.finish()

    require_refused(history, done, "target.history has changed since the load into its shadow began", before)
    assert "is built" not in done.stderr
    history.sql("DROP INDEX target.late")
    assert 0 == history.run("run", history.manifest(swapped())).exit_code


def test_a_run_that_builds_an_index_for_long_keeps_its_fence(history: History) -> None:
    """It asks for nothing meanwhile; a second run that took it for silent would end its fence, and it could not publish."""
    history.sql(
        "CREATE FUNCTION target.slow(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN $1; END';"
        "CREATE INDEX slow ON target.history (target.slow(note)); SELECT pg_advisory_lock(7)"
    )
    first = start(history)
    wait_until(lambda: bool(history.value(BUILDING)), 60, "the index that is built")
    wait_until(lambda: bool(history.value(SILENT)), 60, "the silence of the first run")

    second = history.run(
        "run",
        history.manifest(swapped()),
        faults=[],
        environ={FENCE_VARIABLE: "1", PUBLICATION_WAIT_VARIABLE: "1"},
    )

    assert "DPONE_BACKFILL_CAMPAIGN_BUSY" == second.error_code, second.output
    assert "is held by another run" in second.stderr
    history.sql("SELECT pg_advisory_unlock(7)")
    done = first.finish()
    assert (0, "published") == (done.exit_code, status(history)), done.output


def test_the_way_out_of_a_shadow_that_is_gone_is_one(history: History) -> None:
    manifest = unpublished(history)
    history.sql(f"DROP TABLE {shadow(history)}")

    done = history.run("run", manifest)

    assert (2, "DPONE_BACKFILL_CAMPAIGN_DRIFT") == (done.exit_code, done.error_code), done.output
    assert (
        "cancel this campaign (dpone backfill cancel MANIFEST --reason ...) and begin another" in done.stderr
    )
    assert 0 == history.run("backfill", "cancel", manifest, "--reason", "its shadow is gone").exit_code
    another = swapped().replace("    backfill:\n", "    backfill:\n      backfill_id: another\n")
    assert 0 == history.run("run", history.manifest(another, file="another.yaml")).exit_code
    assert 60 == history.value("SELECT count(*) FROM target.history")


def test_a_reader_of_the_shadow_is_named_and_keeps_no_reader_of_the_live_table_waiting(
    history: History,
) -> None:
    manifest = unpublished(history)
    with psycopg.connect(history.uri, application_name="curious") as reader, history.cursor() as other:
        reader.execute(f"SELECT count(*) FROM {shadow(history)}".encode())
        run = history.start("run", manifest, faults=[], environ={SWAP_TRIES_VARIABLE: "1"})
        wait_until(lambda: bool(history.value(WAITS_FOR_A_TABLE)), 30, "the wait for the shadow")
        other.execute("SET lock_timeout = '500ms'")
        other.execute("SELECT count(*) FROM target.history")
        done = run.finish()

        assert (5, "DPONE_BACKFILL_PUBLICATION_BUSY") == (done.exit_code, done.error_code), done.output
        assert f"{shadow(history)}".replace('"', "") + " is held by others" in done.stderr
        assert f", by session {reader.info.backend_pid} (curious, " in done.stderr
    assert 0 == history.run("run", manifest).exit_code
