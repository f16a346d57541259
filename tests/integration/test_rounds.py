"""An interval that is run again replaces its slice in a new round; a retry stays in its round; a fixed window is done once."""

from tests.integration.campaigns import History, day, manifest_text
from tests.integration.child_runs import Finished

INTERVAL = manifest_text(first="{{ ds }}", last="{{ ds }}")
CHECK = "ALTER TABLE target.history ADD CONSTRAINT no_second CHECK (note IS DISTINCT FROM 'second')"


def run_day(history: History) -> Finished:
    """Run the third day, as a DAG run of that logical date does."""
    return history.run("run", history.manifest(INTERVAL), environ={"DPONE_LOGICAL_DATE": day(3).isoformat()})


def require_day_loaded(history: History, round_number: int) -> None:
    where = f"day = '{day(3)}'"
    assert history.content("source.history", where) == history.content("target.history", where)
    assert [(1, "committed", round_number)] == history.sql(
        "SELECT chunk_index, status, round FROM dpone_audit.__dpone__backfill_chunks"
    )


def change_source(history: History) -> None:
    history.sql("UPDATE source.history SET note = 'second' WHERE day = %s AND id %% 2 = 0", day(3))
    history.sql("DELETE FROM source.history WHERE day = %s AND id %% 5 = 1", day(3))


def test_an_interval_run_again_replaces_its_slice(history: History) -> None:
    history.add_stale_rows()
    done = run_day(history)
    assert 0 == done.exit_code, done.output
    require_day_loaded(history, 1)

    change_source(history)
    done = run_day(history)
    assert 0 == done.exit_code, done.output
    assert "round 2 replaces its slice" in done.stderr
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert (2, 1, 16) == (
        done.outcome.backfill.round,
        done.outcome.backfill.chunks_committed,
        done.outcome.backfill.rows_loaded,
    )
    require_day_loaded(history, 2)
    assert ["opened", "completed", "round_begun", "completed"] == history.events(None)
    assert ["claimed", "committed", "claimed", "committed"] == history.events(1)
    # The other days were nobody's: their stale rows stay.
    assert 9 * 3 == history.value("SELECT count(*) FROM target.history WHERE day <> %s", day(3))


def test_a_retry_after_a_failure_stays_in_its_round(history: History) -> None:
    assert 0 == run_day(history).exit_code
    loaded = history.versions(3)
    change_source(history)
    history.sql(CHECK)
    failed = run_day(history)
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert loaded == history.versions(3), "the first round's slice has to stay until the second is committed"

    history.sql("ALTER TABLE target.history DROP CONSTRAINT no_second")
    done = run_day(history)
    assert 0 == done.exit_code, done.output
    require_day_loaded(history, 2)
    assert {1: ("committed", 3)} == history.chunks()
    assert ["opened", "completed", "round_begun", "completed"] == history.events(None)


def test_two_intervals_are_two_campaigns(history: History) -> None:
    assert 0 == run_day(history).exit_code
    done = history.run("run", history.manifest(INTERVAL), "--execution-date", day(4).isoformat())
    assert 0 == done.exit_code, done.output
    campaigns = history.sql("SELECT status, round FROM dpone_audit.__dpone__backfill_campaigns")
    assert [("complete", 1), ("complete", 1)] == campaigns
    assert 40 == history.value("SELECT count(*) FROM target.history")


def test_an_interval_without_its_date_is_refused(history: History) -> None:
    told = history.run("run", history.manifest(INTERVAL), environ={"DPONE_LOGICAL_DATE": "None"})
    assert (2, "DPONE_RUN_CONTEXT_INVALID") == (told.exit_code, told.error_code), told.output
    assert "{{ ds }}" in told.stderr
    assert not history.has_ledger_rows()


def test_a_complete_fixed_window_does_nothing(history: History) -> None:
    assert 0 == history.run("run", history.manifest()).exit_code
    history.require_loaded(3)
    everything = [history.versions(chunk_index) for chunk_index in (1, 2, 3)]
    events = history.value("SELECT count(*) FROM dpone_audit.__dpone__backfill_events")
    change_source(history)

    done = history.run("run", history.manifest())
    assert 0 == done.exit_code, done.output
    assert "nothing to do" in done.stderr
    assert "no row moved" in done.stdout
    assert everything == [history.versions(chunk_index) for chunk_index in (1, 2, 3)]
    assert events == history.value("SELECT count(*) FROM dpone_audit.__dpone__backfill_events")
