"""A data transaction whose ledger is a file: it commits rows alone, and only while its run holds the fence."""

from dataclasses import replace

import pytest

from dpone_contract.errors import ChunkBusyError, ChunkLeaseLostError
from dpone_runtime.adapters.postgres.completion import local_chunk_key, local_data_key, local_token_key
from dpone_runtime.domain.local_run import new_local_run
from dpone_runtime.ports.connectors import CommitUnknownError
from tests.integration.attempts import Attempt

HOLDERS = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
   AND classid::bigint = (%s::bigint >> 32) & 4294967295 AND objid::bigint = %s::bigint & 4294967295
"""


@pytest.fixture
def run(attempt: Attempt):
    """A run whose token is held by the test's own session, and the attempt as one of its chunks."""
    run = new_local_run(attempt.prepared.wanted.target.relation)
    bootstrap = attempt.prepared.lane_bootstrap.replaced(local_run=run)
    attempt.prepared = replace(attempt.prepared, lane_bootstrap=bootstrap)
    attempt.history.sql("SELECT pg_advisory_lock(%s)", local_token_key(run))
    return run


def test_rows_commit_and_no_ledger_is_told(attempt: Attempt, run) -> None:
    _, *ledger = attempt.state()
    attempt.load()
    assert attempt.history.content("source.history", "day = '2013-01-01'") == attempt.history.content(
        "target.history", "day = '2013-01-01'"
    )
    assert ledger == list(attempt.state()[1:])


def test_a_run_without_its_fence_changes_nothing(attempt: Attempt, run) -> None:
    attempt.history.sql("SELECT pg_advisory_unlock(%s)", local_token_key(run))
    before, steps = attempt.state(), list[str]()
    with pytest.raises(ChunkLeaseLostError):
        attempt.load(after=steps.append)
    assert [] == steps, "the guard let it through"
    assert before == attempt.state()


def test_two_attempts_never_load_one_chunk_at_once(attempt: Attempt, run) -> None:
    busy: list[BaseException] = []

    def second(step: str) -> None:
        if step == "guarded":
            with pytest.raises(ChunkBusyError) as raised:
                attempt.load()
            busy.append(raised.value)

    attempt.load(after=second)
    assert 1 == len(busy)


@pytest.mark.parametrize("step", ["guarded", "copied", "before commit"])
def test_a_transaction_holds_the_chunk_and_the_data_of_its_target_to_its_end(
    attempt: Attempt, run, step: str
) -> None:
    """By these whoever takes the fence next finds it, and whoever replaces the attempt."""
    keys = (local_chunk_key(run.relation, attempt.request.run_key, 1), local_data_key(run.relation))
    held: list[object] = []

    def look(reached: str) -> None:
        if reached == step:
            held.extend(attempt.history.value(HOLDERS, key, key) for key in keys)

    attempt.load(after=look)
    assert [1, 1] == held
    assert [0, 0] == [attempt.history.value(HOLDERS, key, key) for key in keys]


def test_a_lost_answer_to_commit_is_no_answer(attempt: Attempt, run) -> None:
    before = attempt.history.versions(1)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpone sink'"
    with pytest.raises(CommitUnknownError):
        attempt.load(after=lambda step: step == "before commit" and attempt.history.sql(end))
    assert before == attempt.history.versions(1)
