"""The simulated database means what PostgreSQL means: the same suite of the port, the same names, the same conditions."""

import re
import threading
from dataclasses import replace

import pytest

from dpone_contract.errors import ChunkLeaseLostError
from dpone_runtime.adapters.postgres.completion import RowCompletion
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.adapters.sql.queries import load_blocks
from dpone_runtime.domain.campaign import Shadow
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.ports.connectors import LoadReceipt
from tests.campaign_factories import TARGET, make_campaign, make_plan
from tests.conformance.failures_suite import FailuresConformance
from tests.conformance.ledger_suite import Hold, LedgerBackend, LedgerConformance
from tests.conformance.publication_suite import PublicationConformance
from tests.conformance.rounds_suite import RoundsConformance
from tests.simulation.conditions import CONDITIONS
from tests.simulation.database import Database
from tests.simulation.preparation import CONTRACT, shadow_of, swap_of
from tests.simulation.reading import SCHEMA
from tests.simulation.rows import CAMPAIGN_COLUMNS, CHUNK_COLUMNS, EVENT_COLUMNS
from tests.simulation.session import QUERIES, SimulatedSession
from tests.simulation.statements import Statements
from tests.simulation.tables import NotNullViolationError, TargetRow

OF_THE_SLICE = {"lock_table", "seen_columns", "slice", "copy_first", "copy_last"}
OF_TABLES = {"lock_both", "find_table", "count_table", "create_table", "rename_table", "drop_table"}
BY_HAND = {"insert_by_hand", "replace_by_hand"}
COMPLETION = RowCompletion(SCHEMA)
PATIENCE_SECONDS = 30
LOOK_SECONDS = 0.01
LOOKS_BEFORE_TIME_PASSES = 100


# The suite.


class Driver:
    """Steps every session that can go on, for one thread at a time, until a condition holds."""

    def __init__(self, database):
        self._database = database
        self._turn = threading.Condition()

    def run_until(self, condition):
        with self._turn:
            for look in range(int(PATIENCE_SECONDS / LOOK_SECONDS)):
                self.run()
                # Nobody else ends a wait for a lock: time does.
                self._database.elapsed += look > LOOKS_BEFORE_TIME_PASSES
                if condition():
                    return
                # Another thread has to go on first: it holds what this one waits for.
                self._turn.wait(LOOK_SECONDS)
        raise AssertionError("a batch is not answered")

    def run(self):
        with self._turn:
            while ready := [session for session in self._database.sessions if session.ready()]:
                for session in ready:
                    session.step()
            self._turn.notify_all()


class SimulatedHold(Hold):
    def __init__(self, session, driver):
        self._session, self._driver = session, driver

    def ended(self):
        self._driver.run()
        return self._session.dead


class SimulatedBackend(LedgerBackend):
    def __init__(self):
        self._database = Database(Statements().execute)
        # Campaigns of the suites have targets that are no tables.
        self._database.committed = replace(self._database.committed, names={})
        self._driver = Driver(self._database)
        self.ledger, self.second = self.connect(), self.connect()

    def connect(self):
        return SqlLedger(SimulatedSession(self._database.connect, self._driver.run_until), SCHEMA)

    def expire_lease(self, record):
        committed = self._database.committed
        key = (record.run_key, record.chunk_index)
        row = {**committed.chunks[key], "lease_expires_at": self._database.now()}
        self._database.committed = replace(committed, chunks={**committed.chunks, key: row})

    def pass_time(self):
        self._database.elapsed += 1

    def _run(self, *statements):
        session = self._database.connect("sink")
        session.send(statements)
        self._driver.run_until(lambda: session.answer is not None)
        return session, session.take_answer()

    def complete(self, request, rows_extracted, rows_loaded):
        completing = COMPLETION.complete(request, LoadReceipt(rows_extracted, rows_loaded, 0))
        _, answer = self._run(QUERIES.statement("begin"), *completing, QUERIES.statement("commit"))
        if isinstance(answer.error, NotNullViolationError):
            raise ChunkLeaseLostError("refused")
        assert answer.error is None

    def hold_chunk(self, record):
        lock = QUERIES.statement("lock", lock=self.ledger._lock("chunk", record.run_key, record.chunk_index))
        session, _ = self._run(QUERIES.statement("begin"), lock)
        return SimulatedHold(session, self._driver)

    def events(self):
        return [
            Event(
                kind=EventKind(one["kind"]),
                **{name: one[name] for name in EVENT_COLUMNS[2:] if name != "kind"},
            )
            for one in self._database.events
        ]


class SimulatedTables:
    def __init__(self, backend):
        self._backend, self._database = backend, backend._database
        self._change(names={TARGET.name: TARGET.relation})

    def _change(self, **changes):
        self._database.committed = replace(self._database.committed, **changes)

    def wanted(self, run_key):
        names, name = self._database.committed.names, str(shadow_of(run_key))
        if name not in names:
            self._database.tables_made += 1
            self._change(names={**names, name: str(self._database.tables_made)})
        shadow = Shadow(self._database.committed.names[name], name, CONTRACT)
        target = replace(TARGET, relation=self.live())
        return make_campaign(make_plan(run_key=run_key), target=target, shadow=shadow)

    def swap(self, campaign):
        return swap_of(campaign)

    def write(self, swap, rows):
        found = dict(self._database.committed.rows)
        for _ in range(rows):
            found[len(found)] = TargetRow(swap.shadow_relation, len(found), 1, "", 0, 0, 0, "")
        self._change(rows=found)

    def live(self):
        return self._database.committed.names[TARGET.name]

    def ledgers(self, count):
        return [self._backend.connect() for _ in range(count)]


class TestSimulatedLedger(LedgerConformance, RoundsConformance, FailuresConformance, PublicationConformance):
    @pytest.fixture
    def backend(self):
        return SimulatedBackend()

    @pytest.fixture
    def tables(self, backend):
        return SimulatedTables(backend)


# The names and conditions of ledger.sql.


def sql_of(name):
    """A query of PostgreSQL's with its parameters as they are written."""
    text = load_blocks("dpone_runtime.adapters.postgres", "ledger.sql")[name]
    return re.sub(r"%\((\w+)\)s", r":\1", text)


def first_where(text):
    """Everything that the first WHERE asks for, up to the end of its own level."""
    depth, found = 0, ""
    for word in re.split(r"(\s+|[()])", text.split("WHERE", 1)[1]):
        if depth == 0 and word in ("RETURNING", "ORDER", "GROUP", "LIMIT"):
            break
        depth += (word == "(") - (word == ")")
        if depth < 0:
            break
        found += word
    return found


def conjuncts(text):
    """Split at the ANDs of one level; that of a BETWEEN is none."""
    parts, depth, between = [""], 0, False
    for word in re.split(r"(\s+|[()])", text):
        depth += (word == "(") - (word == ")")
        between = between or word == "BETWEEN"
        if word == "AND" and depth == 0 and not between:
            parts.append("")
            continue
        between = between and word != "AND"
        parts[-1] += word
    return [" ".join(part.split()) for part in parts]


def asked_by(name):
    """The conditions of a query, those of its EXISTS apart."""
    found = {name: set()}
    for text in conjuncts(first_where(sql_of(name))):
        if text.startswith("EXISTS"):
            found[f"{name}: campaign"] = set(conjuncts(first_where(text)))
        else:
            found[name].add(text)
    return found


def test_every_query_of_the_ledger_is_simulated_under_its_name():
    expected = set(load_blocks("dpone_runtime.adapters.postgres", "ledger.sql"))
    assert expected | OF_THE_SLICE | OF_TABLES | BY_HAND | {"settings"} == Statements().names()


@pytest.mark.parametrize("name", [name for name in CONDITIONS if ":" not in name])
def test_a_query_asks_what_its_simulation_asks(name):
    simulated = {query: set(found) for query, found in CONDITIONS.items() if query.split(":")[0] == name}
    assert asked_by(name) == simulated


def test_every_change_of_a_row_has_its_conditions_simulated():
    texts = load_blocks("dpone_runtime.adapters.postgres", "ledger.sql")
    assert set() == {name for name, text in texts.items() if "UPDATE {" in text} - set(CONDITIONS)


@pytest.mark.parametrize(
    "name, columns",
    [("read_campaign", CAMPAIGN_COLUMNS), ("read_chunk", CHUNK_COLUMNS), ("campaign_events", EVENT_COLUMNS)],
)
def test_rows_have_the_columns_of_the_query(name, columns):
    listed = sql_of(name).removeprefix("SELECT").split("FROM")[0]
    assert columns == tuple(column.strip() for column in listed.split(","))
