"""`dpone backfill verify`: what it finds, how much it says that it compared, where it goes on, what it repairs."""

import json

import pytest

from tests.integration.campaigns import History, day, manifest_text, mapped_process
from tests.integration.child_runs import Finished
from tests.integration.inner_modes import KEY, UNIQUE, mode_text
from tests.waiting import wait_until

CHUNKS = 5
VERDICTS = (
    "SELECT chunk_index, kind, attempt FROM dpone_audit.__dpone__backfill_events"
    " WHERE kind IN ('verified', 'differs') ORDER BY event_id"
)


@pytest.fixture
def loaded(history: History) -> History:
    """Five days, all committed."""
    done = history.run("run", history.manifest(manifest_text(CHUNKS)))
    assert 0 == done.exit_code, done.output
    return history


def verify(history: History, *arguments: str, text: str | None = None) -> Finished:
    path = history.manifest(text or manifest_text(CHUNKS))
    return history.run("backfill", "verify", path, *arguments)


def document(finished: Finished) -> dict[str, object]:
    found: dict[str, object] = json.loads(finished.stdout)
    return found


def mark(history: History, chunk_index: int, note: str = "changed") -> None:
    """Change one row of the target by hand, without touching their number."""
    history.sql(
        "UPDATE target.history SET note = %s WHERE id = (SELECT min(id) FROM target.history WHERE day = %s)",
        note,
        day(chunk_index),
    )


def test_what_was_loaded_is_equal(loaded: History) -> None:
    done = verify(loaded, "--format", "json")
    assert 0 == done.exit_code, done.output
    told = document(done)
    assert ("equal", CHUNKS, CHUNKS, 100, 0) == (
        told["status"],
        told["chunks_total"],
        told["chunks_compared"],
        told["rows_compared"],
        told["chunks_different"],
    )
    # Five of the source's ten days are beyond the window.
    assert {"rows_null": 0, "rows_below": 0, "rows_above": 100, "exact": True} == told["coverage"]
    assert [(index, "verified", 1) for index in range(1, CHUNKS + 1)] == loaded.sql(VERDICTS)


@pytest.mark.parametrize("method", ["counts", "content"])
def test_a_row_that_is_missing_is_found_by_either_method(loaded: History, method: str) -> None:
    loaded.sql(
        "DELETE FROM target.history WHERE id = (SELECT min(id) FROM target.history WHERE day = %s)", day(2)
    )
    found = verify(loaded, "--method", method)
    assert 4 == found.exit_code
    assert "DPONE_BACKFILL_VERIFICATION_MISMATCH" in found.stderr
    assert f"5 of 5 chunks compared by {method}" in found.stdout
    assert (
        "chunk 2 [2013-01-02, 2013-01-03): 20 rows in the source, 19 in the target; changed since the load: target"
        in found.stdout
    )


def test_a_row_that_was_changed_is_found_in_its_chunk(loaded: History) -> None:
    mark(loaded, 3, "a secret note")
    found = verify(loaded, "--format", "json")
    assert 4 == found.exit_code
    assert [3] == document(found)["different"]
    assert "20 rows on both sides, and they are not the same" in found.stdout
    assert "a secret note" not in found.output
    # Counts alone cannot see it.
    assert 0 == verify(loaded, "--method", "counts").exit_code


def test_rows_that_changed_places_are_found(loaded: History) -> None:
    """A row that stands twice and one that is gone: the number is the same."""
    loaded.sql("DELETE FROM target.history WHERE id = 21")
    loaded.sql("INSERT INTO target.history SELECT * FROM target.history WHERE id = 22")
    found = verify(loaded)
    assert 4 == found.exit_code
    assert "chunk 2" in found.stdout


def test_the_side_that_changed_is_named_where_the_ledger_kept_a_digest(history: History) -> None:
    text = manifest_text(CHUNKS).replace("    backfill:\n", "    backfill:\n      verify: checksum\n")
    assert 0 == history.run("run", history.manifest(text)).exit_code
    mark(history, 1)
    history.sql("UPDATE source.history SET note = 'newer' WHERE id = 25")
    found = verify(history, text=text)
    assert (
        "chunk 1 [2013-01-01, 2013-01-02): 20 rows on both sides, and they are not the same; changed since the load: target"
        in found.stdout
    )
    assert (
        "chunk 2 [2013-01-02, 2013-01-03): 20 rows on both sides, and they are not the same; changed since the load: source"
        in found.stdout
    )


def test_an_incomplete_campaign_is_never_told_to_be_equal(history: History) -> None:
    history.sql("ALTER TABLE target.history ADD CHECK (day <> '2013-01-04')")
    failed = history.run("run", history.manifest(manifest_text(CHUNKS)))
    assert 1 == failed.exit_code
    found = verify(history)
    assert 3 == found.exit_code
    assert "DPONE_BACKFILL_VERIFICATION_INCOMPLETE" in found.stderr
    path = history.manifest(manifest_text(CHUNKS))
    assert f"next: dpone backfill resume {path}, then verify again" in found.stderr
    assert 0 == history.run("backfill", "cancel", path, "--reason", "later").exit_code
    assert f"resume {path} --reason ..., then" in verify(history).stderr
    assert 1 == history.run("backfill", "resume", path, "--reason", "go on").exit_code
    assert "3 of 5 chunks compared" in found.stdout
    assert "2 chunks are not committed" in found.stdout
    # Once it is complete everything is compared: what was equal then may have been changed since.
    history.sql("ALTER TABLE target.history DROP CONSTRAINT history_day_check")
    assert 0 == history.run("backfill", "resume", history.manifest(manifest_text(CHUNKS))).exit_code
    done = verify(history, "--format", "json")
    told = document(done)
    assert (0, "equal", 5, 0) == (
        done.exit_code,
        told["status"],
        told["chunks_compared"],
        told["chunks_compared_before"],
    )


def test_a_difference_in_an_incomplete_campaign_is_a_mismatch_and_not_repaired(history: History) -> None:
    history.sql("ALTER TABLE target.history ADD CHECK (day <> '2013-01-04')")
    assert 1 == history.run("run", history.manifest(manifest_text(CHUNKS))).exit_code
    mark(history, 1)
    found = verify(history, "--repair", "--reason", "changed by hand")
    assert 4 == found.exit_code
    assert "dpone backfill resume" in found.stderr
    assert ("committed", 1) == history.chunks()[1]


HOLD = """
CREATE FUNCTION target.hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF new.kind = 'verified' AND new.chunk_index = 2 THEN PERFORM pg_advisory_xact_lock(77); END IF;
  RETURN new;
END $$;
CREATE TRIGGER hold AFTER INSERT ON dpone_audit.__dpone__backfill_events FOR EACH ROW EXECUTE FUNCTION target.hold();
SELECT pg_advisory_lock(77)
"""
HELD = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 77"


def test_a_verification_that_was_killed_goes_on_where_it_stopped(loaded: History) -> None:
    """It is killed while it writes the second verdict."""
    mark(loaded, 3)
    loaded.sql(HOLD)
    run = loaded.start("backfill", "verify", loaded.manifest(manifest_text(CHUNKS)))
    wait_until(lambda: bool(loaded.sql(HELD)) or run.ended(), 30)
    run.kill()
    loaded.sql(f"SELECT pg_terminate_backend(pid) FROM ({HELD}) held")
    wait_until(lambda: not loaded.sql(HELD), 30)
    loaded.sql("DROP TRIGGER hold ON dpone_audit.__dpone__backfill_events; SELECT pg_advisory_unlock(77)")
    assert [(1, "verified", 1)] == loaded.sql(VERDICTS)
    found = verify(loaded, "--format", "json")
    told = document(found)
    assert (4, CHUNKS, 1, [3]) == (
        found.exit_code,
        told["chunks_compared"],
        told["chunks_compared_before"],
        told["different"],
    )
    # It is ended now: the next one compares everything.
    again = document(verify(loaded, "--format", "json"))
    assert (CHUNKS, 0) == (again["chunks_compared"], again["chunks_compared_before"])


def test_a_verification_that_is_told_to_stop_keeps_what_it_has(loaded: History) -> None:
    loaded.sql(HOLD)
    run = loaded.start("backfill", "verify", loaded.manifest(manifest_text(CHUNKS)))
    wait_until(lambda: bool(loaded.sql(HELD)) or run.ended(), 30)
    run.process.terminate()
    loaded.sql("SELECT pg_advisory_unlock(77)")
    stopped = run.finish()
    assert 5 == stopped.exit_code
    assert "told to stop after 2 of 5 chunks were compared" in stopped.stderr
    done = verify(loaded)
    assert 0 == done.exit_code
    assert "2 chunks had been compared before" in done.stdout


def test_chunks_that_are_loaded_again_meanwhile_are_compared_again(loaded: History) -> None:
    """Chunk 1 had its verdict when the campaign was restarted, and is changed after that."""
    loaded.sql(HOLD)
    run = loaded.start("backfill", "verify", loaded.manifest(manifest_text(CHUNKS)), "--format", "json")
    wait_until(lambda: bool(loaded.sql(HELD)) or run.ended(), 30)
    path = loaded.manifest(manifest_text(CHUNKS))
    assert 0 == loaded.run("backfill", "restart", path, "--reason", "newer rows", "--execute").exit_code
    mark(loaded, 1)
    loaded.sql("SELECT pg_advisory_unlock(77)")
    found = run.finish()
    told = document(found)
    assert (4, 2, [1], CHUNKS) == (
        found.exit_code,
        told["round"],
        told["different"],
        told["chunks_compared"],
    )


def test_anew_forgets_what_was_compared_before(loaded: History) -> None:
    loaded.sql(HOLD)
    run = loaded.start("backfill", "verify", loaded.manifest(manifest_text(CHUNKS)))
    wait_until(lambda: bool(loaded.sql(HELD)) or run.ended(), 30)
    run.process.terminate()
    loaded.sql("SELECT pg_advisory_unlock(77)")
    assert 5 == run.finish().exit_code
    told = document(verify(loaded, "--anew", "--format", "json"))
    assert (CHUNKS, 0) == (told["chunks_compared"], told["chunks_compared_before"])


def test_only_the_chunks_that_differ_are_loaded_again(loaded: History) -> None:
    mark(loaded, 2)
    loaded.sql("DELETE FROM target.history WHERE day = %s", day(4))
    kept = {index: loaded.versions(index) for index in (1, 3, 5)}
    done = verify(loaded, "--repair", "--reason", "changed by hand")
    assert 0 == done.exit_code, done.output
    assert "2 of 5 chunks differ and are loaded again" in done.stderr
    assert "5 of 5 chunks compared by content, 40 rows now: equal" in done.stdout
    assert kept == {index: loaded.versions(index) for index in (1, 3, 5)}
    window = f"day <= '{day(CHUNKS)}'"
    assert loaded.content("source.history", window) == loaded.content("target.history", window)
    attempts = {index: attempt for index, (_, attempt) in loaded.chunks().items()}
    assert {1: 1, 2: 2, 3: 1, 4: 2, 5: 1} == attempts
    rounds = loaded.sql("SELECT round, status, reason FROM dpone_audit.__dpone__backfill_campaigns")
    assert [(2, "complete", None)] == rounds
    assert [("changed by hand",)] == loaded.sql(
        "SELECT detail FROM dpone_audit.__dpone__backfill_events WHERE kind = 'round_begun'"
    )
    assert 0 == verify(loaded).exit_code


@pytest.mark.parametrize("reason", [(), ("--reason", " ")])
def test_a_repair_needs_a_reason_and_changes_nothing_without(
    loaded: History, reason: tuple[str, ...]
) -> None:
    mark(loaded, 2)
    refused = verify(loaded, "--repair", *reason)
    assert 2 == refused.exit_code
    assert "--reason" in refused.stderr
    assert ("committed", 1) == loaded.chunks()[2]
    assert [] == loaded.sql(VERDICTS)


def test_a_reason_without_a_repair_is_refused(loaded: History) -> None:
    refused = verify(loaded, "--reason", "why not")
    assert 2 == refused.exit_code
    assert "add --repair" in refused.stderr


def test_a_repair_of_equal_chunks_begins_no_round(loaded: History) -> None:
    done = verify(loaded, "--repair", "--reason", "just to be sure")
    assert 0 == done.exit_code
    assert 1 == loaded.value("SELECT round FROM dpone_audit.__dpone__backfill_campaigns")


def test_an_append_is_not_repaired_by_loading_it_twice(history: History) -> None:
    text = mode_text("incremental_append", CHUNKS)
    assert 0 == history.run("run", history.manifest(text)).exit_code
    mark(history, 2)
    found = verify(history, text=text)
    assert 4 == found.exit_code
    assert "--repair" not in found.stderr
    refused = verify(history, "--repair", "--reason", "changed", text=text)
    assert 2 == refused.exit_code
    assert "appends" in refused.stderr
    assert "loaded again\n" not in refused.stderr
    assert 100 == history.value("SELECT count(*) FROM target.history")


def test_a_merge_is_repaired_by_merging_again(history: History) -> None:
    history.sql(UNIQUE)
    text = mode_text("incremental_merge", CHUNKS, key=KEY)
    assert 0 == history.run("run", history.manifest(text)).exit_code
    mark(history, 2)
    assert 0 == verify(history, "--repair", "--reason", "changed", text=text).exit_code
    assert 1 == history.chunks()[1][1]
    # A row that only the target has is told, and no merge can take it away.
    history.sql("INSERT INTO target.history (day, id) VALUES (%s, -1)", day(3))
    found = verify(history, "--repair", "--reason", "a row too many", text=text)
    assert 4 == found.exit_code
    assert "chunk 3 [2013-01-03, 2013-01-04): 20 rows in the source, 21 in the target" in found.stdout


def test_what_was_loaded_by_mapped_items_is_verified_as_a_whole(history: History) -> None:
    process = mapped_process(CHUNKS, items=2)
    for item in (0, 1):
        assert 0 == history.start_item(process, item).finish().exit_code
    done = verify(history)
    assert 0 == done.exit_code, done.output


def test_a_campaign_that_was_never_begun_cannot_be_verified(history: History) -> None:
    refused = verify(history)
    assert 2 == refused.exit_code
    assert "nothing to verify" in refused.stderr
    assert [] == history.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'dpone_audit'")


def test_another_plan_is_refused(loaded: History) -> None:
    text = manifest_text(4) + "      backfill_id: x\n"
    refused = verify(loaded, text=text)
    assert 2 == refused.exit_code


def test_columns_that_were_loaded_and_are_gone_are_not_passed_over(loaded: History) -> None:
    """What is left of the row would be equal."""
    mark(loaded, 2)
    loaded.sql("ALTER TABLE source.history DROP COLUMN note")
    refused = verify(loaded)
    assert 2 == refused.exit_code
    assert "note was loaded when it began and is not now" in refused.stderr
    assert "dpone backfill restart" in refused.stderr
    assert [] == loaded.sql(VERDICTS)


def test_a_row_beyond_the_window_is_found_in_a_table_that_is_refreshed_as_a_whole(history: History) -> None:
    text = mode_text("full_refresh", 1)
    assert 0 == history.run("run", history.manifest(text)).exit_code
    history.sql("INSERT INTO target.history (day, id) VALUES ('2020-01-01', 1)")
    found = verify(history, text=text)
    assert 4 == found.exit_code
    assert "20 rows in the source, 21 in the target; changed since the load: target" in found.stdout
    assert 0 == verify(history, "--repair", "--reason", "a row too many", text=text).exit_code
    assert 20 == history.value("SELECT count(*) FROM target.history")


def test_a_moved_row_is_found_on_both_days(loaded: History) -> None:
    """The chunk column changed in the source while the campaign was at rest."""
    loaded.sql("UPDATE source.history SET day = %s WHERE id = 25", day(4))
    found = verify(loaded, "--format", "json")
    assert 4 == found.exit_code
    assert [2, 4] == document(found)["different"]
    assert "changed since the load: source" in found.stdout
