"""A small campaign to break: ten days of twenty rows in one database, manifests for them, runs on them, the ledger."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import psycopg

from dpone_contract.environment import EnvVar
from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_item import MappingItem, dump_item, mapping_item
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy
from dpone_contract.process import Process, build_process, encode_process, plan_campaign, process_digest
from dpone_contract.run_identity import RunIdentity, dump_run_identity
from tests.integration.child_runs import Fault, Finished, Run

FIRST_DAY = date(2013, 1, 1)
DAYS = 10
ROWS_A_DAY = 20
STALE_ROWS_A_DAY = 3

# NULL beside the empty string, text that COPY's text format would have to escape, negative and large numbers.
SOURCE = f"""
CREATE SCHEMA source;
CREATE SCHEMA target;
CREATE TABLE source.history (day date, id integer NOT NULL, note text, amount bigint, price numeric(14,3));
INSERT INTO source.history
SELECT date '{FIRST_DAY}' + day, day * {ROWS_A_DAY} + n,
       CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN E'tab\\there\\nline \\\\N' ELSE 'zażółć ' || n END,
       CASE n % 4 WHEN 0 THEN NULL ELSE (n - 10) * 4000000000::bigint END,
       CASE n % 3 WHEN 0 THEN NULL ELSE n / 3.0 END
  FROM generate_series(0, {DAYS - 1}) day, generate_series(0, {ROWS_A_DAY - 1}) n;
CREATE TABLE target.history (LIKE source.history);
"""

STALE = f"""
INSERT INTO target.history (day, id, note)
SELECT date '{FIRST_DAY}' + day, -n, 'stale' FROM generate_series(0, {DAYS - 1}) day,
       generate_series(1, {STALE_ROWS_A_DAY}) n
"""

# What an operator never does by hand: the clock of the lease, not the state of the chunk.
LAPSE = "UPDATE dpone_audit.__dpone__backfill_chunks SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE status = 'running'"

# A campaign whose tallies and rows disagree about what its round has committed.
MISCOUNTED = """
SELECT g.run_key, g.round FROM dpone_audit.__dpone__backfill_campaigns g
 WHERE (SELECT count(*) FROM dpone_audit.__dpone__backfill_chunks c
         WHERE c.run_key = g.run_key AND c.round = g.round AND c.status = 'committed')
    <> (SELECT coalesce(sum(t.committed), 0) FROM dpone_audit.__dpone__backfill_tallies t
         WHERE t.run_key = g.run_key AND t.round = g.round)
"""

MANIFEST = """\
name: {name}
source:
  type: postgres
  connection_ref: source_db
  table: {{ schema: source, name: history }}
sink:
  type: postgres
  connection_ref: target_db
  table: {{ schema: target, name: history }}
  strategy:
    mode: backfill
    backfill:
      chunk:
        column: day
        from: "{first}"
        to: "{last}"
        step: 1d
      state: {{ backend: audit_schema, schema: {audit_schema}, require_distributed_lock: true }}
"""


def day(chunk_index: int) -> date:
    """The day that a chunk of a window from the first day on covers."""
    return FIRST_DAY + timedelta(days=chunk_index - 1)


class History:
    """A source, a target and a ledger in one database, and the runs that a test starts on them."""

    def __init__(self, uri: str, folder: Path, *, found: bool = False) -> None:
        """Create both tables, or look at those that are there already (`found`)."""
        self.uri = uri
        self.folder = folder
        self.environ = {"DPONE_CONN_SOURCE_DB": uri, "DPONE_CONN_TARGET_DB": uri}
        self.runs: list[Run] = []
        self._roles: list[str] = []
        self._connection = psycopg.connect(uri, autocommit=True, application_name="test")
        if not found:
            self.sql(SOURCE)

    # The database.

    def sql(self, text: str, *values: object) -> list[tuple[object, ...]]:
        """Run SQL as the test's own session; give the rows."""
        cursor = self._connection.execute(text.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    @property
    def connection(self) -> psycopg.Connection[tuple[object, ...]]:
        """The test's own session."""
        return self._connection

    def connect_again(self) -> None:
        """Open the test's own session anew, after its server has crashed."""
        self._connection.close()
        self._connection = psycopg.connect(self.uri, autocommit=True, application_name="test")

    def cursor(self) -> psycopg.Cursor[tuple[object, ...]]:
        """Give a cursor of the test's own session."""
        return self._connection.cursor()

    def value(self, text: str, *values: object) -> object:
        """Give the one value of a query."""
        return self.sql(text, *values)[0][0]

    def add_reader(self, name: str, password: str) -> None:
        """Make a user who may read both tables and write nothing; gone with this history."""
        self.add_user(name, password)
        self.sql(
            f"GRANT USAGE ON SCHEMA source, target TO {name};"
            f"GRANT SELECT ON ALL TABLES IN SCHEMA source, target TO {name}"
        )

    def add_user(self, name: str, password: str) -> None:
        """Make a user who may do nothing; gone with this history."""
        self.sql(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        self._roles.append(name)

    def add_stale_rows(self) -> None:
        """Fill every day of the target with rows that a load must replace."""
        self.sql(STALE)

    def content(self, table: str, where: str = "true") -> tuple[object, ...]:
        """Give the number of rows and an order-independent digest of their values."""
        text = f"SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM {table} t WHERE {where}"
        return self.sql(text)[0]

    def versions(self, chunk_index: int, table: str = "target.history") -> list[tuple[object, ...]]:
        """Give place and inserting transaction of each row of a slice: whatever touches a row changes one of them."""
        return self.sql(
            f"SELECT ctid::text, xmin::text FROM {table} WHERE day = %s ORDER BY 1", day(chunk_index)
        )

    # The ledger.

    def chunks(self) -> dict[int, tuple[str, int]]:
        """Give status and attempt of each chunk that was ever claimed."""
        rows = self.sql(
            "SELECT chunk_index, status, attempt FROM dpone_audit.__dpone__backfill_chunks ORDER BY 1"
        )
        return {row[0]: (row[1], row[2]) for row in rows}  # type: ignore[misc,index]  # rows are untyped

    def events(self, chunk_index: int | None) -> list[str]:
        """Give the kinds of a chunk's events in order, or of the campaign's own."""
        where = "chunk_index IS NULL" if chunk_index is None else f"chunk_index = {chunk_index}"
        text = f"SELECT kind FROM dpone_audit.__dpone__backfill_events WHERE {where} ORDER BY event_id"
        return [str(row[0]) for row in self.sql(text)]

    def has_ledger_rows(self) -> bool:
        """Whether any chunk was ever claimed in any audit schema."""
        schemas = self.sql("SELECT schemaname FROM pg_tables WHERE tablename = '__dpone__backfill_chunks'")
        return any(
            self.value(f'SELECT EXISTS (SELECT FROM "{row[0]}".__dpone__backfill_chunks)') for row in schemas
        )

    def lease_seconds(self) -> float:
        """Give what the one live lease has left."""
        text = (
            "SELECT extract(epoch FROM lease_expires_at - clock_timestamp())::float"
            " FROM dpone_audit.__dpone__backfill_chunks WHERE status = 'running'"
        )
        ((seconds,),) = self.sql(text)
        return float(str(seconds))

    def live_leases(self) -> int:
        """Count live leases."""
        return int(
            str(
                self.value(
                    "SELECT count(*) FROM dpone_audit.__dpone__backfill_chunks"
                    " WHERE status = 'running' AND lease_expires_at > clock_timestamp()"
                )
            )
        )

    def lapse_leases(self) -> None:
        """Let ninety seconds pass for every lease."""
        self.sql(LAPSE)

    def require_loaded(self, chunks_total: int) -> None:
        """Require the first days to be in the target exactly once.

        The rows equal the source's; all rows of a slice, the chunk's row and its last `committed` event come from one
        transaction, which nothing has touched since; each round of a chunk was committed once.
        """
        window = f"day BETWEEN '{FIRST_DAY}' AND '{day(chunks_total)}'"
        assert self.content("source.history", window) == self.content("target.history", window)
        rows = self.sql(
            "SELECT c.chunk_index, c.status, c.xmin::text,"
            " (SELECT max(e.xmin::text::bigint)::text FROM dpone_audit.__dpone__backfill_events e"
            "   WHERE e.run_key = c.run_key AND e.chunk_index = c.chunk_index AND e.kind = 'committed'"
            "     AND e.round = c.round AND e.attempt = c.attempt AND e.owner = c.owner),"
            " (SELECT count(*) FROM dpone_audit.__dpone__backfill_events e"
            "   WHERE e.run_key = c.run_key AND e.chunk_index = c.chunk_index AND e.kind = 'committed'"
            "     AND e.round = c.round),"
            " ARRAY(SELECT DISTINCT t.xmin::text FROM target.history t WHERE t.day = c.lower_bound::date)"
            " FROM dpone_audit.__dpone__backfill_chunks c ORDER BY 1"
        )
        assert list(range(1, chunks_total + 1)) == [row[0] for row in rows]
        assert [] == self.sql(MISCOUNTED)
        for chunk_index, status, chunk_xmin, event_xmin, commits, row_xmins in rows:
            assert (chunk_index, "committed", 1) == (chunk_index, status, commits)
            assert (chunk_index, [chunk_xmin]) == (chunk_index, row_xmins)
            assert (chunk_index, chunk_xmin) == (chunk_index, event_xmin)

    def manifest(self, text: str | None = None, *, file: str = "history.yaml") -> str:
        """Write a manifest, by default of three days; give its path."""
        path = self.folder / file
        path.write_text(manifest_text(3) if text is None else text, encoding="utf-8")
        return str(path)

    # Runs.

    def start(
        self,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        faults: Sequence[Fault] | None = None,
    ) -> Run:
        """Start `dpone` over this database, with faults in its lanes where there are any."""
        folder = self.folder / f"run-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        run = Run(arguments, {**self.environ, **(environ or {})}, folder, faults)
        self.runs.append(run)
        return run

    def start_item(
        self,
        process: Process,
        item_index: int = 0,
        *,
        faults: Sequence[Fault] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Run:
        """Start one mapped item as Airflow does."""
        told = {**item_environ(process, items_of(process)[item_index]), **(environ or {})}
        return self.start("run", "--process", encode_process(process), environ=told, faults=faults)

    def run(
        self,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        faults: Sequence[Fault] | None = None,
    ) -> Finished:
        """Run `dpone` to its end."""
        return self.start(*arguments, environ=environ, faults=faults).finish()

    def close(self) -> None:
        """End whatever a test left behind."""
        for run in self.runs:
            run.kill()
        for role in self._roles:
            self.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")
        self._connection.close()


def manifest_text(
    chunks: int = 3,
    *,
    name: str = "history",
    first: str = FIRST_DAY.isoformat(),
    last: str | None = None,
    audit_schema: str = "dpone_audit",
    lanes: int = 1,
) -> str:
    """Give a manifest of daily chunks."""
    last = last or day(chunks).isoformat()
    text = MANIFEST.format(name=name, first=first, last=last, audit_schema=audit_schema)
    return text if lanes == 1 else with_lanes(text, lanes)


def with_lanes(text: str, lanes: int) -> str:
    """Give a manifest whose runs have several lanes."""
    return text.replace("    backfill:\n", f"    backfill:\n      parallel_workers: {lanes}\n")


def checked(text: str) -> str:
    """Let a manifest compare contents."""
    return text.replace("    backfill:\n", "    backfill:\n      verify: checksum\n")


def mapped_process(
    chunks: int = 3, *, items: int = 1, max_active: int = 1, text: str | None = None
) -> Process:
    """Compile a process of mapped items, as a pack holds it; `text` is a manifest of its own."""
    limits = MappingLimits(max_items=items, max_active=max_active, pool="dpone_backfill")
    manifest = parse_manifest(text or manifest_text(chunks), "history.yaml")
    return build_process(manifest, MappingPolicy(mode=MappingMode.SUMMARY, limits=limits))


def item_environ(process: Process, item: MappingItem) -> dict[str, str]:
    """Give what the provider writes for one mapped item: the item, the run's identity, the attempt."""
    identity = RunIdentity(
        release="2013.1",
        deployment="test",
        workload="history",
        process=process.name,
        pack_fingerprint="sha256:" + "0" * 64,
        process_digest=process_digest(process),
    )
    return {
        EnvVar.MAPPING_ITEM.value: dump_item(item),
        EnvVar.RUN_IDENTITY.value: dump_run_identity(identity),
        EnvVar.DAG_ID.value: "history",
        EnvVar.DAG_RUN_ID.value: "manual__1",
        EnvVar.TRY_NUMBER.value: "1",
    }


def items_of(process: Process) -> tuple[MappingItem, ...]:
    """Give the items of a mapped process."""
    plan = plan_campaign(process).mapping_plan(process.mapping)
    return tuple(mapping_item(plan, item) for item in plan.items)


@contextmanager
def opened_history(uri: str, folder: Path) -> Iterator[History]:
    """A history whose runs are all ended with it."""
    history = History(uri, folder)
    try:
        yield history
    finally:
        history.close()
