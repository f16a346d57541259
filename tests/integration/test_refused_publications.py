"""Campaigns that are loaded and cannot be published: the code, the way out, and that nothing was exchanged."""

from __future__ import annotations

import psycopg
import pytest

from dpone_contract.errors import ExitCode
from dpone_packbuilder.cli import run_command_line
from dpone_runtime.adapters.postgres import swap
from dpone_runtime.adapters.sql import ledger
from tests.integration.campaigns import History
from tests.integration.publications import relation, status, swapped, tables

KEY = "    mode: backfill\n    unique_key: [day, note]\n"


def shadow(history: History) -> str:
    """Give the one table beside the live one."""
    live, found = tables(history)
    assert (live, True) == ("history", found.startswith("history__dpone_shadow_"))
    return f'target."{found}"'


def test_a_live_table_with_a_trigger_is_refused(history: History) -> None:
    history.sql(
        "CREATE FUNCTION target.stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "CREATE TRIGGER stamp BEFORE INSERT ON target.history FOR EACH ROW EXECUTE FUNCTION target.stamp()"
    )
    told = history.run("run", history.manifest(swapped()))
    code = "DPONE_BACKFILL_PUBLICATION_REFUSED"
    assert (ExitCode.REFUSED, code) == (told.exit_code, told.error_code), told.output
    assert f"error {code}: target.history cannot be exchanged by a swap: trigger stamp\n" in told.stderr
    assert "  at: table target.history\n  next: take this away and bring it back" in told.stderr
    assert not history.has_ledger_rows()
    assert ["history"] == tables(history)


def test_a_row_that_somebody_has_written_into_the_shadow_is_noticed(history: History) -> None:
    history.add_stale_rows()
    before, old = relation(history), history.content("target.history")
    # The third day does not fit, so that the campaign waits with two of three.
    history.sql("ALTER TABLE target.history ADD CONSTRAINT kept CHECK (id < 45)")
    manifest = history.manifest(swapped())
    assert 1 == history.run("run", manifest).exit_code
    history.sql(f"INSERT INTO {shadow(history)} (id) VALUES (7)")
    history.sql("DELETE FROM source.history WHERE id >= 45")

    told = history.run("run", manifest)

    code = "DPONE_BACKFILL_PUBLICATION_MISMATCH"
    assert (ExitCode.VERIFICATION_MISMATCH, code) == (told.exit_code, told.error_code), told.output
    assert "holds 46 rows, and 45 were committed into it; the live table is untouched" in told.stderr
    assert "  at: table target.history__dpone_shadow_" in told.stderr
    assert "  next: find out who writes to it" in told.stderr
    assert ("complete", before, old) == (
        status(history),
        relation(history),
        history.content("target.history"),
    )
    # Whoever takes it away again has it published.
    history.sql(f"DELETE FROM {shadow(history)} WHERE day IS NULL")
    done = history.run("run", manifest)
    assert (0, "published") == (done.exit_code, status(history)), done.output


def test_a_key_that_stands_twice_is_not_published(history: History) -> None:
    history.add_stale_rows()
    old = history.content("target.history")
    text = swapped().replace("    mode: backfill\n", KEY)

    told = history.run("run", history.manifest(text))

    code = "DPONE_BACKFILL_PUBLICATION_MISMATCH"
    assert (ExitCode.VERIFICATION_MISMATCH, code) == (told.exit_code, told.error_code), told.output
    # Of each day an empty note and one with a tab; rows without a note are no key.
    assert "6 values of the unique key (day, note) stand more than once in the shadow" in told.stderr
    assert "  next: mend the source's keys" in told.stderr
    assert ("complete", old) == (status(history), history.content("target.history"))


def test_a_reader_that_stays_keeps_the_tables_from_being_exchanged(
    history: History, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = relation(history)
    manifest = history.manifest(swapped())
    for name, value in history.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(swap, "TABLES_LOCK_WAIT_MS", 100)
    monkeypatch.setattr(ledger, "SWAP_TRIES", 1)
    with psycopg.connect(history.uri, application_name="report") as reader:
        reader.execute("SELECT count(*) FROM target.history")

        exit_code = run_command_line(("run", manifest))

        told = capfd.readouterr().err
        assert (ExitCode.OWNERSHIP_OR_INFRASTRUCTURE, True) == (
            exit_code,
            "error DPONE_BACKFILL_PUBLICATION_BUSY: target.history is held by others" in told,
        ), told
        assert f"by session {reader.info.backend_pid} (report, " in told
        assert (
            "  at: table target.history\n  next: everything is loaded: end these sessions, or wait for them, then run this again"
            in told
        )
        assert ("complete", before) == (status(history), relation(history))
        assert {1: ("committed", 1), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()

    assert 0 == run_command_line(("run", manifest))
    assert "published" == status(history)
    # Nothing was moved for it.
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
