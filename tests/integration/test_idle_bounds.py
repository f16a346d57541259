"""A process that freezes inside a transaction holds its locks for a bounded time: the server ends a session that idles there."""

import pytest

from dpone_contract.errors import DatabaseFailedError
from dpone_runtime.adapters.postgres import session, sink
from dpone_runtime.domain.claim import LedgerView
from dpone_runtime.ports.connectors import CommitUnknownError
from tests.integration.attempts import Attempt
from tests.waiting import wait_until

SOON_MS = 300
IDLE = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name = %s"
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"


def wait_for_the_end(attempt: Attempt, application_name: str) -> None:
    """Wait, as a frozen process does, until the server has ended the session."""
    assert 1 == attempt.history.value(IDLE, application_name)
    assert attempt.history.value(LOCKS) in (1, 2)
    wait_until(lambda: attempt.history.value(IDLE, application_name) == 0, 10, "the end of the session")
    wait_until(lambda: attempt.history.value(LOCKS) == 0, 10, "the end of its locks")


@pytest.mark.parametrize("step", ["guarded", "deleted", "copied", "before commit"])
def test_the_server_ends_a_data_transaction_that_idles(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(sink, "PROTOCOL_IDLE_MS", SOON_MS)
    before = attempt.history.versions(1)

    def freeze(reached: str) -> None:
        if reached == step:
            wait_for_the_end(attempt, "dpone sink")

    with pytest.raises((DatabaseFailedError, CommitUnknownError)):
        attempt.load(after=freeze)
    assert before == attempt.history.versions(1)
    assert {1: ("running", 1)} == attempt.history.chunks()


def test_the_server_ends_a_transition_that_idles(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the campaign's transition lock: every other run of the campaign waits for it."""
    monkeypatch.setattr(session, "PROTOCOL_IDLE_MS", SOON_MS)
    before = attempt.state()

    def freeze(view: LedgerView) -> None:
        wait_for_the_end(attempt, "dpone ledger")

    with pytest.raises(DatabaseFailedError):
        attempt.prepared.ledger.transition(attempt.request.run_key, 1, freeze)
    assert before == attempt.state()


def test_the_bound_is_ten_seconds() -> None:
    assert 10_000 == session.PROTOCOL_IDLE_MS == sink.PROTOCOL_IDLE_MS
