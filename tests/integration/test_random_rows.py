"""Random rows of a wide table, through the transaction that loads a chunk: the same bytes on both sides, in either format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import build_process, plan_campaign
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.bootstrap import prepare_run, resolve_connections
from dpone_runtime.lane_bootstrap import open_lane
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import open_campaign
from tests.integration.campaigns import History, day, manifest_text
from tests.integration.random_rows import MADE, PLAIN, RandomColumn
from tests.integration.test_types import copied

CHUNKS = 9000
TYPES = """
CREATE TYPE source.mood AS ENUM ('sad', '', E'a,b\\\\', '☃');
CREATE TYPE source.made AS (a integer, "b c" text, f double precision, mood source.mood);
CREATE TYPE source.mood_range AS RANGE (subtype = source.mood);
DROP TABLE source.history, target.history
"""
FORMATS = {"binary": PLAIN, "text": PLAIN + MADE}


class Loader:
    """A campaign of many days, and a lane of this very process: each example is a day of its own."""

    def __init__(self, history: History, columns: Sequence[RandomColumn]) -> None:
        self.history = history
        self.columns = columns
        history.sql(TYPES)
        listed = ", ".join(f"c{number} {column.type}" for number, column in enumerate(columns))
        history.sql(f"CREATE TABLE source.history (day date, id integer, {listed})")
        process = build_process(parse_manifest(manifest_text(CHUNKS), "history.yaml"), MappingPolicy())
        planned = plan_campaign(process)
        prepared = prepare_run(process, planned, resolve_connections(process.manifest, history.environ))
        assert isinstance(prepared.ledger, SqlLedger)
        self.format = prepared.lane_bootstrap.format.value
        open_campaign(prepared.ledger, prepared.wanted)
        self._ledger = prepared.ledger
        self._claims = ChunkClaims(prepared.ledger, planned.plan, max_active=None, dag_run_id=None)
        self._lane = open_lane(prepared.lane_bootstrap.to_document())
        self._chunks = count(1)

    def load(self, rows: Sequence[Sequence[Any]]) -> tuple[bytes, bytes]:
        """Load rows as a chunk of their own; give what the server makes of both sides."""
        chunk_index = next(self._chunks)
        for number, row in enumerate(rows):
            marks, values = [], []
            for column, value in zip(self.columns, row, strict=True):
                marks.append("NULL" if value is None else column.written)
                values += [] if value is None else value if isinstance(value, tuple) else [value]
            text = f"INSERT INTO source.history VALUES (%s, %s, {', '.join(marks)})"
            self.history.sql(text, day(chunk_index), number, *values)
        request = self._claims.claim(chunk_index).request
        assert request is not None
        assert len(rows) == self._lane.load(request, lambda _: None).rows_loaded
        where = f" WHERE day = '{day(chunk_index)}'"
        return copied(self.history, f"source.history{where}"), copied(self.history, f"target.history{where}")

    def close(self) -> None:
        self._lane.close()
        self._ledger.close()


@pytest.fixture
def loader(
    history: History, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Loader]:
    for name, value in history.environ.items():
        monkeypatch.setenv(name, value)
    found = Loader(history, FORMATS[request.param])
    assert request.param == found.format
    yield found
    found.close()


def rows_of(columns: Sequence[RandomColumn]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    row = st.tuples(*(st.one_of(st.none(), column.values) for column in columns))
    return st.lists(row, min_size=1, max_size=4)


BOUNDED = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


@pytest.mark.parametrize("loader", ["binary"], indirect=True)
@BOUNDED
@given(rows=rows_of(PLAIN))
def test_random_rows_survive_in_binary(loader: Loader, rows: list[tuple[Any, ...]]) -> None:
    source, target = loader.load(rows)
    assert source == target


@pytest.mark.parametrize("loader", ["text"], indirect=True)
@BOUNDED
@given(rows=rows_of(PLAIN + MADE))
def test_random_rows_survive_as_text(loader: Loader, rows: list[tuple[Any, ...]]) -> None:
    source, target = loader.load(rows)
    assert source == target
