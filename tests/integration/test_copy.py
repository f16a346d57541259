"""The copy of one chunk: values as they are, flat memory, and sessions that stay of use after whatever goes wrong."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from dpone_contract.errors import ChunkFailedError, DponeError
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import build_process, plan_campaign
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.bootstrap import PreparedRun, prepare_run, resolve_connections
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.lane_bootstrap import open_lane
from dpone_runtime.ports.connectors import LoadReceipt
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import open_campaign
from quickstart.embedded_postgres import EmbeddedPostgres
from tests.factories import make_manifest
from tests.waiting import wait_until

MEGABYTE = 1024 * 1024
Session = psycopg.Connection[tuple[object, ...]]


def ignore(_: object) -> None:
    """Hear of progress or of a step, and do nothing."""


class Route:
    """Table `flights` from one database to another, as a campaign of one chunk, and one lane in this process."""

    def __init__(self, source: Session, target: Session, environ: dict[str, str]) -> None:
        self.source = source
        self.target = target
        self._environ = environ
        self._prepared: PreparedRun | None = None
        self.on_step: Callable[[str], None] = ignore

    def prepare(self) -> None:
        """Look at both tables, open the campaign and the lane."""
        process = build_process(make_manifest(chunks=1), MappingPolicy())
        planned = plan_campaign(process)
        self._prepared = prepare_run(process, planned, resolve_connections(process.manifest, self._environ))
        open_campaign(self._prepared.ledger, self._prepared.wanted)
        self.claims = ChunkClaims(self._prepared.ledger, planned.plan, max_active=None, dag_run_id=None)
        self.lane = open_lane(self._prepared.lane_bootstrap.to_document(), self._step)
        self.record: ChunkRecord | None = None

    def _step(self, step: str) -> None:
        self.on_step(step)

    def load(self, progress: Callable[[int], None] = ignore) -> LoadReceipt:
        """Claim the chunk and load it; a failure gives the claim back."""
        if self._prepared is None:
            self.prepare()
        claim = self.claims.claim(1)
        assert claim.request is not None
        assert claim.record is not None
        try:
            return self.lane.load(claim.request, progress)
        except DponeError:
            assert self.claims.release(claim.record, "for the next try")
            raise

    def close(self) -> None:
        """End the lane's sessions and the ledger's, which a run leaves to the end of its process."""
        if self._prepared is not None:
            ledger = self._prepared.ledger
            assert isinstance(ledger, SqlLedger)
            ledger.close()
            self.lane.close()

    def rows(self, session: Session) -> bytes:
        """Every row as the server writes it."""
        with session.cursor().copy("COPY (SELECT * FROM flights ORDER BY 1, 2) TO STDOUT") as copy:
            return b"".join(copy)

    def count(self) -> object:
        found = self.target.execute("SELECT count(*) FROM flights").fetchone()
        return found[0] if found else None

    def end_session(self, purpose: str) -> None:
        self.target.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (f"dpone {purpose}",),
        )


@pytest.fixture
def route(
    postgres: EmbeddedPostgres, database: str, other_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Route]:
    environ = {"DPONE_CONN_FLIGHTS_SOURCE": database, "DPONE_CONN_FLIGHTS_TARGET": other_database}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with (
        psycopg.connect(database, autocommit=True) as source,
        psycopg.connect(other_database, autocommit=True) as target,
    ):
        found = Route(source, target, environ)
        yield found
        found.close()


@pytest.fixture
def other_database(postgres: EmbeddedPostgres, database: str) -> Iterator[str]:
    name = database.rpartition("/")[2] + "_target"
    postgres.create_database(name)
    yield postgres.uri(name)
    with psycopg.connect(postgres.uri(), autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def require_loaded(route: Route, rows: int) -> None:
    receipt = route.load()
    assert (rows, rows) == (receipt.rows_extracted, receipt.rows_loaded)
    assert route.rows(route.source) == route.rows(route.target)


def fill(session: Session, rows: int, *, width: int = 100) -> None:
    session.execute("CREATE TABLE flights (flight_date date, n int, padding text)")
    session.execute(
        "INSERT INTO flights SELECT '2013-01-01', n, repeat('x', %s) FROM generate_series(1, %s) n",
        (width, rows),
    )


def test_tricky_values_survive(route: Route) -> None:
    route.source.execute(
        """
        CREATE TABLE flights (flight_date date NOT NULL, n int, "Text ""x"" y" text, bytes bytea, number numeric,
          float double precision, day date, at timestamptz, wall timestamp, span interval, list int[], names text[],
          document jsonb, raw json, id uuid, yes boolean, address inet, bits varbit, padded char(5), money numeric(9, 2))
        """
    )
    route.source.execute(
        r"""
        INSERT INTO flights VALUES
          ('2013-01-01', 1, '', '', 'NaN', 'NaN', 'infinity', 'infinity', '-infinity', '1 mon -3 days 04:05:06.789',
           '{}', '{}', '{}', ' {"a" : 1, "a":2} ', gen_random_uuid(), true, '10.0.0.1/8', '', '', 0),
          ('2013-01-01', 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
          ('2013-01-01', 3, E'tab\t new\nline back\\slash \\N \\. "quote'' \r', '\x00ff0a5c2e', 'Infinity', '-0',
           '4713-01-01 BC', '0044-03-15 12:00:00 BC', '294276-12-31 23:59:59.999999', '-178000000 years',
           '{{1,NULL},{3,4}}', '{"NULL",NULL,"","a,b"}', '{"k": [null, "\u2603"]}', '[]', NULL, false, '::1',
           '101', 'ab', -9999999.99),
          ('2013-01-01', 4, '✈️ 👩‍🚀 e' || chr(769), decode(repeat('ab', 100000), 'hex'), (repeat('9', 1000) || '.' ||
           repeat('1', 500))::numeric, 'Infinity', '5874897-12-31', '-infinity', 'infinity', '0',
           '[2:3]={7,8}', NULL, '"text"', 'null', NULL, NULL, NULL, NULL, NULL, 0.01)
        """
    )
    require_loaded(route, 4)


def test_a_chunk_without_rows_empties_its_slice(route: Route) -> None:
    route.source.execute("CREATE TABLE flights (flight_date date, n int)")
    route.target.execute("CREATE TABLE flights (flight_date date, n int)")
    route.target.execute("INSERT INTO flights VALUES ('2013-01-01', 1)")
    require_loaded(route, 0)


def test_a_thousand_columns_survive(route: Route) -> None:
    columns = ", ".join(f"c{number} int" for number in range(1000))
    route.source.execute(f"CREATE TABLE flights (flight_date date, n int, {columns})".encode())
    route.source.execute("INSERT INTO flights (flight_date, n, c0, c999) VALUES ('2013-01-01', 1, 2, 3)")
    require_loaded(route, 1)


@pytest.mark.parametrize("size", [1, 256 * 1024 - 100, 256 * 1024, 3 * MEGABYTE])
def test_rows_around_the_block_size_survive(route: Route, size: int) -> None:
    fill(route.source, 5, width=size)
    require_loaded(route, 5)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a process's peak")
def test_a_row_of_50_megabytes_is_held_twice_at_most(route: Route) -> None:
    fill(route.source, 3, width=50 * MEGABYTE)
    route.prepare()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    assert 3 == route.load().rows_loaded
    assert memory("VmHWM") - before < 115 * MEGABYTE


def memory(what: str) -> int:
    """Resident memory of this process in bytes: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def test_a_source_that_fails_midway_changes_nothing(route: Route) -> None:
    fill(route.source, 100_000)
    route.load()
    route.source.execute("ALTER TABLE flights RENAME TO mended")
    view = "SELECT flight_date, 1 / (n - 90000) + n AS n, padding FROM mended"
    route.source.execute(f"CREATE VIEW flights AS {view}".encode())
    reopen(route)
    moved: list[int] = []
    with pytest.raises(ChunkFailedError, match="division by zero"):
        route.load(moved.append)
    assert sum(moved) > MEGABYTE
    assert 100_000 == route.count()

    route.source.execute("CREATE OR REPLACE VIEW flights AS SELECT flight_date, n, padding FROM mended")
    require_loaded(route, 100_000)


def test_a_sink_that_fails_midway_changes_nothing(route: Route) -> None:
    fill(route.source, 100_000)
    fill(route.target, 1)
    route.target.execute("ALTER TABLE flights ADD CHECK (n <> 90000)")
    with pytest.raises(ChunkFailedError, match="check constraint"):
        route.load()
    assert 1 == route.count()

    route.target.execute("ALTER TABLE flights DROP CONSTRAINT flights_n_check")
    require_loaded(route, 100_000)


def test_both_sides_failing_changes_nothing(route: Route) -> None:
    fill(route.source, 200_000)
    fill(route.target, 1)

    def end_both(_: int) -> None:
        route.end_session("source")
        route.end_session("sink")

    with pytest.raises(DponeError):
        route.load(end_both)
    assert 1 == route.count()
    require_loaded(route, 200_000)


@pytest.mark.parametrize("purpose", ["source", "sink"])
def test_a_session_that_ends_midway_is_opened_again(route: Route, purpose: str) -> None:
    fill(route.source, 200_000)
    with pytest.raises(DponeError):
        route.load(lambda _: route.end_session(purpose))
    assert 0 == route.count()
    require_loaded(route, 200_000)


def test_whoever_breaks_off_leaves_a_lane_of_use(route: Route) -> None:
    fill(route.source, 200_000)

    class BrokenOffError(DponeError):
        """Raised in the middle of the rows."""

    def break_off(_: int) -> None:
        raise BrokenOffError("broken off")

    with pytest.raises(BrokenOffError):
        route.load(break_off)
    assert 0 == route.count()
    require_loaded(route, 200_000)


def test_a_source_that_ends_after_the_commit_is_no_failure(route: Route) -> None:
    fill(route.source, 10)
    route.on_step = lambda step: route.end_session("source") if step == "committed" else None
    require_loaded(route, 10)


def test_a_slow_sink_holds_the_source_back_and_not_the_process(route: Route) -> None:
    fill(route.source, 500_000, width=200)
    fill(route.target, 0)
    route.target.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END $$"
    )
    # The trigger runs when the server has asked for the rows and has not read the first.
    route.target.execute("CREATE TRIGGER wait BEFORE INSERT ON flights EXECUTE FUNCTION wait()")
    route.prepare()
    moved: list[int] = []
    began = threading.Event()

    def progress(size: int) -> None:
        moved.append(size)
        began.set()

    def waiting() -> bool:
        found = route.target.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpone sink' "
            "AND wait_event_type = 'Lock'"
        ).fetchone()
        return found == (1,)

    with ThreadPoolExecutor(1) as thread:
        route.target.execute("SELECT pg_advisory_lock(7)")
        try:
            loading = thread.submit(route.load, progress)
            wait_until(waiting, what="the sink's wait for the lock")
            assert began.wait(10)
            wait_until(stands_still(moved), what="the end of the room between the servers")
            assert not loading.done()
            # What the sockets of both sessions hold, not what the table does.
            assert sum(moved) < 40 * MEGABYTE
        finally:
            route.target.execute("SELECT pg_advisory_unlock(7)")
        receipt = loading.result(60)
    assert 500_000 == receipt.rows_loaded
    assert receipt.bytes_moved > 100 * MEGABYTE


def stands_still(moved: list[int]) -> Callable[[], bool]:
    """Whether nothing was added in the last ten looks: the looking thread runs, so the interpreter is free."""
    seen: list[int] = []

    def look() -> bool:
        seen.append(len(moved))
        return len(seen) > 10 and seen[-1] == seen[-11]

    return look


def reopen(route: Route) -> None:
    """Begin the committed chunk's campaign anew, as if its first round had never been."""
    route.target.execute("DROP SCHEMA dpone_audit CASCADE")
    route.close()
    route.prepare()
