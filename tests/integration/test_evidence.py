"""What a run leaves behind: rows that no chunk covers are counted, and the execution file says what was loaded."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpone_contract.chunk_options import ChunkKind
from dpone_contract.errors import DatabaseFailedError
from dpone_contract.manifest import DatabaseType, TableName
from dpone_runtime.adapters.postgres import slice_reader
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.connections import resolve_connection
from dpone_runtime.ports.connectors import Column
from dpone_runtime.ports.type_structure import TypeStructure
from tests.integration.campaigns import History, day, manifest_text
from tests.integration.child_runs import Finished, Run
from tests.integration.points import plan_of

CHUNKS = 3


def execution_file(run: Run) -> dict[str, Any]:
    """Read the one execution file of a run that had no state folder of its own."""
    (path,) = (run.folder / ".dpone" / "backfill").iterdir()
    assert path.name.endswith(".execution.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def coverage(done: Finished) -> object:
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    return done.outcome.backfill.verification["coverage"]


def test_rows_that_no_chunk_covers_are_counted_and_shown(history: History) -> None:
    history.sql(
        "UPDATE source.history SET day = NULL WHERE id IN (190, 191);"
        "UPDATE source.history SET day = '2012-12-31' WHERE id IN (192, 193, 194);"
        "UPDATE source.history SET day = 'infinity' WHERE id = 195"
    )
    text = manifest_text(CHUNKS).replace("step: 1d", "step: 1d\n        nulls: ignore")
    done = history.run("run", history.manifest(text))
    assert 0 == done.exit_code, done.output
    # Seven days of twenty rows are above, five of them went below or lost their day.
    assert {"rows_null": 2, "rows_below": 3, "rows_above": 135, "exact": True} == coverage(done)
    assert (
        "coverage: rows of the source outside the window: 2 whose day is NULL, 3 below, 135 above"
        in done.stdout
    )


def test_a_window_that_covers_everything_says_so(history: History) -> None:
    done = history.run("run", history.manifest(manifest_text(10)))
    assert {"rows_null": 0, "rows_below": 0, "rows_above": 0, "exact": True} == coverage(done)
    assert "coverage: the window covers every row of the source" in done.stdout


def test_rows_that_a_filter_leaves_out_are_not_counted(history: History) -> None:
    text = manifest_text(CHUNKS).replace(
        "  table: { schema: source, name: history }",
        "  table: { schema: source, name: history }\n  where: id < 70",
    )
    assert {"rows_null": 0, "rows_below": 0, "rows_above": 10, "exact": True} == coverage(
        history.run("run", history.manifest(text))
    )


def test_the_chunk_of_null_covers_rows_without_a_value(history: History) -> None:
    history.sql("UPDATE source.history SET day = NULL WHERE id IN (190, 191)")
    text = manifest_text(10).replace("step: 1d", "step: 1d\n        nulls: include")
    assert {"rows_null": 0, "rows_below": 0, "rows_above": 0, "exact": True} == coverage(
        history.run("run", history.manifest(text))
    )


def test_an_interval_counts_no_coverage(history: History) -> None:
    """Its window is a part by intention, and what lies outside is the matter of other intervals."""
    text = manifest_text(first="{{ ds }}", last="{{ ds }}")
    done = history.run("run", history.manifest(text), environ={"DPONE_LOGICAL_DATE": day(2).isoformat()})
    assert 0 == done.exit_code, done.output
    assert coverage(done) is None
    assert "coverage" not in done.stdout


def test_coverage_that_cannot_be_counted_fails_no_run(history: History) -> None:
    """The reader may see the source's chunks, and its view fails beyond them."""
    history.sql(
        "ALTER TABLE source.history RENAME TO all_history;"
        "CREATE VIEW source.history AS SELECT *, 1 / (CASE WHEN day > '2013-01-03' THEN 0 ELSE 1 END) AS broken"
        " FROM source.all_history;"
        "ALTER TABLE target.history ADD broken integer"
    )
    text = manifest_text(CHUNKS).replace(
        "  table: { schema: source, name: history }",
        "  table: { schema: source, name: history }\n  where: broken = 1",
    )
    done = history.run("run", history.manifest(text))
    assert 0 == done.exit_code, done.output
    assert "coverage could not be counted" in done.stderr
    assert coverage(done) is None


def test_the_execution_file_tells_every_chunk(history: History) -> None:
    text = manifest_text(CHUNKS).replace("    backfill:\n", "    backfill:\n      verify: checksum\n")
    run = history.start("run", history.manifest(text))
    done = run.finish()
    assert 0 == done.exit_code, done.output
    found = execution_file(run)
    assert ("dpone.backfill-execution.v1", "complete", 1, CHUNKS) == (
        found["schema"],
        found["status"],
        found["round"],
        found["chunks_total"],
    )
    assert ("source.history", "target.history") == (found["source"]["table"], found["target"]["table"])
    assert [(1, 20, 20, 1), (2, 20, 20, 1), (3, 20, 20, 1)] == [
        (chunk["chunk_index"], chunk["rows_extracted"], chunk["rows_loaded"], chunk["attempt"])
        for chunk in found["chunks"]
    ]
    digests = [
        row[0] for row in history.sql("SELECT content_digest FROM dpone_audit.__dpone__backfill_chunks")
    ]
    assert sorted(digests, key=str) == sorted(chunk["content_digest"] for chunk in found["chunks"])
    assert {"rows_null": 0, "rows_below": 0, "rows_above": 140, "exact": True} == found["coverage"]
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert str(done.outcome.backfill.verification["execution_file"]).endswith(".execution.json")


def test_no_execution_file_before_the_last_commit(history: History) -> None:
    history.sql("ALTER TABLE target.history ADD CHECK (day <> '2013-01-03')")
    run = history.start("run", history.manifest(manifest_text(CHUNKS)))
    assert 1 == run.finish().exit_code
    assert not (run.folder / ".dpone").exists()


@pytest.mark.parametrize("named_by", ["manifest", "environment"])
def test_the_state_folder_is_the_one_that_is_named(history: History, tmp_path: Path, named_by: str) -> None:
    folder = tmp_path / "state" / "of mine"
    environ = {"DPONE_BACKFILL_STATE_DIR": str(tmp_path / "another" if named_by == "manifest" else folder)}
    text = manifest_text(CHUNKS)
    if named_by == "manifest":
        text = text.replace("    backfill:\n", f'    backfill:\n      state_dir: "{folder}"\n')
    done = history.run("run", history.manifest(text), environ=environ)
    assert 0 == done.exit_code, done.output
    (path,) = folder.iterdir()
    assert path.name.endswith(".execution.json")
    assert not (tmp_path / "another").exists()


def test_a_folder_that_cannot_be_written_fails_no_run(history: History, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = history.run(
        "run",
        history.manifest(manifest_text(CHUNKS)),
        environ={"DPONE_BACKFILL_STATE_DIR": str(tmp_path / "file")},
    )
    assert 0 == done.exit_code, done.output
    assert "the execution file could not be written" in done.stderr


def test_a_count_that_takes_too_long_is_given_up(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it: every row is in its target by then."""
    monkeypatch.setattr(slice_reader, "_COVERAGE_MS", 200)
    table = ChunkedTable(
        TableName(schema="source", name="history"),
        ("day", "id"),
        Column("day", TypeStructure("date"), nullable=True),
        ChunkKind.DATE,
        "UTC",
        where="pg_sleep(60) IS NOT NULL",
    )
    connection = resolve_connection("source_db", DatabaseType.POSTGRES, {"DPONE_CONN_SOURCE_DB": history.uri})
    reader = slice_reader.PostgresSliceReader(connection, table)
    try:
        with pytest.raises(DatabaseFailedError, match="statement timeout"):
            reader.coverage(plan_of(column="day", first="2013-01-01", to="2013-01-03", step="1d"))
    finally:
        reader.close()
