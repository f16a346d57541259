"""As many lanes as a run may have: each loads, none waits for a held one, every row is there once, and nothing is left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quickstart.embedded_postgres import EmbeddedPostgres
from tests.integration.campaigns import MISCOUNTED, History, opened_history, with_lanes
from tests.integration.fault_lane import BEFORE_LOAD, HOLD, NOTE
from tests.integration.inner_modes import mode_text
from tests.waiting import wait_until

LANES = 64
CHUNKS = 640
ROWS_A_CHUNK = 10
PATIENCE_SECONDS = 240
"""A bound where many share the machine; on a quiet one all of it takes half a minute at the most."""

COMMITTED = "SELECT count(*) FROM dpone_audit.__dpone__backfill_chunks WHERE status = 'committed'"
SESSIONS = """
SELECT application_name, count(*) FROM pg_stat_activity
 WHERE application_name LIKE 'dpone%' AND datname = current_database() GROUP BY 1 ORDER BY 1
"""
ALONE = "SELECT count(*), max(attempt), min(status), max(status) FROM dpone_audit.__dpone__backfill_chunks"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """A history on a server of its own, which takes two hundred sessions."""
    with EmbeddedPostgres() as server:
        server.create_database("lanes")
        with opened_history(server.uri("lanes"), tmp_path) as found:
            yield found


@pytest.mark.timeout(600)
def test_sixty_four_lanes_load_a_campaign_once(history: History) -> None:
    history.sql("TRUNCATE source.history")
    history.sql(
        "INSERT INTO source.history (day, id, note) SELECT '2013-01-01', n, 'row ' || n "
        f"FROM generate_series(0, {CHUNKS * ROWS_A_CHUNK - 1}) n"
    )
    history.sql("CREATE INDEX ON source.history (id); CREATE INDEX ON target.history (id)")
    text = with_lanes(
        mode_text("replace", first="0", last=str(CHUNKS * ROWS_A_CHUNK - 1), step=str(ROWS_A_CHUNK)), LANES
    )
    text = text.replace("column: day", "column: id")
    faults = [(BEFORE_LOAD, 1, HOLD), *(("committed", index, NOTE) for index in range(1, CHUNKS + 1))]
    run = history.start("run", history.manifest(text), faults=faults)
    held = run.wait_for(BEFORE_LOAD, 1)
    # While one lane is held the others load everything else.
    wait_until(
        lambda: history.value(COMMITTED) == CHUNKS - 1 or run.ended(), PATIENCE_SECONDS, "the other chunks"
    )
    assert not run.ended(), run.stderr()
    sessions = dict(history.sql(SESSIONS))  # type: ignore[arg-type]  # rows are untyped
    assert (LANES, LANES) == (sessions["dpone sink"], sessions["dpone source"])
    assert sum(sessions.values()) <= 2 * LANES + 2
    run.release()
    done = run.finish(PATIENCE_SECONDS)
    assert 0 == done.exit_code, done.output
    lanes = [run.wait_for("committed", index) for index in range(1, CHUNKS + 1)]
    assert (held, LANES) == (lanes[0], len(set(lanes)))
    assert 1 == lanes.count(held)
    assert [(CHUNKS, 1, "committed", "committed")] == history.sql(ALONE)
    assert [] == history.sql(MISCOUNTED)
    assert history.content("source.history") == history.content("target.history")
    run.wait_until_nothing_is_left()
