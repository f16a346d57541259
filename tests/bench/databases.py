"""Two databases of one embedded server, a table from one to the other, and campaigns over it without a run of `dpone`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import Process, build_process, encode_process, plan_campaign
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.bootstrap import prepare_run, resolve_connections
from dpone_runtime.lane_bootstrap import open_lane
from dpone_runtime.ports.connectors import LoadRequest
from dpone_runtime.ports.lanes import ChunkLoader
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import open_campaign
from quickstart.embedded_postgres import EmbeddedPostgres
from tests.bench.table_shapes import DAYS, MIXED, TableShape
from tests.factories import FIRST_DAY, make_manifest

DPONE = Path(sys.executable).with_name("dpone")


class Databases:
    """Where the benchmark's table `flights` is, and where it goes."""

    def __init__(self, server: EmbeddedPostgres, folder: Path) -> None:
        self.folder = folder
        self.psql = str(server.bin("psql"))
        for name in ("bench_source", "bench_target"):
            server.create_database(name)
        self.source, self.target = server.uri("bench_source"), server.uri("bench_target")

    @property
    def environ(self) -> dict[str, str]:
        """This process's, with the connections as `dpone` looks them up."""
        return {
            **os.environ,
            "DPONE_CONN_FLIGHTS_SOURCE": self.source,
            "DPONE_CONN_FLIGHTS_TARGET": self.target,
            "DPONE_BACKFILL_STATE_DIR": str(self.folder),
        }

    def fill(self, rows: int, shape: TableShape = MIXED) -> None:
        """Create both tables, identical and without an index, and the source's rows in the order of their days."""
        for uri in (self.source, self.target):
            execute(uri, "DROP TABLE IF EXISTS flights")
            execute(uri, f"CREATE TABLE flights ({shape.definition})")
        if rows:
            with psycopg.connect(self.source, autocommit=True) as connection:
                connection.execute(
                    f"INSERT INTO flights {shape.select}".encode(), {"days": DAYS, "rows": rows}
                )
        execute(self.source, "VACUUM ANALYZE flights")

    def index(self) -> None:
        """Index the chunk column on both sides, as whoever loads in chunks does."""
        for uri in (self.source, self.target):
            execute(uri, "CREATE INDEX ON flights (flight_date)")

    def empty(self) -> None:
        """Forget what was loaded, and that it was; leave no writing for the next round to wait for."""
        execute(self.target, "DROP SCHEMA IF EXISTS dpone_audit CASCADE")
        execute(self.target, "TRUNCATE flights")
        execute(self.target, "CHECKPOINT")

    def write_manifest(self, process: Process) -> Path:
        """Write a process as a manifest; JSON is YAML."""
        path = self.folder / "flights.yaml"
        path.write_text(json.dumps(process.manifest.to_document()), encoding="utf-8")
        return path

    def require_loaded(self, rows: int) -> None:
        """Require that every row arrived."""
        with psycopg.connect(self.target) as connection:
            assert (rows,) == connection.execute("SELECT count(*) FROM flights").fetchone()


@contextmanager
def databases() -> Iterator[Databases]:
    """Start the server, its connections in this process's environment for the lanes that it opens."""
    with EmbeddedPostgres() as server, TemporaryDirectory() as folder:
        found = Databases(server, Path(folder))
        os.environ.update(found.environ)
        yield found


def execute(uri: str, text: str) -> None:
    """Run one statement in a session of its own."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(text.encode())


def run_dpone(found: Databases, *arguments: str) -> None:
    """Run the command; what it prints is shown where it fails."""
    done = subprocess.run(
        (str(DPONE), *arguments), env=found.environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"dpone {arguments[0]} ended with {done.returncode}: {done.stderr}")


def run_arguments(process: Process) -> tuple[str, ...]:
    """Give the arguments of a run as Airflow starts it."""
    return ("run", "--quiet", "--process", encode_process(process))


def make_history(*, days: int = DAYS, step: str = "1d", **backfill: object) -> Process:
    """A process that loads `days` days in chunks of one step."""
    window: Mapping[str, str] = {
        "column": "flight_date",
        "from": FIRST_DAY.isoformat(),
        "to": (FIRST_DAY + timedelta(days=days - 1)).isoformat(),
        "step": step,
    }
    manifest = make_manifest(window=window)
    strategy = manifest.sink.strategy
    changed = strategy.replaced(backfill=manifest.backfill.replaced(**backfill))
    return build_process(manifest.replaced(sink=manifest.sink.replaced(strategy=changed)), MappingPolicy())


class OpenCampaign:
    """A campaign whose chunks are claimed and loaded in this process, through one lane."""

    def __init__(self, process: Process) -> None:
        planned = plan_campaign(process)
        prepared = prepare_run(process, planned, resolve_connections(process.manifest, os.environ))
        open_campaign(prepared.ledger, prepared.wanted)
        self._ledger = prepared.ledger
        self._claims = ChunkClaims(prepared.ledger, planned.plan, max_active=None, dag_run_id=None)
        self.chunks_total = planned.plan.chunks_total
        self.lane: ChunkLoader = open_lane(prepared.lane_bootstrap.to_document())

    def claim(self, chunk_index: int) -> LoadRequest:
        """Claim a chunk that is free."""
        request = self._claims.claim(chunk_index).request
        assert request is not None
        return request

    def close(self) -> None:
        """End the sessions of lane and ledger."""
        self.lane.close()
        if isinstance(self._ledger, SqlLedger):
            self._ledger.close()
