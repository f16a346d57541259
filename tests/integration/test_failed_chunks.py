"""What the target refuses fails its chunk without a row's value in the message; the rest waits, and resume loads it."""

import pytest

from tests.integration.campaigns import History, day

SECRET = "patient 4711"
CONSTRAINT = f"ALTER TABLE target.history ADD CONSTRAINT clean CHECK (note <> '{SECRET}')"
DEFERRED = """
CREATE FUNCTION target.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN IF NEW.note LIKE 'patient %' THEN RAISE check_violation USING MESSAGE = 'late refusal'; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER clean AFTER INSERT ON target.history DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION target.refuse()
"""
# The server finds the first while it copies, the second at COMMIT.
REFUSALS = {
    "a CHECK": (CONSTRAINT, "ALTER TABLE target.history DROP CONSTRAINT clean"),
    "a deferred trigger": (DEFERRED, "DROP TRIGGER clean ON target.history"),
}


@pytest.mark.parametrize("refuse, mend", REFUSALS.values(), ids=REFUSALS)
def test_a_refused_chunk_fails_and_is_loaded_once_it_was_mended(
    history: History, refuse: str, mend: str
) -> None:
    history.add_stale_rows()
    history.sql("UPDATE source.history SET note = %s WHERE id = 25", SECRET)
    history.sql(refuse)
    before = history.versions(2)

    failed = history.run("run", history.manifest())
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert failed.outcome is not None
    assert failed.outcome.backfill is not None
    assert [(2, 1)] == [
        (failure.chunk_index, failure.attempt) for failure in failed.outcome.backfill.failures
    ]
    assert "committed chunks are skipped" in failed.stderr
    assert "psycopg" not in failed.output
    assert "Traceback" not in failed.output
    assert SECRET not in failed.output + str(failed.outcome)
    assert SECRET not in str(history.sql("SELECT * FROM dpone_audit.__dpone__backfill_chunks"))
    assert SECRET not in str(history.sql("SELECT * FROM dpone_audit.__dpone__backfill_events"))
    assert before == history.versions(2)
    assert {1: ("committed", 1), 2: ("failed", 1)} == history.chunks()
    assert 3 == history.value("SELECT count(*) FROM target.history WHERE day = %s", day(3))

    history.sql(mend)
    done = history.run("backfill", "resume", history.manifest())
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 1), 2: ("committed", 2), 3: ("committed", 1)} == history.chunks()
    assert ["claimed", "failed", "claimed", "committed"] == history.events(2)
    history.require_loaded(3)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE target.history ADD UNIQUE (note)",
        "ALTER TABLE target.history ALTER COLUMN price SET NOT NULL",
        "ALTER TABLE target.history ADD CHECK (length(note) < 5)",
        "CREATE UNIQUE INDEX ON target.history (lower(note))",
    ],
)
def test_a_refusal_never_tells_a_value(history: History, statement: str) -> None:
    """The server's own detail would quote the row, or the key."""
    history.sql("UPDATE source.history SET note = %s WHERE day = %s", SECRET, day(1))
    history.sql(statement)
    failed = history.run("run", history.manifest())
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert {1: ("failed", 1)} == history.chunks()
    assert "SQLSTATE 23" in failed.stderr
    assert SECRET not in failed.output + str(failed.outcome)
