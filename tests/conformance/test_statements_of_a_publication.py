"""The simulated publication goes through the statements of the real one: same locks in the same order, same batches, same bounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpone_runtime.adapters.postgres import session, swap
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.services.open_campaign import open_campaign
from tests.campaign_factories import RUN_KEY
from tests.conformance.ledger_suite import claims_of, commit_all
from tests.conformance.postgres_backend import PostgresBackend, postgres_backend
from tests.conformance.postgres_tables import LIVE, PostgresTables, identifier, postgres_tables
from tests.conformance.publication_suite import ROWS, publish
from tests.simulation.database import Session
from tests.simulation.decisions import Kind, Load, Setup, Start
from tests.simulation.world import World

__all__ = ["postgres_backend", "postgres_tables"]

BOUNDS = ("lock_timeout", "idle_in_transaction_session_timeout")
COMPARED = {
    *("begin", "settings", "lock", "read_campaign", "receipts", "update_campaign", "commit"),
    *("lock_table", "lock_both", "count_table", "rename_table"),
}
"""What locks, reads and writes; the looks at the catalog, of which the real one has more, are left out."""

Told = tuple[str, ...]


def told(statements: Sequence[Statement]) -> list[Told]:
    """Each statement of a batch by its name, with the bounds that it sets or the mode in which it locks a table."""
    found = []
    for one in statements:
        bounds = [str(one.values[name]) for name in BOUNDS if name in one.values]
        mode = [str(one.values["mode"])] if one.name == "lock_table" else []
        if one.name in COMPARED:
            found.append((one.name, *bounds, *mode))
    return found


def named(statement: Statement, live: str) -> Statement:
    """Give a statement of the real swap under the name of the simulated one."""
    text = statement.text.replace("%%", "%")
    if text.startswith("LOCK TABLE"):
        mode = text.partition(" IN ")[2].removesuffix(" MODE")
        if f", {live} IN" in text:
            return Statement("lock_both", text, {})
        return Statement("lock_table", text, {"mode": mode})
    names = {"SELECT count(*) FROM": "count_table", "ALTER TABLE": "rename_table"}
    name = next((name for begins, name in names.items() if text.startswith(begins)), statement.name)
    return Statement(name, text, statement.values)


def simulated() -> list[list[Told]]:
    """Give the batches of the transaction in which a simulated campaign is published."""
    sent: list[list[Told]] = []
    send = Session.send

    def record(session: Session, statements: Sequence[Statement]) -> None:
        if session.name == "run/ledger":
            sent.append(told(statements))
        send(session, statements)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "send", record)
        world = World(Setup((Load("a", 0, 1, swaps=True),)))
        world.start(Start("run", Kind.ITEM, 0))
        world.settle()
    return last_transaction(sent)


def last_transaction(sent: list[list[Told]]) -> list[list[Told]]:
    """Give the batches from the last BEGIN to its COMMIT; before it an index is built in one of its own."""
    first = max(at for at, batch in enumerate(sent) if batch[:1] == [("begin",)])
    last = sent.index([("commit",)], first)
    return [batch for batch in sent[first : last + 1] if batch]


def test_a_simulated_publication_sends_what_a_real_one_sends(
    postgres_backend: PostgresBackend, postgres_tables: PostgresTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, real = postgres_backend.ledger, []
    campaign = open_campaign(ledger, postgres_tables.wanted(RUN_KEY)).campaign
    commit_all(postgres_backend, claims_of(ledger))
    postgres_tables.write(postgres_tables.swap(campaign), ROWS)
    complete = ledger.read_campaign(RUN_KEY)
    assert complete is not None
    live = identifier(LIVE).as_string(postgres_backend.admin)
    run_batch = session.run_batch

    def record(connection, statements):
        real.append(told([named(one, live) for one in statements]))
        return run_batch(connection, statements)

    monkeypatch.setattr(session, "run_batch", record)
    monkeypatch.setattr(swap, "run_batch", record)
    publish(ledger, postgres_tables, complete)
    assert last_transaction(real) == simulated()
