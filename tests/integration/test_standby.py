"""A read replica as the source: it is loaded from, and what its replay ends is tried again, with the lasting cure named."""

from __future__ import annotations

from pathlib import Path

import psycopg
from psycopg import Connection

from quickstart.embedded_postgres import EmbeddedPostgres
from tests.integration.campaigns import History, day
from tests.integration.standby import StandbyPostgres
from tests.waiting import wait_until

# The rows of the second day come once nobody holds a lock that the test takes on the standby: the query keeps its snapshot.
GATE = f"""
ALTER TABLE source.history RENAME TO rows;
CREATE FUNCTION source.gate(day date) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
  IF day = '{day(2)}' THEN PERFORM pg_advisory_xact_lock_shared(7); END IF; RETURN true; END $$;
CREATE VIEW source.history AS SELECT * FROM source.rows WHERE source.gate(day)
"""
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpone source' AND wait_event_type = 'Lock'"


def caught_up(primary: Connection, standby: Connection) -> bool:
    written = primary.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    found = standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written).fetchone()
    return found == (True,)


def test_a_conflict_with_the_replay_of_a_standby_costs_a_second_attempt(
    history: History, tmp_path: Path
) -> None:
    with (
        EmbeddedPostgres(settings={"max_standby_streaming_delay": "0"}) as primary,
        StandbyPostgres(primary) as replica,
        psycopg.connect(primary.uri(), autocommit=True) as writing,
        psycopg.connect(replica.uri(), autocommit=True) as gate,
    ):
        upstream = History(primary.uri(), tmp_path)
        upstream.sql(GATE)
        wait_until(lambda: caught_up(writing, gate), what="the replay of the source")
        gate.execute("SELECT pg_advisory_lock(7)")
        run = history.start("run", history.manifest(), environ={"DPONE_CONN_SOURCE_DB": replica.uri()})
        wait_until(lambda: gate.execute(WAITS).fetchone() == (1,), 30, "the query of the second day")
        # Rows that the query may still read are removed for good; the standby does not wait for it.
        writing.execute("DELETE FROM source.rows WHERE day = %s AND id = 39", (day(2),))
        writing.execute("VACUUM source.rows")
        run.wait_for_words("is tried again")
        gate.execute("SELECT pg_advisory_unlock(7)")
        done = run.finish()
        upstream.close()
    assert 0 == done.exit_code, done.output
    assert "canceling statement due to conflict with recovery (SQLSTATE 40001)" in done.stderr
    assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
    assert ["claimed", "failed", "claimed", "committed"] == history.events(2)
    # As of its second attempt.
    history.sql("DELETE FROM source.history WHERE id = 39")
    history.require_loaded(3)


def test_what_a_standby_keeps_ending_fails_with_the_lasting_cure(history: History) -> None:
    """The server's own words for such a conflict, raised where the replay would: three times, and no chunk is lost."""
    history.sql("ALTER TABLE source.history RENAME TO rows")
    history.sql(
        "CREATE FUNCTION source.gate(day date) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
        f" IF day = '{day(2)}' THEN RAISE EXCEPTION 'canceling statement due to conflict with recovery'"
        " USING ERRCODE = '40001'; END IF; RETURN true; END $$;"
        "CREATE VIEW source.history AS SELECT * FROM source.rows WHERE source.gate(day)"
    )
    failed = history.run("run", history.manifest())
    assert (5, "DPONE_DATABASE_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert "(tried 3 times)" in failed.stderr
    assert "hot_standby_feedback" in failed.stderr
    assert "max_standby_streaming_delay" in failed.stderr
    assert {1: ("committed", 1), 2: ("failed", 3), 3: ("committed", 1)} == history.chunks()
    history.sql(
        "CREATE OR REPLACE FUNCTION source.gate(day date) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
    )
    assert 0 == history.run("backfill", "resume", history.manifest()).exit_code
    assert 60 == history.value("SELECT count(*) FROM target.history")
