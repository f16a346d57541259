"""Faults of a database that pass by themselves, and one that does not: whatever it costs, each chunk's rows are there once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from quickstart.embedded_postgres import EmbeddedPostgres
from tests.integration.answer_swallower import AnswerSwallower
from tests.integration.campaigns import History, day, manifest_text, mapped_process
from tests.integration.fault_lane import ADMIN_VARIABLE, BEFORE_LOAD, END_SINK, HOLD, LOCK_WAIT_VARIABLE
from tests.integration.test_mistakes import PASSWORD, as_user
from tests.waiting import wait_until

TWICE = ["claimed", "failed", "claimed", "committed"]


def waits_for_a_lock(history: History, application_name: str) -> bool:
    text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock' AND datname = current_database()"
    return history.value(text, application_name) != 0


# The answer to COMMIT.


@pytest.mark.parametrize("mapped", [False, True], ids=["internal", "mapped"])
@pytest.mark.parametrize("committed", [True, False], ids=["it happened", "it did not"])
def test_an_answer_to_commit_that_is_lost(history: History, *, committed: bool, mapped: bool) -> None:
    history.add_stale_rows()
    with AnswerSwallower(history.uri, committed=committed) as proxy:
        environ = {"DPONE_CONN_TARGET_DB": proxy.uri}
        if mapped:
            done = history.start_item(mapped_process(3), environ=environ).finish()
        else:
            done = history.run("run", history.manifest(), environ=environ)
        assert 1 == proxy.swallowed
    assert 0 == done.exit_code, done.output
    # The row tells which of the two it was; nobody guesses.
    assert {1: ("committed", 1 if committed else 2), 2: ("committed", 1), 3: ("committed", 1)} == (
        history.chunks()
    )
    assert (["claimed", "committed"] if committed else TWICE) == history.events(1)
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert (3, 60) == (done.outcome.backfill.chunks_committed, done.outcome.backfill.rows_loaded)
    history.require_loaded(3)


@pytest.mark.parametrize("committed", [True, False], ids=["it happened", "it did not"])
def test_an_append_whose_answer_to_commit_is_lost_is_there_once(history: History, *, committed: bool) -> None:
    text = manifest_text(3).replace(
        "    backfill:\n", "    backfill:\n      inner_mode: incremental_append\n"
    )
    with AnswerSwallower(history.uri, committed=committed) as proxy:
        done = history.run("run", history.manifest(text), environ={"DPONE_CONN_TARGET_DB": proxy.uri})
    assert 0 == done.exit_code, done.output
    history.require_loaded(3)


# Locks.


@contextmanager
def other_session(history: History) -> Iterator[psycopg.Connection]:
    with psycopg.connect(history.uri, application_name="other") as connection:
        yield connection
        connection.rollback()


def test_a_deadlock_costs_its_victim_a_second_attempt(history: History) -> None:
    history.add_stale_rows()
    run = history.start("run", history.manifest(), faults=[("guarded", 2, HOLD)])
    run.wait_for("guarded", 2)
    change = "UPDATE target.history SET note = 'theirs' WHERE day = %s AND id = %s"
    with other_session(history) as other, ThreadPoolExecutor(1) as thread:
        # The lane has begun to wait first, and finds the deadlock first.
        other.execute("SET deadlock_timeout = '1min'")
        other.execute(change, (day(2), -3))
        run.release()
        wait_until(lambda: waits_for_a_lock(history, "dpone sink"), what="the lane's wait for the row")
        other_waits = thread.submit(other.execute, change, (day(2), -1))
        other_waits.result(30)
        other.rollback()
    done = run.finish()
    assert 0 == done.exit_code, done.output
    assert "chunk 2 is tried again in 1 s: deadlock detected (SQLSTATE 40P01)" in done.stderr
    assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
    assert TWICE == history.events(2)
    history.require_loaded(3)


@pytest.mark.parametrize("table, session", [("target", "sink"), ("source", "source")])
def test_a_lock_on_a_table_that_goes_in_time_costs_a_second_attempt(
    history: History, table: str, session: str
) -> None:
    history.add_stale_rows()
    environ = {LOCK_WAIT_VARIABLE: "300"}
    run = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 2, HOLD)], environ=environ)
    run.wait_for(BEFORE_LOAD, 2)
    with other_session(history) as other:
        other.execute(f"LOCK TABLE {table}.history IN ACCESS EXCLUSIVE MODE".encode())
        run.release()
        run.wait_for_words("canceling statement due to lock timeout (SQLSTATE 55P03)")
    done = run.finish()
    assert 0 == done.exit_code, done.output
    chunks = history.chunks()
    assert "committed" == chunks[2][0]
    assert chunks[2][1] in (2, 3)
    assert TWICE[:2] == history.events(2)[:2]
    history.require_loaded(3)


def test_a_lock_on_a_table_that_stays_fails_the_chunk_and_says_where_to_look(history: History) -> None:
    before = history.content("target.history")
    environ = {LOCK_WAIT_VARIABLE: "200"}
    run = history.start("run", history.manifest(manifest_text(1)), faults=[], environ=environ)
    with other_session(history) as other:
        other.execute("LOCK TABLE target.history IN ACCESS EXCLUSIVE MODE")
        failed = run.finish()
        assert before == other.execute("SELECT count(*), NULL FROM target.history").fetchone()
    assert (5, "DPONE_DATABASE_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert "(tried 3 times)" in failed.stderr
    assert "pg_locks" in failed.stderr
    assert {1: ("failed", 3)} == history.chunks()
    assert 0 == history.run("backfill", "resume", history.manifest(manifest_text(1))).exit_code
    history.require_loaded(1)


# Servers.


def test_a_server_that_takes_no_further_session_is_asked_again(history: History) -> None:
    history.add_reader("crowded", PASSWORD)
    history.sql(
        "GRANT INSERT, DELETE ON target.history TO crowded; CREATE SCHEMA dpone_audit AUTHORIZATION crowded"
    )
    crowded = as_user(history.uri, "crowded")
    run = history.start(
        "run",
        history.manifest(),
        faults=[("deleted", 2, END_SINK), ("guarded", 2, HOLD)],
        environ={"DPONE_CONN_TARGET_DB": crowded, ADMIN_VARIABLE: history.uri},
    )
    run.wait_for("guarded", 2)
    # Who is connected stays so; whoever comes anew is refused.
    history.sql("ALTER ROLE crowded CONNECTION LIMIT 2")
    run.release()
    run.wait_for_words("too many connections for role")
    history.sql("ALTER ROLE crowded CONNECTION LIMIT -1")
    done = run.finish()
    assert 0 == done.exit_code, done.output
    # The second chunk lost its session, the third found no place for another.
    assert [TWICE, TWICE] == [history.events(2), history.events(3)]
    history.require_loaded(3)


WIDE = f"UPDATE source.history SET note = repeat('x', 1000000) WHERE day = '{day(2)}'"


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server that a test may break."""
    with EmbeddedPostgres() as server:
        yield server


def crash(server: EmbeddedPostgres) -> None:
    """Kill one server process: the server ends every session, recovers from its log, and takes connections again."""
    with psycopg.connect(server.uri(), autocommit=True) as connection:
        found = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert found is not None
        os.kill(found[0], 9)

    def recovered() -> bool:
        try:
            psycopg.connect(server.uri()).close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(recovered, 30, "the recovery of the server")


def test_a_source_that_crashes_in_mid_copy_costs_another_attempt(
    history: History, own_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    history.sql(WIDE)
    history.add_stale_rows()
    copy_source(history, own_server)
    environ = {"DPONE_CONN_SOURCE_DB": own_server.uri()}
    run = history.start("run", history.manifest(), faults=[("copying", 2, HOLD)], environ=environ)
    run.wait_for("copying", 2)
    crash(own_server)
    run.release()
    done = run.finish()
    assert 0 == done.exit_code, done.output
    assert "chunk 2 is tried again in 1 s" in done.stderr
    # How long the server recovers is the machine's affair: what comes meanwhile costs an attempt too.
    chunks = history.chunks()
    assert {"committed"} == {status for status, _ in chunks.values()}
    assert (1, TWICE[:3], "committed") == (chunks[1][1], history.events(2)[:3], history.events(2)[-1])
    history.require_loaded(3)


def copy_source(history: History, server: EmbeddedPostgres) -> None:
    """Put the same source on another server."""
    with psycopg.connect(server.uri(), autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA source; CREATE TABLE source.history"
            " (day date, id integer NOT NULL, note text, amount bigint, price numeric(14,3))"
        )
        with (
            history.cursor().copy("COPY source.history TO STDOUT") as reading,
            connection.cursor().copy("COPY source.history FROM STDIN") as writing,
        ):
            for block in reading:
                writing.write(block)


@pytest.mark.parametrize("mapped", [False, True], ids=["internal", "mapped"])
@pytest.mark.parametrize("step", ["copying", "before commit"])
def test_a_target_that_crashes_costs_a_second_attempt(
    own_server: EmbeddedPostgres, tmp_path: Path, step: str, *, mapped: bool
) -> None:
    """The ledger is away with it, and told of the failed attempt as soon as it answers again."""
    history = History(own_server.uri(), tmp_path)
    history.add_stale_rows()
    faults = [(step, 2, HOLD)]
    if mapped:
        run = history.start_item(mapped_process(3), faults=faults)
    else:
        run = history.start("run", history.manifest(), faults=faults)
    run.wait_for(step, 2)
    crash(own_server)
    run.release()
    done = run.finish()
    history.close()
    history = History(own_server.uri(), tmp_path, found=True)
    try:
        assert 0 == done.exit_code, done.output
        assert "the ledger does not answer; asking again for up to 30 s" in done.stderr
        assert "chunk 2 is tried again in 1 s" in done.stderr
        assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
        assert TWICE == history.events(2)
        history.require_loaded(3)
    finally:
        history.close()


def test_a_full_disk_is_no_matter_of_waiting(own_server: EmbeddedPostgres, tmp_path: Path) -> None:
    """A file system of a few megabytes, which only root may make."""
    with small_file_system(own_server) as folder:
        history = History(own_server.uri(), tmp_path)
        try:
            history.sql(f"CREATE TABLESPACE small LOCATION '{folder}'")
            history.sql("ALTER TABLE target.history SET TABLESPACE small")
            # Values that cannot be compressed, and that fill the table and not its TOAST alone.
            history.sql(
                "UPDATE source.history SET note = (SELECT string_agg(gen_random_uuid()::text, '') FROM"
                " generate_series(1, 20000 + id)) WHERE day = %s",
                day(2),
            )
            failed = history.run("run", history.manifest())
            assert (5, "DPONE_DATABASE_FAILED") == (failed.exit_code, failed.error_code), failed.output
            assert "No space left on device (SQLSTATE 53100)" in failed.stderr
            assert "free space there, or move the table to another tablespace" in failed.stderr
            assert "is tried again" not in failed.stderr
            assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()
            history.sql("ALTER TABLE target.history SET TABLESPACE pg_default")
            assert 0 == history.run("backfill", "resume", history.manifest()).exit_code
            history.require_loaded(3)
            history.sql("DROP TABLESPACE small")
        finally:
            history.close()


@contextmanager
def small_file_system(server: EmbeddedPostgres) -> Iterator[Path]:
    """Mount 8 MB of memory where the server may write."""
    folder = server.folder / "small"
    owner = (server.folder / "data").stat()
    folder.mkdir()
    mount = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size=8m,uid={owner.st_uid},gid={owner.st_gid},mode=0700",
        "tmpfs",
    ]
    if os.geteuid() != 0 or subprocess.run([*mount, str(folder)], check=False).returncode != 0:
        pytest.skip("only root may mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
