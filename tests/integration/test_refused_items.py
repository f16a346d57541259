"""What a mapped run is told is held against its own plan before anything is opened: the databases here count their visitors."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from dpone_contract.environment import EnvVar
from dpone_contract.mapping_item import dump_item
from dpone_contract.process import encode_process
from tests.integration.campaigns import item_environ, items_of, mapped_process
from tests.integration.child_runs import Finished, Run

DIGEST = "sha256:" + "1" * 64
SECRET = "open-sesame"


class CountingServer:
    """A listening port that counts who connects, and hangs up."""

    def __init__(self) -> None:
        self.visitors = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.visitors += 1
                connection.close()

    def close(self) -> None:
        """Stop listening."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@pytest.fixture
def server() -> Iterator[CountingServer]:
    counting = CountingServer()
    yield counting
    counting.close()


PROCESS = mapped_process(10, items=5, max_active=2)
MOVED = mapped_process(11, items=5, max_active=2)
ITEM = items_of(PROCESS)[1]
ITEM_VARIABLE, IDENTITY_VARIABLE = EnvVar.MAPPING_ITEM.value, EnvVar.RUN_IDENTITY.value
Environ = dict[str, str]


def run(
    server: CountingServer, folder: Path, environ: Mapping[str, str], process: str | None = None
) -> Finished:
    uri = f"postgresql://loader:{SECRET}@127.0.0.1:{server.port}/history"
    connections = {"DPONE_CONN_SOURCE_DB": uri, "DPONE_CONN_TARGET_DB": uri}
    arguments = ("run", "--process", process or encode_process(PROCESS))
    started = Run(arguments, {**connections, **environ}, folder)
    try:
        return started.finish()
    finally:
        started.kill()


def item_of(**changes: object) -> Environ:
    """The environment of an item of which some fields were changed."""
    environ = item_environ(PROCESS, ITEM)
    document = {**json.loads(environ[ITEM_VARIABLE]), **changes}
    return {**environ, ITEM_VARIABLE: json.dumps(document)}


def identity_of(**changes: object) -> Environ:
    """The environment of a run identity of which some fields were changed."""
    environ = item_environ(PROCESS, ITEM)
    document = {**json.loads(environ[IDENTITY_VARIABLE]), **changes}
    return {**environ, IDENTITY_VARIABLE: json.dumps(document)}


def with_item(text: str) -> Environ:
    return {**item_environ(PROCESS, ITEM), ITEM_VARIABLE: text}


INVALID, MISMATCH = "DPONE_AIRFLOW_MAPPING_ITEM_INVALID", "DPONE_AIRFLOW_MAPPING_PLAN_MISMATCH"
CONTEXT = "DPONE_RUN_CONTEXT_INVALID"

REFUSED: dict[str, tuple[str, Callable[[], Environ]]] = {
    "range widened": (INVALID, lambda: item_of(last_chunk_index=ITEM.last_chunk_index + 1, chunks_count=3)),
    "range moved": (INVALID, lambda: item_of(first_chunk_index=4, last_chunk_index=5)),
    "range and count disagree": (INVALID, lambda: item_of(last_chunk_index=ITEM.last_chunk_index + 1)),
    "range of the whole campaign": (
        INVALID,
        lambda: item_of(first_chunk_index=1, last_chunk_index=10, chunks_count=10),
    ),
    "another index": (INVALID, lambda: item_of(item_index=2)),
    "an index beyond the plan": (INVALID, lambda: item_of(item_index=7)),
    "a negative index": (INVALID, lambda: item_of(item_index=-1)),
    "mapping fingerprint exchanged": (MISMATCH, lambda: item_of(mapping_plan_fingerprint=DIGEST)),
    "plan hash exchanged": (MISMATCH, lambda: item_of(backfill_plan_hash=DIGEST)),
    "another mode": (MISMATCH, lambda: item_of(mode="visible")),
    "unknown field": (INVALID, lambda: item_of(predicate="true")),
    "secret-like field": (INVALID, lambda: item_of(db_password=SECRET)),
    "unknown schema": (INVALID, lambda: item_of(schema="dpone.airflow-mapping-item.v2")),
    "too large": (INVALID, lambda: with_item(dump_item(ITEM) + " " * 9000)),
    "duplicate field": (INVALID, lambda: with_item(dump_item(ITEM)[:-1] + ',"item_index":1}')),
    "not JSON": (INVALID, lambda: with_item("item 1")),
    "an item of another plan": (
        MISMATCH,
        lambda: item_environ(PROCESS, items_of(MOVED)[1]),
    ),
    "no item": (
        INVALID,
        lambda: {name: value for name, value in item_environ(PROCESS, ITEM).items() if name != ITEM_VARIABLE},
    ),
    "identity of another process": (CONTEXT, lambda: identity_of(process_digest=DIGEST)),
    "unknown field in the identity": (CONTEXT, lambda: identity_of(token=SECRET)),
}


@pytest.mark.parametrize("code, environ", REFUSED.values(), ids=REFUSED)
def test_it_is_refused_before_anything_is_opened(
    server: CountingServer, tmp_path: Path, code: str, environ: Callable[[], Environ]
) -> None:
    refused = run(server, tmp_path, environ())
    assert (2, code) == (refused.exit_code, refused.error_code), refused.output
    assert f"error {code}" in refused.stderr
    assert 0 == server.visitors
    assert SECRET not in refused.output + str(refused.outcome)
    assert "Traceback" not in refused.output


def test_a_process_whose_plan_has_changed_is_refused_before_anything_is_opened(
    server: CountingServer, tmp_path: Path
) -> None:
    """The item is of the published plan, the process is not: its last day has moved."""
    environ = {**item_environ(MOVED, ITEM), ITEM_VARIABLE: dump_item(ITEM)}
    refused = run(server, tmp_path, environ, encode_process(MOVED))
    assert (2, MISMATCH) == (refused.exit_code, refused.error_code), refused.output
    assert 0 == server.visitors


def test_a_damaged_process_is_refused_before_anything_is_opened(
    server: CountingServer, tmp_path: Path
) -> None:
    refused = run(server, tmp_path, item_environ(PROCESS, ITEM), encode_process(PROCESS)[:-8])
    assert (2, CONTEXT) == (refused.exit_code, refused.error_code), refused.output
    assert 0 == server.visitors


def test_an_item_of_the_plan_does_connect(server: CountingServer, tmp_path: Path) -> None:
    """What the tests above count can be counted."""
    failed = run(server, tmp_path, item_environ(PROCESS, ITEM))
    assert (5, "DPONE_CONNECTION_FAILED") == (failed.exit_code, failed.error_code), failed.output
    assert server.visitors > 0
    assert SECRET not in failed.output + str(failed.outcome)
