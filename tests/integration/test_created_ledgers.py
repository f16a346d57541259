"""Many processes that find no ledger at once create one, and nobody, the server included, has an error to tell of."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from quickstart.embedded_postgres import EmbeddedPostgres
from tests.integration.campaigns import History, items_of, mapped_process, opened_history
from tests.integration.create_ledger import WORD
from tests.waiting import wait_until

PROCESSES = 12
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
TABLES = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_name LIKE '\\_\\_dpone\\_\\_%' ORDER BY 1, 2"
LEDGER = [f"__dpone__backfill_{name}" for name in ("campaigns", "chunks", "events", "tallies")]


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """A server whose log is this test's alone."""
    with EmbeddedPostgres() as server:
        yield server


def server_errors(server: EmbeddedPostgres) -> list[str]:
    text = (server.folder / "server.log").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if any(word in line for word in ("ERROR", "FATAL", "PANIC"))]


def test_twelve_processes_create_one_ledger_at_once(own_server: EmbeddedPostgres) -> None:
    own_server.create_database("twelve")
    uri = own_server.uri("twelve")
    command = [sys.executable, "-m", "tests.integration.create_ledger", uri, "dpone_audit"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with psycopg.connect(uri, autocommit=True) as word:
        word.execute("SELECT pg_advisory_lock(%s)", (WORD,))
        processes = [
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for _ in range(PROCESSES)
        ]
        try:
            ready = "all processes to wait for the word"
            wait_until(lambda: word.execute(WAITING, (WORD,)).fetchone() == (PROCESSES,), 60, ready)
            word.execute("SELECT pg_advisory_unlock(%s)", (WORD,))
            said = [process.communicate(timeout=60)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait(20)
        assert [b""] * PROCESSES == said
        assert [0] * PROCESSES == [process.returncode for process in processes]
        assert [("dpone_audit", name) for name in LEDGER] == word.execute(TABLES.encode()).fetchall()
    assert [] == server_errors(own_server)


def test_twelve_mapped_items_begin_one_campaign_where_there_was_no_ledger(
    own_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    """Target, ledger and campaign are missing, and every task of a DAG run starts at once."""
    own_server.create_database("items")
    with opened_history(own_server.uri("items"), tmp_path) as history:
        # The tests' own way to a table with no row is no matter here: a run makes it.
        history.sql("DROP TABLE target.history")
        process = mapped_process(PROCESSES - 2, items=PROCESSES - 2, max_active=PROCESSES)
        indexes = [*range(len(items_of(process))), 0, 1]
        runs = [history.start_item(process, index) for index in indexes]
        ends = [run.finish(180) for run in runs]
        assert [0] * PROCESSES == [done.exit_code for done in ends], "\n".join(done.output for done in ends)
        assert ["opened", "completed"] == history.events(None)
        assert [("dpone_audit", name) for name in LEDGER] == history.sql(TABLES)
        require_whole(history)
    assert [] == server_errors(own_server)


def require_whole(history: History) -> None:
    assert history.content("source.history") == history.content("target.history")
    assert {("committed", 1)} == set(history.chunks().values())
