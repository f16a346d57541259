"""A campaign of a million chunks in a real ledger: nothing that happens once a chunk reads them all, and looking at it is bounded."""

from __future__ import annotations

import json
import os
import subprocess
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import psycopg
import pytest

from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import CampaignPlan, Process, build_process, plan_campaign
from dpone_runtime.adapters.postgres.batches import postgres_queries
from dpone_runtime.bootstrap import PreparedRun, prepare_run, resolve_connections
from dpone_runtime.services.open_campaign import Opening, open_campaign
from tests.integration.campaigns import History
from tests.integration.child_runs import DPONE

MILLION = 1_000_000
PENDING = 10
SCHEMA = "dpone_audit"
MEMORY_MEGABYTES = 150
OPENING_SECONDS = 1.0
LOOKING_SECONDS = 60
"""Planning a million chunks is most of it; this is a bound against what grows without one, not a measurement."""

MANIFEST = f"""\
name: history
source: {{ type: postgres, connection_ref: source_db, table: {{ schema: source, name: history }} }}
sink:
  type: postgres
  connection_ref: target_db
  table: {{ schema: target, name: history }}
  strategy:
    mode: backfill
    backfill:
      chunk: {{ column: id, kind: integer, from: 1, to: {MILLION}, step: 1 }}
      max_chunks: {MILLION}
      stop_after_failures: 1000
"""

# As a campaign is that is nearly through: some failed, some at work, one of them lapsed, the last ones pending.
CHUNKS = """
INSERT INTO {schema}.__dpone__backfill_chunks (run_key, chunk_index, status, revision, round, attempt, owner,
       lease_expires_at, idempotency_key, lower_bound, upper_bound, rows_extracted, rows_loaded, error_code, error_message,
       dag_run_id, started_at, finished_at)
SELECT %(run_key)s, i, status, 2, 1, 1, md5(i::text),
       CASE WHEN status = 'running' THEN clock_timestamp() + CASE i WHEN 500000 THEN -1 ELSE 60 END * interval '1 minute' END,
       'sha256:' || repeat('0', 64), i::text, (i + 1)::text, 1, 1,
       CASE WHEN status = 'failed' THEN 'DPONE_BACKFILL_CHUNK_FAILED' END, CASE WHEN status = 'failed' THEN 'no' END,
       'manual__1', clock_timestamp(), clock_timestamp()
  FROM generate_series(1, %(rows)s) i,
       LATERAL (SELECT CASE WHEN i %% 250000 = 0 THEN 'running' WHEN i %% 200000 = 1 THEN 'failed' ELSE 'committed' END) s (status)
"""
EVENTS = """
INSERT INTO {schema}.__dpone__backfill_events (run_key, kind, round, revision, chunk_index, attempt, owner)
SELECT %(run_key)s, kind, 1, 1, i, 1, md5(i::text)
  FROM generate_series(1, %(rows)s) i, unnest(ARRAY['claimed', 'committed']) kind
"""

ONCE_A_CHUNK = [
    "read_campaign",
    "read_chunk",
    "count_live",
    "insert_chunk",
    "claim_chunk",
    "end_chunk",
    "guard_chunk",
    "complete_chunk",
    "renew_chunk",
    "insert_event",
    "count_failed",
]
ONCE_A_PAGE = [
    "read_chunks",
    "verdicts",
    "committed_chunks",
    "list_statuses",
    "list_failed_or_lapsed",
    "list_failures",
    "list_running",
    "claimed_chunks",
    "campaign_events",
]
ONCE_A_RUN = [
    "insert_campaign",
    "update_campaign",
    "find_ledgers",
    "campaigns_on_target",
    "group_failures",
    "end_silent_run",
]
ONCE_A_LOOK = ["count_statuses"]
EVERY_CHUNK = {
    "carry_chunks": "once a round of some chunks",
    "receipts": "once a publication",
    "committed_ranges": "when an append is opened, of campaigns that are not complete",
}
"""They read all rows of a campaign, and say when."""

WITHOUT_TABLES = [
    "relations_of_name",
    "begin",
    "commit",
    "rollback",
    "savepoint",
    "rollback_to_savepoint",
    "pause",
    "lock",
    "lock_shared",
    "clock",
    "chunk_lock_holders",
    "session_lock",
    "fence_take",
    "fence_held",
]


@dataclass(frozen=True)
class Large:
    """A campaign of a million chunks, nearly all of them committed."""

    history: History
    process: Process
    planned: CampaignPlan
    opened_seconds: float
    opened_bytes: int


@pytest.fixture(scope="module")
def large(shared_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    history = History(shared_database, tmp_path_factory.mktemp("large"))
    try:
        history.sql(
            "DELETE FROM source.history; INSERT INTO source.history (day, id) SELECT '2013-01-01', i FROM generate_series(999901, 1000000) i"
        )
        history.sql("CREATE INDEX ON source.history (id); CREATE INDEX ON target.history (id)")
        yield opened(history)
    finally:
        history.close()


def opened(history: History) -> Large:
    process = build_process(parse_manifest(MANIFEST, "history.yaml"), MappingPolicy())
    planned = plan_campaign(process)
    prepared = prepare_run(process, planned, resolve_connections(process.manifest, history.environ))
    try:
        seconds, size = measured_opening(prepared)
    finally:
        prepared.ledger.close()
    values = {"run_key": planned.plan.run_key, "rows": MILLION - PENDING}
    with psycopg.connect(history.uri, autocommit=True) as connection:
        for statement in (CHUNKS, EVENTS):
            connection.execute(statement.format(schema=SCHEMA).encode(), values)
        connection.execute(postgres_queries(SCHEMA).statement("fill_tallies").text.encode(), {})
    return Large(history, process, planned, seconds, size)


def measured_opening(prepared: PreparedRun) -> tuple[float, int]:
    tracemalloc.start()
    try:
        began = time.monotonic()
        found = open_campaign(prepared.ledger, prepared.wanted)
        seconds = time.monotonic() - began
        assert Opening.CREATED is found.how
        return seconds, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_opening_writes_one_row_at_once(large: Large) -> None:
    assert large.opened_seconds < OPENING_SECONDS
    assert large.opened_bytes < 1024 * 1024
    assert 1 == large.history.value(f"SELECT count(*) FROM {SCHEMA}.__dpone__backfill_campaigns")
    assert MILLION == large.history.value(f"SELECT chunks_total FROM {SCHEMA}.__dpone__backfill_campaigns")


def test_every_query_of_the_ledger_is_accounted_for() -> None:
    named = [*ONCE_A_CHUNK, *ONCE_A_PAGE, *ONCE_A_RUN, *ONCE_A_LOOK, *EVERY_CHUNK, *WITHOUT_TABLES]
    own = {
        name
        for name in postgres_queries(SCHEMA).names()
        if not name.startswith(("create_", "add_", "fill_", "ddl_", "ledger_"))
    }
    assert sorted(own) == sorted(named)


def values_of(large: Large) -> dict[str, object]:
    """A value for every parameter that a query has: of the chunk in the middle, of a page before it."""
    text = dict.fromkeys(
        [
            "status",
            "idempotency_key",
            "lower_bound",
            "upper_bound",
            "dag_run_id",
            "event_kind",
            "event_detail",
            "event_owner",
            "detail",
            "kind",
            "plan_hash",
            "config_hash",
            "dataset",
            "inner_mode",
            "window_column",
            "window_kind",
            "window_lower",
            "window_upper",
            "source_server",
            "source_database",
            "source_relation",
            "source_name",
            "target_server",
            "target_database",
            "target_relation",
            "target_name",
            "shadow_relation",
            "shadow_name",
            "object_contract",
            "reason",
            "requested_by",
            "server",
            "database",
            "relation",
            "error_code",
            "error_message",
        ],
        "x",
    )
    return text | {
        "status": "running",
        "run_key": large.planned.plan.run_key,
        "chunk_index": 500_000,
        "revision": 2,
        "round": 1,
        "attempt": 1,
        "owner": "o",
        "lease_ttl": timedelta(seconds=90),
        "rows_extracted": 1,
        "rows_loaded": 1,
        "content_digest": None,
        "slot": 0,
        "has_finished": True,
        "count": 5,
        "first": 499_001,
        "last": 500_000,
        "after": 0,
        "over": False,
        "chunks_total": 1,
        "templated": False,
        "window_everything": False,
        "loaded_columns": None,
        "columns": None,
        "lock": 1,
        "silence": timedelta(seconds=90),
    }


def scans_of(large: Large, name: str) -> list[tuple[str, str]]:
    """How a query reads chunks and events, as the server plans it."""
    statement = postgres_queries(SCHEMA).statement(name)
    with psycopg.connect(large.history.uri, autocommit=True) as connection:
        found = connection.execute(
            b"EXPLAIN (FORMAT JSON) " + statement.text.encode(), values_of(large)
        ).fetchone()
    assert found is not None
    document = json.loads(found[0]) if isinstance(found[0], str) else found[0]
    nodes, scans = [document[0]["Plan"]], []
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if str(node.get("Relation Name", "")).endswith(("_chunks", "_events")):
            scans.append((node["Node Type"], node["Relation Name"]))
    return scans


@pytest.mark.parametrize("analyzed", [False, True], ids=["as it was filled", "analyzed"])
def test_no_query_but_the_named_ones_reads_all_chunks_or_events(large: Large, *, analyzed: bool) -> None:
    if analyzed:
        large.history.sql(f"ANALYZE {SCHEMA}.__dpone__backfill_chunks, {SCHEMA}.__dpone__backfill_events")
    scans = {name: scans_of(large, name) for name in (*ONCE_A_CHUNK, *ONCE_A_PAGE, *ONCE_A_RUN, *ONCE_A_LOOK)}
    slow = {name: found for name, found in scans.items() if any("Seq Scan" in kind for kind, _ in found)}
    assert {} == slow
    assert all(
        scans[name]
        for name in (
            "read_chunk",
            "count_live",
            "claim_chunk",
            "complete_chunk",
            "verdicts",
            "count_statuses",
        )
    )


TOUCHING: dict[str, dict[str, object]] = {
    "insert_chunk": {"chunk_index": MILLION, "revision": 1},
    "claim_chunk": {"revision": 3},
    "end_chunk": {"revision": 3, "status": "failed"},
    "count_failed": {},
    "count_live": {},
    "guard_chunk": {},
    "complete_chunk": {},
    "read_campaign": {},
    "read_chunk": {},
    "renew_chunk": {},
    "insert_event": {},
    "count_statuses": {},
}
"""Values with which each of them finds its row: of a chunk that is at work, or of one without a row."""

PAGES_A_QUERY = 40
"""Pages that a query may touch: a few levels of each index, and the rows themselves."""


@pytest.mark.parametrize("name", [*ONCE_A_CHUNK, *ONCE_A_LOOK])
def test_what_happens_once_a_chunk_or_look_touches_a_few_pages(large: Large, name: str) -> None:
    at_work = MILLION // 4
    owner = large.history.value("SELECT md5(%s::text)", at_work)
    values = values_of(large) | {"chunk_index": at_work, "owner": owner} | TOUCHING[name]
    statement = postgres_queries(SCHEMA).statement(name)
    with psycopg.connect(large.history.uri) as connection:
        # The second time: a session reads the server's catalogue once.
        for _ in range(2):
            explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
            found = connection.execute(explain + statement.text.encode(), values).fetchone()
            connection.rollback()
    assert found is not None
    plan = (json.loads(found[0]) if isinstance(found[0], str) else found[0])[0]["Plan"]
    pages = sum(plan[f"Shared {kind} Blocks"] for kind in ("Hit", "Read"))
    assert pages <= PAGES_A_QUERY
    if name not in ("read_campaign", "insert_event"):
        assert pages > 0


@dataclass(frozen=True)
class Looked:
    """A command that has ended."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    megabytes: float


def look(large: Large, folder: Path, *arguments: str) -> Looked:
    """Run a command on the campaign; measure it and its memory."""
    path = large.history.manifest(MANIFEST)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DPONE_")}
    with (folder / "stdout").open("w+") as stdout, (folder / "stderr").open("w+") as stderr:
        began = time.monotonic()
        child = subprocess.Popen(
            [str(DPONE), "backfill", arguments[0], path, *arguments[1:]],
            env={**inherited, **large.history.environ},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        peak = 0.0
        while child.poll() is None:
            # Its own peak: what the kernel says at its end begins with that of the process that started it.
            peak = max(peak, peak_megabytes(child.pid))
            with suppress(subprocess.TimeoutExpired):
                child.wait(0.02)
        seconds = time.monotonic() - began
    return Looked(
        child.returncode,
        (folder / "stdout").read_text(),
        (folder / "stderr").read_text(),
        seconds,
        peak,
    )


def peak_megabytes(pid: int) -> float:
    """Give the most that a process has held in memory since it began; 0 once it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    with suppress(psutil.Error):
        return float(psutil.Process(pid).memory_info().rss) / 1024**2
    return 0.0


def require_bounded(found: Looked) -> None:
    assert 20 < found.megabytes, "its memory was not seen"
    assert found.seconds < LOOKING_SECONDS
    assert found.megabytes < MEMORY_MEGABYTES


def test_status_and_doctor_are_bounded(large: Large, tmp_path: Path) -> None:
    status = look(large, tmp_path, "status", "--format", "json")
    assert 0 == status.exit_code, status.stderr
    counts = json.loads(status.stdout)["chunks"]
    assert {"pending": PENDING, "running": 2, "failed": 5, "lease_expired": 1} == {
        name: count for name, count in counts.items() if name != "committed"
    }
    require_bounded(status)
    doctor = look(large, tmp_path, "doctor", "--format", "json")
    assert 3 == doctor.exit_code, doctor.stderr
    assert ["at_work", "failed", "lapsed", "pending"] == [
        symptom["name"] for symptom in json.loads(doctor.stdout)["symptoms"]
    ]
    assert len(doctor.stdout) < 16 * 1024
    require_bounded(doctor)
    retry = look(large, tmp_path, "retry-failed")
    assert "5 failed, 1 lapsed of 1000000 chunks" in retry.stdout
    require_bounded(retry)


def test_a_run_loads_what_is_left_of_a_million(large: Large, tmp_path: Path) -> None:
    """All but the very last one, so that no file is written that tells of every chunk."""
    large.history.sql(
        f"UPDATE {SCHEMA}.__dpone__backfill_chunks SET lease_expires_at = clock_timestamp() WHERE status = 'running';"
        f"ALTER TABLE target.history ADD CHECK (id < {MILLION})"
    )
    done = look(large, tmp_path, "resume")
    assert 1 == done.exit_code, done.stderr
    assert f"{PENDING + 5 + 3 - 1} chunks committed" in done.stdout
    assert "open, 999999 of 1000000 chunks committed in round 1" in done.stdout
    loaded = f"SELECT count(*) FROM target.history WHERE id > {MILLION - PENDING}"
    assert PENDING - 1 == large.history.value(loaded)
    require_bounded(done)
