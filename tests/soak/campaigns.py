"""The campaigns of the soak: one run of four lanes, six mapped items, and six that are published by a swap.

Each begins another generation once it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy
from dpone_contract.process import build_process, encode_process
from tests.integration.campaigns import item_environ, items_of
from tests.integration.child_runs import Run

CHUNKS = 120
ROWS_A_CHUNK = 500
LANES = 4
ITEMS = 6

TABLES = f"""
CREATE SCHEMA source;
CREATE SCHEMA target;
CREATE TABLE source.history (id bigint PRIMARY KEY, note text, amount numeric(14, 3));
INSERT INTO source.history SELECT n, CASE WHEN n %% 7 = 0 THEN NULL ELSE 'row ' || n END, n / 3.0
  FROM generate_series(0, {CHUNKS * ROWS_A_CHUNK - 1}) n;
CREATE TABLE target.lanes (LIKE source.history INCLUDING INDEXES);
CREATE TABLE target.items (LIKE source.history INCLUDING INDEXES);
CREATE TABLE target.swapped (LIKE source.history INCLUDING INDEXES);
"""

MANIFEST = """\
name: {name}
source: {{ type: postgres, connection_ref: source_db, table: {{ schema: source, name: history }} }}
sink:
  type: postgres
  connection_ref: target_db
  table: {{ schema: target, name: {name} }}
  strategy:
    mode: backfill
    backfill:
      backfill_id: {name}-{generation}
      parallel_workers: {lanes}
      publication: {publication}
      chunk: {{ column: id, from: 0, to: {last}, step: {step} }}
      state: {{ backend: audit_schema, schema: dpone_audit, require_distributed_lock: true }}
"""
_LEDGER = "dpone_audit.__dpone__backfill"


@dataclass
class SoakCampaign:
    """One campaign at a time of one kind: `places` are its runs, one or as many as items; it may be published by a swap."""

    name: str
    mapped: bool
    swaps: bool
    uri: str
    folder: Path
    session: psycopg.Connection[tuple[object, ...]]
    generation: int = 1
    started: int = 0
    runs: dict[int, Run] = field(default_factory=dict)

    @property
    def run_key(self) -> str:
        """Its key in the ledger."""
        return f"{self.name}-{self.generation}"

    @property
    def places(self) -> range:
        """The numbers of its runs."""
        return range(ITEMS if self.mapped else 1)

    def keep_running(self) -> None:
        """Start every run that has ended, whatever it ended with."""
        for place in self.places:
            run = self.runs.get(place)
            if run is None or run.ended():
                if run is not None:
                    run.kill()
                self.runs[place] = self._start(place)

    def _start(self, place: int) -> Run:
        self.started += 1
        folder = self.folder / f"{self.name}-{self.started}"
        folder.mkdir(parents=True)
        environ = {
            "DPONE_CONN_SOURCE_DB": self.uri,
            "DPONE_CONN_TARGET_DB": self.uri,
            "DPONE_BACKFILL_STATE_DIR": str(self.folder),
        }
        text = MANIFEST.format(
            name=self.name,
            generation=self.generation,
            lanes=1 if self.mapped else LANES,
            publication="{ mode: shadow_swap, retain_backup: false }" if self.swaps else "{ mode: direct }",
            last=CHUNKS * ROWS_A_CHUNK - 1,
            step=ROWS_A_CHUNK,
        )
        if not self.mapped:
            path = folder / f"{self.name}.yaml"
            path.write_text(text, encoding="utf-8")
            return Run(("run", str(path)), environ, folder)
        limits = MappingLimits(max_items=ITEMS, max_active=ITEMS, pool="dpone_backfill")
        policy = MappingPolicy(mode=MappingMode.SUMMARY, limits=limits)
        process = build_process(parse_manifest(text, "soak.yaml"), policy)
        environ |= item_environ(process, items_of(process)[place])
        return Run(("run", "--process", encode_process(process)), environ, folder)

    def said(self) -> str:
        """Give what the last runs have said."""
        folders = sorted(self.folder.glob(f"{self.name}-*/stderr"), key=lambda path: path.stat().st_mtime)
        return "\n".join(path.read_text(encoding="utf-8") for path in folders[-3:])

    def committed(self) -> int:
        """Count the committed chunks of this generation; 0 before its ledger is there."""
        if self._value("SELECT to_regclass(%s) IS NULL", f"{_LEDGER}_chunks"):
            return 0
        text = f"SELECT count(*) FROM {_LEDGER}_chunks WHERE run_key = %s AND status = 'committed'"
        return int(str(self._value(text, self.run_key)))

    def complete(self) -> bool:
        """Whether the ledger says so; that every chunk is committed is not enough."""
        if self.committed() < CHUNKS:
            return False
        status = self._value(f"SELECT status FROM {_LEDGER}_campaigns WHERE run_key = %s", self.run_key)
        return status == ("published" if self.swaps else "complete")

    def require_unseen(self) -> None:
        """Require readers of what is published by a swap to see the generation before, whole, or this one.

        Errors: AssertionError.
        """
        if self.swaps:
            rows = self._value(f"SELECT count(*) FROM target.{self.name}")
            assert rows in (0, CHUNKS * ROWS_A_CHUNK), f"{self.run_key}: readers see {rows} rows"

    def require_right(self) -> None:
        """Require each row of the target once, each chunk committed once, by the attempt that its row names.

        Errors: AssertionError.
        """
        text = "SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY id)) FROM {} t"
        found = [
            self.session.execute(text.format(table).encode()).fetchone()
            for table in ("source.history", f"target.{self.name}")
        ]
        assert found[0] == found[1], f"{self.run_key}: {found[0]} in the source, {found[1]} in the target"
        twice = self._value(
            f"SELECT count(*) FROM (SELECT chunk_index FROM {_LEDGER}_events WHERE run_key = %s"
            " AND kind = 'committed' GROUP BY chunk_index HAVING count(*) <> 1) found",
            self.run_key,
        )
        assert 0 == twice, f"{self.run_key}: {twice} chunks were not committed once"
        foreign = self._value(
            f"SELECT count(*) FROM {_LEDGER}_chunks c WHERE c.run_key = %s AND NOT EXISTS (SELECT FROM {_LEDGER}_events e"
            "  WHERE e.run_key = c.run_key AND e.chunk_index = c.chunk_index AND e.kind = 'committed'"
            "    AND e.owner = c.owner AND e.attempt = c.attempt AND e.xmin = c.xmin)",
            self.run_key,
        )
        assert 0 == foreign, f"{self.run_key}: {foreign} chunks are not of the attempt that committed them"

    def attempts(self) -> int:
        """Count the attempts of this generation."""
        text = f"SELECT coalesce(sum(attempt), 0) FROM {_LEDGER}_chunks WHERE run_key = %s"
        return int(str(self._value(text, self.run_key)))

    def begin_again(self) -> None:
        """Begin the next generation: the same window under another name, over what is there."""
        self.end()
        self.generation += 1

    def end(self) -> None:
        """End all runs."""
        for run in self.runs.values():
            run.kill()
        self.runs.clear()

    def _value(self, text: str, *values: object) -> object:
        row = self.session.execute(text.encode(), values).fetchone()
        return row[0] if row else None
