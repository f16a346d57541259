"""The name of an attempt's staging carries run, chunk and attempt within the limit of an identifier."""

from dpone_contract.chunk_plan import RunKey
from dpone_runtime.adapters.postgres.merge import staging_name
from dpone_runtime.domain.lease import OwnerToken
from dpone_runtime.ports.connectors import LoadRequest
from tests.campaign_factories import make_plan


def named(run_key: str = "history", chunk_index: int = 1, attempt: int = 1) -> str:
    chunk = make_plan().chunk(chunk_index)
    return staging_name(LoadRequest(RunKey(run_key), chunk, 1, attempt, 1, OwnerToken("owner")))


def test_every_attempt_has_a_name_of_its_own():
    names = [named(), named("other"), named(chunk_index=2), named(attempt=2), named("history\x1f1")]
    assert len(names) == len(set(names))


def test_a_name_is_short_whatever_the_run_is_called():
    assert len(named("ü" * 200, 5, 10**9).encode()) <= 63
