"""What each inner mode leaves in the target: rows that moved, days that became empty, keys that occur twice, what is refused."""

import pytest

from tests.integration.campaigns import History, day
from tests.integration.child_runs import Finished
from tests.integration.inner_modes import KEY, UNIQUE, mode_text
from tests.waiting import wait_until

ID_UNIQUE = "CREATE UNIQUE INDEX history_id ON target.history (id)"
VERSIONED = """
ALTER TABLE source.history ADD version integer;
ALTER TABLE target.history ADD version integer;
UPDATE source.history SET version = 1
"""
INTERVAL = {"first": "{{ ds }}", "last": "{{ ds }}"}


def load(history: History, mode: str, **told: str) -> Finished:
    chunks = int(told.pop("chunks", "3"))
    return history.run("run", history.manifest(mode_text(mode, chunks, **told)))  # type: ignore[arg-type]  # all text


def run_day(history: History, mode: str, chunk_index: int = 3, **told: str) -> Finished:
    """Run one day, as a DAG run of that logical date does."""
    text = mode_text(mode, **INTERVAL, **told)  # type: ignore[arg-type]  # all text
    return history.run(
        "run", history.manifest(text), environ={"DPONE_LOGICAL_DATE": day(chunk_index).isoformat()}
    )


def require_done(done: Finished) -> None:
    assert 0 == done.exit_code, done.output


def require_refused(refused: Finished, code: str, *words: str) -> None:
    assert code == refused.error_code, refused.output
    for word in words:
        assert word in refused.stderr
    assert "Traceback" not in refused.output


def notes(history: History, where: str) -> list[object]:
    return [row[0] for row in history.sql(f"SELECT note FROM target.history WHERE {where} ORDER BY day, id")]


# A day that became empty, a row that moved.


def empty_one_day_and_move_a_row(history: History) -> None:
    """Of the third day: its rows are gone but one, which is of the fourth now."""
    history.sql("UPDATE source.history SET day = %s WHERE id = 41", day(4))
    history.sql("DELETE FROM source.history WHERE day = %s", day(3))


def test_replaced_intervals_leave_nothing_stale(history: History) -> None:
    for chunk_index in (3, 4):
        require_done(run_day(history, "replace", chunk_index))
    empty_one_day_and_move_a_row(history)
    for chunk_index in (3, 4):
        require_done(run_day(history, "replace", chunk_index))
    window = f"day BETWEEN '{day(3)}' AND '{day(4)}'"
    assert history.content("source.history", window) == history.content("target.history", window)
    assert 21 == history.value("SELECT count(*) FROM target.history")


def test_merged_intervals_keep_what_the_source_has_no_more(history: History) -> None:
    """As the manual says: a merge inserts and updates; it deletes nothing."""
    history.sql(ID_UNIQUE)
    for chunk_index in (3, 4):
        require_done(run_day(history, "incremental_merge", chunk_index, key="[id]"))
    empty_one_day_and_move_a_row(history)
    for chunk_index in (3, 4):
        done = run_day(history, "incremental_merge", chunk_index, key="[id]")
        require_done(done)
        assert "round 2 merges its rows" in done.stderr
    # The moved row is found by its key and moves; what was deleted stays.
    assert [(day(4),)] == history.sql("SELECT day FROM target.history WHERE id = 41")
    assert 19 == history.value("SELECT count(*) FROM target.history WHERE day = %s", day(3))
    assert 40 == history.value("SELECT count(*) FROM target.history")


def test_a_full_refresh_run_again_replaces_the_whole_table(history: History) -> None:
    history.add_stale_rows()
    require_done(run_day(history, "full_refresh"))
    assert history.content("source.history", f"day = '{day(3)}'") == history.content("target.history")
    history.sql("DELETE FROM source.history WHERE id %% 2 = %s", 0)
    done = run_day(history, "full_refresh")
    require_done(done)
    assert "round 2 replaces the whole table" in done.stderr
    assert history.content("source.history", f"day = '{day(3)}'") == history.content("target.history")


def test_readers_see_the_old_rows_while_a_table_is_refreshed(history: History) -> None:
    history.add_stale_rows()
    text = mode_text("full_refresh", 1)
    held = history.start("run", history.manifest(text), faults=[("copied", 1, "hold")])
    held.wait_for("copied", 1)
    history.sql("SET lock_timeout = '2s'")
    assert 30 == history.value("SELECT count(*) FROM target.history")
    held.release()
    require_done(held.finish())
    assert 20 == history.value("SELECT count(*) FROM target.history")


def test_a_full_refresh_overlaps_every_window(history: History) -> None:
    held = history.start(
        "run", history.manifest(mode_text("full_refresh", 1)), faults=[("guarded", 1, "hold")]
    )
    held.wait_for("guarded", 1)
    other = {"first": day(8).isoformat(), "last": day(9).isoformat()}
    refused = history.run("run", history.manifest(mode_text("replace", **other), file="other.yaml"))  # type: ignore[arg-type]  # all text
    require_refused(refused, "DPONE_BACKFILL_OVERLAP", "covers everything")
    held.release()
    require_done(held.finish())


def test_a_full_refresh_of_two_chunks_is_refused(history: History) -> None:
    refused = load(history, "full_refresh")
    require_refused(refused, "DPONE_BACKFILL_PLAN_INVALID", "single-chunk plan")
    assert not history.has_ledger_rows()


# Append.


def test_an_append_keeps_what_is_there_and_adds_each_row_once(history: History) -> None:
    history.add_stale_rows()
    require_done(load(history, "incremental_append"))
    assert 60 == history.value("SELECT count(*) FROM target.history WHERE id >= 0")
    assert 30 == history.value("SELECT count(*) FROM target.history WHERE note = 'stale'")


def test_an_appended_interval_has_no_second_round(history: History) -> None:
    require_done(run_day(history, "incremental_append"))
    versions = history.versions(3)
    again = run_day(history, "incremental_append")
    require_done(again)
    assert "an append is never run twice" in again.stderr
    assert versions == history.versions(3)
    assert ["opened", "completed"] == history.events(None)
    # Another interval is another window.
    require_done(run_day(history, "incremental_append", 4))
    assert 40 == history.value("SELECT count(*) FROM target.history")


@pytest.mark.parametrize("mode", ["incremental_append", "replace"])
def test_an_append_over_what_a_complete_campaign_loaded_needs_a_reason(history: History, mode: str) -> None:
    require_done(load(history, mode))
    window = {"first": day(3).isoformat(), "last": day(4).isoformat()}
    path = history.manifest(mode_text("incremental_append", **window), file="more.yaml")  # type: ignore[arg-type]  # all text
    before = history.content("target.history")
    refused = history.run("run", path)
    require_refused(refused, "DPONE_BACKFILL_OVERLAP", "(complete)", "load them twice", "--reason")
    assert before == history.content("target.history")

    done = history.run("backfill", "run", path, "--execute", "--reason", "the rows were deleted by hand")
    require_done(done)
    assert 100 == history.value("SELECT count(*) FROM target.history")
    assert [("the rows were deleted by hand",)] == history.sql(
        "SELECT detail FROM dpone_audit.__dpone__backfill_events WHERE kind = 'opened' AND detail IS NOT NULL"
    )


def test_an_append_beside_what_is_loaded_needs_none(history: History) -> None:
    require_done(load(history, "incremental_append"))
    window = {"first": day(4).isoformat(), "last": day(5).isoformat()}
    require_done(load(history, "incremental_append", **window))
    assert 100 == history.value("SELECT count(*) FROM target.history")


def test_an_append_over_the_committed_part_of_a_closed_campaign_needs_a_reason(history: History) -> None:
    failed = history.run(
        "run", history.manifest(mode_text("incremental_append")), faults=[("copied", 2, "kill lane")]
    )
    assert 5 == failed.exit_code, failed.output
    cancelled = history.run(
        "backfill", "cancel", history.manifest(mode_text("incremental_append")), "--reason", "wrong"
    )
    require_done(cancelled)
    # Chunks 2 and 3 were never committed; the opener closes the cancelled campaign and sees so.
    window = {"first": day(2).isoformat(), "last": day(3).isoformat()}
    require_done(load(history, "incremental_append", **window))
    window = {"first": day(1).isoformat(), "last": day(1).isoformat()}
    refused = load(history, "incremental_append", **window)
    require_refused(refused, "DPONE_BACKFILL_OVERLAP", "(closed)", "[2013-01-01, 2013-01-02)")
    assert 60 == history.value("SELECT count(*) FROM target.history")


# Merge.


def test_a_merge_updates_by_key_and_inserts_the_rest(history: History) -> None:
    history.sql(UNIQUE)
    history.sql(
        "INSERT INTO target.history (day, id, note) VALUES (%s, 1, 'old'), (%s, -1, 'else')", day(1), day(1)
    )
    done = load(history, "incremental_merge", key=KEY)
    require_done(done)
    assert 61 == history.value("SELECT count(*) FROM target.history")
    assert ["else"] == notes(history, "id < 0")
    window = f"id >= 0 AND day <= '{day(3)}'"
    assert history.content("source.history", window) == history.content("target.history", window)


def test_a_target_that_a_merge_creates_has_the_key(history: History) -> None:
    history.sql("DROP TABLE target.history")
    require_done(load(history, "incremental_merge", key=KEY))
    history.require_loaded(3)


@pytest.mark.parametrize("version", [None, "version"])
def test_keys_that_occur_twice_in_a_chunk_are_counted_and_not_shown(
    history: History, version: str | None
) -> None:
    """With a version they are refused only where both are the newest."""
    history.sql(VERSIONED)
    history.sql(UNIQUE)
    history.sql("INSERT INTO source.history SELECT * FROM source.history WHERE id IN (25, 26)")
    told = {"key": KEY} | ({"version": version} if version else {})
    refused = load(history, "incremental_merge", **told)
    require_refused(refused, "DPONE_BACKFILL_CHUNK_FAILED", "2 keys of unique_key (day, id)")
    assert "25" not in refused.stderr.partition("error ")[2]
    assert 0 == len(history.versions(2))


def test_the_highest_version_of_a_chunk_wins(history: History) -> None:
    history.sql(VERSIONED)
    history.sql(UNIQUE)
    for note, version in (("newest", "3"), ("newer", "2"), ("unversioned", "NULL"), ("as well", "NULL")):
        history.sql(
            f"INSERT INTO source.history (day, id, note, version) VALUES (%s, 25, '{note}', {version})",
            day(2),
        )
    done = load(history, "incremental_merge", key=KEY, version="version")
    require_done(done)
    assert ["newest"] == notes(history, "id = 25")
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    # All are accounted for: four of them were outdone.
    assert (64, 64) == (done.outcome.backfill.rows_extracted, done.outcome.backfill.rows_loaded)
    assert 60 == history.value("SELECT count(*) FROM target.history")


def key_in_two_chunks(history: History) -> None:
    """Row 5 of the first day occurs on the second day too, in an older version."""
    history.sql(VERSIONED)
    history.sql(ID_UNIQUE)
    history.sql("UPDATE source.history SET version = 2, note = 'newer' WHERE id = 5")
    history.sql("INSERT INTO source.history (day, id, note, version) VALUES (%s, 5, 'older', 1)", day(2))


def test_the_newer_of_two_chunks_stays_whichever_commits_last(history: History) -> None:
    key_in_two_chunks(history)
    done = load(history, "incremental_merge", key="[id]", version="version")
    require_done(done)
    assert ["newer"] == notes(history, "id = 5")
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert (61, 61) == (done.outcome.backfill.rows_extracted, done.outcome.backfill.rows_loaded)


def test_without_a_version_the_chunk_that_commits_last_decides(history: History) -> None:
    key_in_two_chunks(history)
    require_done(load(history, "incremental_merge", key="[id]"))
    assert ["older"] == notes(history, "id = 5")


def test_rows_are_written_in_the_order_of_their_key(history: History) -> None:
    """Two transactions that meet in several rows lock them in one order, so that none waits for the other in a circle."""
    history.sql(UNIQUE)
    history.sql(
        "CREATE TABLE source.turned AS SELECT * FROM source.history ORDER BY id DESC;"
        "DROP TABLE source.history; ALTER TABLE source.turned RENAME TO history"
    )
    require_done(load(history, "incremental_merge", key=KEY, chunks="1"))
    written = [row[0] for row in history.sql("SELECT id FROM target.history ORDER BY ctid")]
    assert list(range(20)) == written


def test_a_chunk_waits_for_another_that_merges_the_same_key(history: History) -> None:
    """As a second campaign does, whose chunk meets the first one's in a row; the newer one stays, though it came first."""
    key_in_two_chunks(history)
    told = {"key": "[id]", "version": "version"}
    one = {"first": day(1).isoformat(), "last": day(1).isoformat()}
    two = {"first": day(2).isoformat(), "last": day(2).isoformat()}
    first = history.start(
        "run",
        history.manifest(mode_text("incremental_merge", **one, **told)),  # type: ignore[arg-type]  # all text
        faults=[("merged", 1, "hold")],
    )
    first.wait_for("merged", 1)
    text = mode_text("incremental_merge", **two, **told)  # type: ignore[arg-type]  # all text
    second = history.start("run", history.manifest(text, file="second.yaml"))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'"
    wait_until(lambda: history.value(waiting) == 1, 30, "the wait for the first one's row")
    first.release()
    for run in (first, second):
        require_done(run.finish())
    assert ["newer"] == notes(history, "id = 5")
    assert 40 == history.value("SELECT count(*) FROM target.history")


def test_an_interval_run_again_updates_rows_of_the_same_version(history: History) -> None:
    history.sql(VERSIONED)
    history.sql(UNIQUE)
    told = {"key": KEY, "version": "version"}
    require_done(run_day(history, "incremental_merge", **told))
    history.sql("UPDATE source.history SET note = 'mended' WHERE id = 41")
    require_done(run_day(history, "incremental_merge", **told))
    assert ["mended"] == notes(history, "id = 41")


def test_a_row_without_a_version_is_older_than_any(history: History) -> None:
    history.sql(VERSIONED)
    history.sql(UNIQUE)
    history.sql(
        "INSERT INTO target.history (day, id, note, version) VALUES (%s, 1, 'kept', 1), (%s, 2, 'old', NULL)",
        day(1),
        day(1),
    )
    history.sql("UPDATE source.history SET version = NULL WHERE id = 1")
    require_done(load(history, "incremental_merge", key=KEY, version="version"))
    assert ["kept"] == notes(history, "id = 1")
    assert ["old"] != notes(history, "id = 2")


def test_null_in_a_key_is_counted_and_refused(history: History) -> None:
    history.sql("ALTER TABLE source.history ADD part integer; ALTER TABLE target.history ADD part integer")
    history.sql("UPDATE source.history SET part = 1 WHERE id <> 22")
    history.sql("CREATE UNIQUE INDEX ON target.history (id, part)")
    refused = load(history, "incremental_merge", key="[id, part]")
    require_refused(
        refused,
        "DPONE_BACKFILL_CHUNK_FAILED",
        "1 rows of the source have NULL in their unique_key (id, part)",
    )
    assert 0 == len(history.versions(2))


@pytest.mark.parametrize(
    "index",
    [
        "SELECT 1",
        "CREATE INDEX ON target.history (day, id)",
        "CREATE UNIQUE INDEX ON target.history (day, id, amount)",
        "CREATE UNIQUE INDEX ON target.history (id) INCLUDE (day)",
        "CREATE UNIQUE INDEX ON target.history (day, id) WHERE id > 0",
        "CREATE UNIQUE INDEX ON target.history (day, abs(id))",
        "CREATE UNIQUE INDEX ON target.history (day, id, abs(id))",
        "ALTER TABLE target.history ADD UNIQUE (day, id) DEFERRABLE",
    ],
)
def test_a_target_without_a_unique_index_on_the_key_is_refused_by_name(history: History, index: str) -> None:
    history.sql(index)
    refused = load(history, "incremental_merge", key=KEY)
    require_refused(refused, "DPONE_TABLE_UNSUITABLE", "no unique index on exactly unique_key (day, id)")
    shown = history.run(
        "backfill", "plan", history.manifest(mode_text("incremental_merge", key=KEY)), "--connect"
    )
    assert 0 != shown.exit_code
    assert "no unique index" in shown.stderr


def test_the_order_of_the_index_and_further_columns_in_it_do_not_matter(history: History) -> None:
    history.sql("CREATE UNIQUE INDEX ON target.history (id, day) INCLUDE (note)")
    require_done(load(history, "incremental_merge", key=KEY))


def test_a_key_column_that_is_not_loaded_is_refused_by_name(history: History) -> None:
    refused = load(history, "incremental_merge", key="[day, Id]")
    require_refused(refused, "DPONE_COLUMNS_DIFFER", "Id of unique_key")


def test_names_that_need_quotes_are_merged(history: History) -> None:
    for side in ("source", "target"):
        history.sql(f'ALTER TABLE {side}.history RENAME id TO "Ünique ""100%"" id"')
        history.sql(f'ALTER TABLE {side}.history RENAME amount TO "order"')
    history.sql('CREATE UNIQUE INDEX ON target.history (day, "Ünique ""100%"" id")')
    require_done(load(history, "incremental_merge", key="""[day, 'Ünique "100%" id']""", version="order"))
    assert 60 == history.value("SELECT count(*) FROM target.history")


def test_a_table_of_nothing_but_its_key_is_merged(history: History) -> None:
    for side in ("source", "target"):
        history.sql(f"ALTER TABLE {side}.history DROP note, DROP amount, DROP price")
    history.sql(UNIQUE)
    history.sql("INSERT INTO target.history VALUES (%s, 1)", day(1))
    done = load(history, "incremental_merge", key=KEY)
    require_done(done)
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert (60, 60) == (done.outcome.backfill.rows_extracted, done.outcome.backfill.rows_loaded)


def test_rows_that_a_trigger_drops_are_missed(history: History) -> None:
    history.sql(UNIQUE)
    history.sql(
        "CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER dropping BEFORE INSERT ON target.history FOR EACH ROW WHEN (new.id = 7)"
        " EXECUTE FUNCTION drop_row()"
    )
    done = load(history, "incremental_merge", key=KEY)
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert (60, 59) == (done.outcome.backfill.rows_extracted, done.outcome.backfill.rows_loaded)


def test_the_staging_of_a_chunk_is_gone_before_the_next(history: History) -> None:
    history.sql(UNIQUE)
    held = history.start(
        "run",
        history.manifest(mode_text("incremental_merge", key=KEY)),
        faults=[("guarded", 2, "hold")],
    )
    held.wait_for("guarded", 2)
    assert 0 == history.value("SELECT count(*) FROM pg_class WHERE relname LIKE 'dpone_staging%'")
    held.release()
    require_done(held.finish())


def test_a_merge_leaves_no_table_behind(history: History) -> None:
    history.sql(UNIQUE)
    before = history.value("SELECT count(*) FROM pg_class")
    require_done(load(history, "incremental_merge", key=KEY))
    ledger = history.value("SELECT count(*) FROM pg_class WHERE relnamespace = 'dpone_audit'::regnamespace")
    toast = history.value(
        "SELECT count(*) FROM pg_class t WHERE t.relnamespace = 'pg_toast'::regnamespace AND EXISTS (SELECT FROM pg_class c"
        " LEFT JOIN pg_index i ON i.indrelid = c.reltoastrelid WHERE c.relnamespace = 'dpone_audit'::regnamespace"
        " AND t.oid IN (c.reltoastrelid, i.indexrelid))"
    )
    assert history.value("SELECT count(*) FROM pg_class") == int(str(before)) + int(str(ledger)) + int(
        str(toast)
    )
