"""The simulated lane goes through the statements of the real one, in the same batches, with the same bounds."""

import pytest

from dpone_runtime.adapters.postgres import sink, slice_changes
from tests.integration.attempts import Attempt
from tests.simulation.database import Session
from tests.simulation.decisions import Kind, Load, Setup, Start
from tests.simulation.world import World

BOUNDS = ("lock_timeout", "idle_in_transaction_session_timeout")
COPY = [("copy", [])]


def told(statements) -> list[tuple[str, list[object]]]:
    """Each statement of a batch by its name, and the bounds that it sets."""
    return [
        (
            one.name,
            [one.values[bound] for bound in BOUNDS if bound in one.values] if one.name == "settings" else [],
        )
        for one in statements
    ]


def test_a_simulated_load_sends_what_a_real_one_sends(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, simulated = [], []
    run_batch, copy_in, send = sink.run_batch, sink.copy_in, Session.send

    def record_batch(connection, statements):
        real.append(told(statements))
        return run_batch(connection, statements)

    def record_copy(connection, text, blocks):
        real.append(COPY)
        return copy_in(connection, text, blocks)

    def record_sent(session, statements):
        if session.name.endswith("sink"):
            simulated.append(told(statements))
        send(session, statements)

    monkeypatch.setattr(sink, "run_batch", record_batch)
    monkeypatch.setattr(slice_changes, "run_batch", record_batch)
    monkeypatch.setattr(sink, "copy_in", record_copy)
    monkeypatch.setattr(Session, "send", record_sent)
    attempt.load()
    world = World(Setup((Load("a", 0, 1),)))
    world.start(Start("run", Kind.ITEM, 0))
    world.settle()
    # A COPY of the simulation may be stopped in its middle: it is sent in two halves.
    halves = [simulated.index([(name, [])]) for name in ("copy_first", "copy_last")]
    assert halves[0] + 1 == halves[1]
    assert real == [*simulated[: halves[0]], COPY, *simulated[halves[1] + 1 :]]
