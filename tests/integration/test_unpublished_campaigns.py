"""What is loaded aside and not published: how it comes about, what is told of it, what leads out of it."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import History, day, manifest_text
from tests.integration.publications import LIVE, relation, status, swapped, tables

STRANGER = "INSERT INTO target.{shadow} (day, id) VALUES ('2030-01-01', 1)"
FAILING = "ALTER TABLE target.history ADD CONSTRAINT kept CHECK (id <> 45)"


def shadow_of(history: History) -> str:
    """The name of the one shadow."""
    return next(name for name in tables(history) if "__dpone_shadow_" in name)


def begun(history: History, mode: str = "incremental_append") -> str:
    """A campaign of which the third chunk has failed: the rest of it can be loaded. Gives its manifest."""
    history.add_stale_rows()
    history.sql(FAILING)
    history.sql("UPDATE source.history SET id = 45 WHERE id = 44")
    manifest = history.manifest(swapped(10, mode=mode))
    assert 1 == history.run("run", manifest).exit_code
    history.sql("UPDATE source.history SET id = -id WHERE id = 45")
    return manifest


@pytest.fixture
def unpublished(history: History) -> str:
    """A campaign that is complete and was refused its publication, for a row that nobody has committed; its manifest."""
    manifest = begun(history)
    history.sql(STRANGER.format(shadow=shadow_of(history)))
    refused = history.run("run", manifest)
    assert (4, "DPONE_BACKFILL_PUBLICATION_MISMATCH") == (refused.exit_code, refused.error_code), (
        refused.output
    )
    assert "holds 201 rows, and 200 were committed" in refused.stderr
    return manifest


def test_a_row_that_nobody_committed_keeps_a_shadow_from_being_published(
    history: History, unpublished: str
) -> None:
    assert (30, "complete") == (history.value("SELECT count(*) FROM target.history"), status(history))
    again = history.run("run", unpublished)
    assert (4, "DPONE_BACKFILL_PUBLICATION_MISMATCH") == (again.exit_code, again.error_code)
    assert again.outcome is not None
    assert again.outcome.backfill is not None
    assert ("complete", 10, 0) == (
        again.outcome.backfill.campaign_status,
        again.outcome.backfill.campaign_chunks_committed,
        again.outcome.backfill.rows_loaded,
    )


def test_the_next_run_publishes_what_was_mended_and_moves_no_row(history: History, unpublished: str) -> None:
    history.sql(f"DELETE FROM target.{shadow_of(history)} WHERE day = '2030-01-01'")

    done = history.run("backfill", "resume", unpublished)

    assert 0 == done.exit_code, done.output
    assert "every chunk is committed already; what is left is to publish them" in done.stderr
    assert "no row moved" in done.stdout
    assert "published" == status(history)
    assert history.content("source.history") == history.content("target.history")


def test_status_and_doctor_say_that_it_is_to_be_published(history: History, unpublished: str) -> None:
    shadow = shadow_of(history)

    told = history.run("backfill", "status", unpublished).stdout
    doctor = history.run("backfill", "doctor", unpublished)

    assert f"loads target.{shadow}; the target is as it was" in told
    assert f"next: publish it; no row is moved for that: dpone backfill resume {unpublished}" in told
    assert 0 != doctor.exit_code
    assert f"every chunk is committed into target.{shadow}, which is not published" in doctor.stdout
    assert f"dpone backfill resume {unpublished}" in doctor.stdout


def test_it_can_be_verified_where_it_is(history: History, unpublished: str) -> None:
    done = history.run("backfill", "verify", unpublished)

    assert 0 == done.exit_code, done.output
    assert f"against target.{shadow_of(history)}" in done.stderr
    assert "10 of 10 chunks compared by content, 200 rows" in done.stdout


def test_it_can_be_cancelled_and_go_on(history: History, unpublished: str) -> None:
    history.sql(f"DELETE FROM target.{shadow_of(history)} WHERE day = '2030-01-01'")
    assert 0 == history.run("backfill", "cancel", unpublished, "--reason", "not today").exit_code

    refused = history.run("run", unpublished)
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (refused.exit_code, refused.error_code)
    assert "cancel_requested" == status(history)

    done = history.run("backfill", "resume", unpublished, "--reason", "today")
    assert 0 == done.exit_code, done.output
    assert "published" == status(history)
    kinds = ["opened", "completed", "cancel_requested", "resumed", "completed", "published"]
    assert kinds == history.events(None)


def test_nobody_else_loads_the_target_until_it_is_published(history: History, unpublished: str) -> None:
    other = history.manifest(
        manifest_text(3, name="other", first="2013-02-01", last="2013-02-03"), file="other.yaml"
    )

    refused = history.run("run", other)

    assert (2, "DPONE_BACKFILL_OVERLAP") == (refused.exit_code, refused.error_code), refused.output
    assert "covers everything of the same target" in refused.stderr
    assert 0 == history.run("backfill", "cancel", unpublished, "--reason", "given up").exit_code
    assert 0 == history.run("run", other).exit_code


def test_a_key_that_stands_twice_keeps_a_shadow_from_being_published(history: History) -> None:
    history.sql("UPDATE source.history SET id = 7 WHERE id IN (27, 28)")
    text = swapped(10).replace("    mode: backfill\n", "    mode: backfill\n    unique_key: [id]\n")

    refused = history.run("run", history.manifest(text))

    assert (4, "DPONE_BACKFILL_PUBLICATION_MISMATCH") == (refused.exit_code, refused.error_code), (
        refused.output
    )
    assert "1 values of the unique key (id) stand more than once" in refused.stderr
    assert 0 == history.value("SELECT count(*) FROM target.history")


CHANGES = {
    "unique index USING btree (id)": "CREATE UNIQUE INDEX ON target.history (id) WHERE id > 100",
    "it has another comment or index": "CREATE INDEX ON target.history (id)",
    "column": "ALTER TABLE target.history ADD COLUMN more integer",
    "privilege INSERT": "GRANT INSERT ON target.history TO PUBLIC",
    "trigger stamp": "CREATE FUNCTION target.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
    "CREATE TRIGGER stamp AFTER INSERT ON target.history EXECUTE FUNCTION target.f()",
    "used by rule _RETURN on view target.shown": "CREATE VIEW target.shown AS SELECT id FROM target.history",
    "it has another comment or index, or both": "COMMENT ON TABLE target.history IS 'changed'",
    "table heap replica identity d with fillfactor=50": "ALTER TABLE target.history SET (fillfactor = 50)",
    "note text default 'x'::text": "ALTER TABLE target.history ALTER COLUMN note SET DEFAULT 'x'",
}


@pytest.mark.parametrize("changed", CHANGES)
def test_a_live_table_that_changes_stops_the_load_before_it_goes_on(history: History, changed: str) -> None:
    manifest = begun(history)
    loaded = history.chunks()
    history.sql(CHANGES[changed])

    refused = history.run("run", manifest)

    assert (2, "DPONE_BACKFILL_PUBLICATION_REFUSED") == (refused.exit_code, refused.error_code), (
        refused.output
    )
    assert changed in refused.stderr
    assert loaded == history.chunks()
    assert "DPONE_BACKFILL_PUBLICATION_REFUSED" in history.run("backfill", "doctor", manifest).stdout


def test_a_shadow_that_is_gone_is_never_made_again_for_what_was_loaded_into_it(history: History) -> None:
    manifest = begun(history)
    history.sql(f"DROP TABLE target.{shadow_of(history)}")

    refused = history.run("run", manifest)

    assert (2, "DPONE_BACKFILL_CAMPAIGN_DRIFT") == (refused.exit_code, refused.error_code), refused.output
    assert "is gone or was replaced, with what was loaded into it" in refused.stderr
    assert ["history"] == tables(history)


def test_a_table_of_the_shadows_name_is_not_touched(history: History) -> None:
    manifest = begun(history)
    shadow = shadow_of(history)
    history.sql("DROP SCHEMA dpone_audit CASCADE")

    refused = history.run("run", manifest)
    assert (2, "DPONE_BACKFILL_PUBLICATION_REFUSED") == (refused.exit_code, refused.error_code), (
        refused.output
    )
    assert f"target.{shadow} holds rows that no campaign of this ledger has loaded" in refused.stderr

    history.sql(f"COMMENT ON TABLE target.{shadow} IS NULL")
    refused = history.run("run", manifest)
    assert f"there is a table target.{shadow} that is not the shadow of campaign" in refused.stderr


def test_an_empty_shadow_that_a_killed_run_has_left_is_used(history: History) -> None:
    manifest = begun(history)
    shadow = shadow_of(history)
    history.sql("DROP SCHEMA dpone_audit CASCADE")
    history.sql(f"DELETE FROM target.{shadow}")
    before = relation(history, f"target.{shadow}")

    done = history.run("run", manifest)

    assert 0 == done.exit_code, done.output
    assert before == relation(history)


def test_a_name_that_is_taken_keeps_the_live_table_from_being_renamed(history: History) -> None:
    manifest = begun(history)
    backup = shadow_of(history).replace("shadow", "backup")
    history.sql(f"CREATE TABLE target.{backup} ()")

    refused = history.run("run", manifest)

    assert (2, "DPONE_BACKFILL_PUBLICATION_REFUSED") == (refused.exit_code, refused.error_code), (
        refused.output
    )
    assert f"there is a table target.{backup} already" in refused.stderr
    assert "complete" == status(history)
    history.sql(f"DROP TABLE target.{backup}")
    assert 0 == history.run("run", manifest).exit_code


def test_a_name_that_is_taken_from_the_start_is_told_before_anything_is_loaded(history: History) -> None:
    manifest = begun(history)
    shadow = shadow_of(history)
    history.sql(f"DROP SCHEMA dpone_audit CASCADE; DROP TABLE target.{shadow}")
    history.sql(f"CREATE TABLE target.{shadow.replace('shadow', 'backup')} ()")

    refused = history.run("run", manifest)

    assert (2, "DPONE_BACKFILL_PUBLICATION_REFUSED") == (refused.exit_code, refused.error_code), (
        refused.output
    )
    assert not history.has_ledger_rows()
    assert shadow not in tables(history)


def test_an_append_goes_on_beside_what_was_published(history: History) -> None:
    """What was published is known by its own window: rows after it are appended, and rows within it are not."""
    history.sql(LIVE)
    assert 0 == history.run("run", history.manifest(swapped(5))).exit_code
    later = manifest_text(5, name="later", first=day(6).isoformat(), last=day(10).isoformat())
    appends = later.replace("    backfill:\n", "    backfill:\n      inner_mode: incremental_append\n")

    done = history.run("run", history.manifest(appends, file="later.yaml"))
    within = appends.replace(day(6).isoformat(), day(4).isoformat()).replace("name: later", "name: within")
    refused = history.run("run", history.manifest(within, file="within.yaml"))

    assert 0 == done.exit_code, done.output
    assert history.content("source.history") == history.content("target.history")
    assert (2, "DPONE_BACKFILL_OVERLAP") == (refused.exit_code, refused.error_code), refused.output


def test_chunks_of_what_is_published_are_not_loaded_one_by_one(history: History) -> None:
    manifest = history.manifest(swapped(mode="partition_replace"))
    assert 0 == history.run("run", manifest).exit_code
    history.sql(f"UPDATE source.history SET note = 'corrected' WHERE day = '{day(2)}'")
    assert 4 == history.run("backfill", "verify", manifest).exit_code

    refused = history.run("backfill", "verify", manifest, "--repair", "--reason", "corrected upstream")
    doctor = history.run("backfill", "doctor", manifest).stdout

    assert (2, "published: its chunks are loaded again all together") == (
        refused.exit_code,
        "published: its chunks are loaded again all together" if "all together" in refused.stderr else "",
    ), refused.output
    assert f"dpone backfill restart {manifest} --reason ... --execute" in doctor


def test_chunks_of_what_is_not_published_yet_are_mended_in_the_shadow(history: History) -> None:
    manifest = begun(history, "partition_replace")
    history.sql(STRANGER.format(shadow=shadow_of(history)))
    assert 4 == history.run("run", manifest).exit_code
    history.sql(f"DELETE FROM target.{shadow_of(history)} WHERE day >= '2030-01-01'")
    history.sql(f"UPDATE source.history SET note = 'corrected' WHERE day = '{day(2)}'")

    done = history.run("backfill", "verify", manifest, "--repair", "--reason", "corrected upstream")

    assert 0 == done.exit_code, done.output
    assert "published" == status(history)
    assert history.content("source.history") == history.content("target.history")
