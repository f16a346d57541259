"""Every error code is raised by the condition that it names, with its exit code, a message, a place and a way out.

`HERE` holds a scenario for each code that takes no server; `ELSEWHERE` names the test of each other one. A code of the list that
stands in neither, or that no package raises, fails.
"""

import ast
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from dpone_contract.environment import EnvVar
from dpone_contract.errors import DponeError, ErrorCode, ExitCode, OutcomeInvalidError, error_class
from dpone_contract.mapping_item import dump_item, mapping_item
from dpone_contract.outcome import parse_outcome
from dpone_contract.pack import dump_pack
from dpone_contract.process import Process, encode_process, plan_campaign
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.cli import BUILDER_VERBS, run_command_line
from dpone_packbuilder.project import load_project
from dpone_runtime.adapters.postgres.matched_columns import match_columns
from dpone_runtime.ports.connectors import Column, TableShape
from dpone_runtime.ports.type_structure import TypeStructure
from dpone_runtime.result import error_of
from dpone_runtime.services.open_campaign import cancel_campaign, open_campaign
from tests.campaign_factories import SOURCE, TARGET, make_campaign, make_plan
from tests.factories import make_pack, make_process
from tests.unit.packbuilder.project_files import as_yaml, manifest, workload, write_project
from tests.unit.runtime.campaign_runs import Stage
from tests.unit.runtime.scripted_lanes import Act, Attempt, Opening

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "packbuilder/dpone_contract",
    "packbuilder/dpone_packbuilder",
    "airflow_provider_dpone",
    "runtime/dpone_runtime",
)


@dataclass(frozen=True)
class Told:
    """An error as whoever meets it is told."""

    code: str
    exit_code: int
    message: str
    where: str | None
    next_step: str | None


@dataclass(frozen=True)
class Desk:
    """What a scenario may use: a folder of its own, the environment, and what a command has said on stderr."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def manifest(self, **changes: object) -> str:
        """Write a manifest; give its path."""
        path = self.folder / "orders.yaml"
        path.write_text(as_yaml(manifest(**changes)), encoding="utf-8")
        return str(path)

    def command(self, *arguments: str) -> Told:
        """Run a command line; give the error that it ends with."""
        exit_code = run_command_line(arguments)
        found = _TOLD.search(self.capsys.readouterr().err)
        assert found is not None, "no error was told"
        return Told(found["code"], exit_code, found["message"], found["where"], found["next"])

    def run_item(self, process: Process, item_of: Process) -> Told:
        """Run a process with the first item of another one's plan."""
        plan = plan_campaign(item_of).mapping_plan(item_of.mapping)
        self.monkeypatch.setenv(EnvVar.MAPPING_ITEM.value, dump_item(mapping_item(plan, plan.items[0])))
        return self.command("run", "--process", encode_process(process))

    def look_at_files(self, damage: Callable[[Path], object]) -> Told:
        """Ask for the state of a campaign whose ledger is a folder that somebody has been at."""
        for name in ("OPERATIONS", "WAREHOUSE"):
            self.monkeypatch.setenv(f"DPONE_CONN_{name}", "postgresql://loader@127.0.0.1:1/orders")
        folder = self.folder / "ledger"
        folder.mkdir()
        damage(folder)
        path = self.manifest(
            backfill__state={"backend": "local_file"},
            backfill__state_dir=str(folder),
            backfill__backfill_id="orders",
        )
        return self.command("backfill", "status", path)

    def check(self, *, mapping: object = None, **changes: object) -> Told:
        """Check a project of one workload; give the first error that is found."""
        execution = changes.pop("execution", {})
        entry = workload(mapping=mapping or {"mode": "summary"}, **execution)
        write_project(
            self.folder, workloads={"orders": entry}, manifests={"orders.yaml": manifest(**changes)}
        )
        found, *_ = check_project(load_project(self.folder))
        kind = error_class(found.code)
        return Told(found.code, kind.exit_code, found.message, found.where, found.next_step)


_TOLD = re.compile(
    r"^error (?P<code>DPONE_\w+): (?P<message>.+)(\n  at: (?P<where>.+))?(\n  next: (?P<next>.+))?$",
    re.MULTILINE,
)


def raised(act: Callable[[], object]) -> Told:
    """Give the error that a call ends with."""
    with pytest.raises(DponeError) as caught:
        act()
    return told(caught.value)


def told(error: DponeError | None) -> Told:
    """Give an error's parts."""
    assert error is not None
    return Told(error.code, error.exit_code, error.message, error.where, error.next_step)


# What people write.


def manifest_invalid(desk: Desk) -> Told:
    return desk.command("run", desk.manifest(backfill__inner_mod="replace"))


def not_supported(desk: Desk) -> Told:
    return desk.command("backfill", "plan", desk.manifest(sink__options={}))


def usage(desk: Desk) -> Told:
    return desk.command("backfil")


def plan_invalid(desk: Desk) -> Told:
    return desk.command("backfill", "plan", desk.manifest(chunk__to="2023-01-01"))


def plan_moved(desk: Desk) -> Told:
    return desk.command("run", desk.manifest(), "--plan-hash", "sha256:" + "0" * 64)


# Connections and tables.


def connection_missing(desk: Desk) -> Told:
    return desk.command("run", desk.manifest())


def connection_invalid(desk: Desk) -> Told:
    desk.monkeypatch.setenv("DPONE_CONN_OPERATIONS", "mysql://localhost/orders")
    return desk.command("run", desk.manifest())


def connection_failed(desk: Desk) -> Told:
    for name in ("OPERATIONS", "WAREHOUSE"):
        desk.monkeypatch.setenv(f"DPONE_CONN_{name}", "postgresql://loader@127.0.0.1:1/orders")
    return desk.command("run", desk.manifest())


def columns_differ(desk: Desk) -> Told:
    source = TableShape(SOURCE, (Column("id", TypeStructure("bigint"), nullable=False),))
    target = TableShape(TARGET, (Column("id", TypeStructure("integer"), nullable=False),))
    return raised(lambda: match_columns(source, target))


def ledger_file_invalid(desk: Desk) -> Told:
    return desk.look_at_files(lambda folder: (folder / "orders.json").write_text("{", encoding="utf-8"))


def ledger_file_failed(desk: Desk) -> Told:
    return desk.look_at_files(lambda folder: (folder / "orders.journal.jsonl").mkdir())


# Campaigns, chunks and lanes.


def state_unsupported(desk: Desk) -> Told:
    return desk.check(mapping={"mode": "internal"}, backfill__state__backend="local_file")


def campaign_busy(desk: Desk) -> Told:
    stage = Stage()
    with stage.ledger.fence(stage.plan.run_key):
        return raised(stage.run)


def campaign_drift(desk: Desk) -> Told:
    stage = Stage()
    stage.open()
    other = replace(make_campaign(stage.plan), config_hash="sha256:" + "d" * 64)
    return raised(lambda: open_campaign(stage.ledger, other))


def campaign_lease_lost(desk: Desk) -> Told:
    stage = Stage()
    lanes = stage.lanes({1: [Attempt(Act.NEVER_END)]})

    def end_its_session() -> None:
        stage.ledger.fences[stage.plan.run_key].lose()

    lanes.at(timedelta(seconds=1), end_its_session)
    return raised(lambda: stage.run(lanes))


def campaign_stopped(desk: Desk) -> Told:
    stage = Stage()
    stage.open()
    cancel_campaign(stage.ledger, make_campaign(stage.plan), reason="maintenance", by=None)
    return raised(stage.run)


def chunk_busy(desk: Desk) -> Told:
    stage = Stage(chunks=1)
    stage.open()
    stage.other_claims(1)

    def keep_it() -> None:
        record = stage.ledger.read_chunk(stage.plan.run_key, 1)
        assert record is not None
        stage.ledger.renew(record)

    lanes = stage.lanes()
    for seconds in range(30, 180, 30):
        lanes.at(timedelta(seconds=seconds), keep_it)
    return raised(lambda: stage.run(lanes))


def chunk_failed(desk: Desk) -> Told:
    stage = Stage()
    return told(error_of(stage.run(stage.lanes({2: [Attempt(Act.FAIL)]}))))


def chunk_lease_lost(desk: Desk) -> Told:
    stage = Stage(chunks=1)
    lanes = stage.lanes({1: [Attempt(takes=timedelta(seconds=20))]})
    # Nobody renews while the coordinator is frozen: the lease lapses, and another run takes the chunk.
    lanes.at(timedelta(seconds=1), lambda: stage.clock.advance(timedelta(seconds=100)))
    lanes.at(timedelta(seconds=2), lambda: (stage.other_claims(1), stage.other_claims(1)))
    return told(error_of(stage.run(lanes)))


def lane_lost(desk: Desk) -> Told:
    stage = Stage()
    return raised(lambda: stage.run(stage.lanes(openings=[Opening.DIES])))


def overlap(desk: Desk) -> Told:
    stage = Stage()
    stage.open()
    return raised(lambda: open_campaign(stage.ledger, make_campaign(make_plan(3, run_key="another"))))


def interrupted(desk: Desk) -> Told:
    return told(error_of(Stage(stop_at=timedelta(seconds=1)).run()))


# The mapping onto Airflow tasks.


def mapping_policy_invalid(desk: Desk) -> Told:
    return desk.check(mapping={"mode": "summary", "max_items": 201})


def mapping_requires_chunked_backfill(desk: Desk) -> Told:
    return desk.check(chunk__from="{{ ds }}")


def mapping_task_limit_exceeded(desk: Desk) -> Told:
    return desk.check(mapping={"mode": "visible", "max_items": 9, "max_active": 9})


def mapping_pool_required(desk: Desk) -> Told:
    return desk.check(mapping={"mode": "visible", "pool": ""})


def mapping_parallelism_multiplier(desk: Desk) -> Told:
    return desk.check(backfill__parallel_workers=4)


def mapping_state_unsupported(desk: Desk) -> Told:
    return desk.check(backfill__state__require_distributed_lock=False)


def mapping_plan_mismatch(desk: Desk) -> Told:
    return desk.run_item(make_process(items=4), make_process(items=5))


def mapping_item_invalid(desk: Desk) -> Told:
    desk.monkeypatch.setenv(EnvVar.MAPPING_ITEM.value, '{"predicate": "1 = 1"}')
    return desk.command("run", desk.manifest())


# Between builder, Airflow and run.


def pack_invalid(desk: Desk) -> Told:
    path = desk.folder / "airflow-pack.json"
    path.write_bytes(dump_pack(make_pack()).replace(b"2013.1", b"2013.2"))
    return desk.command("run", "--pack", str(path))


def pack_too_large(desk: Desk) -> Told:
    names = random.Random(2013)
    key = ["".join(names.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=128)) for _ in range(2_000)]
    return desk.check(sink__strategy__unique_key=key)


def run_context_invalid(desk: Desk) -> Told:
    desk.monkeypatch.setenv(EnvVar.TRY_NUMBER.value, "first")
    return desk.command("run", desk.manifest())


def retry_authority_exceeded(desk: Desk) -> Told:
    return desk.check(execution={"retries": 9})


def internal(desk: Desk) -> Told:
    desk.monkeypatch.setitem(BUILDER_VERBS, "version", ("tests.unit.test_every_code:broken_verb", ""))
    return desk.command("version")


def broken_verb() -> None:
    """Fail as nobody has foreseen."""
    raise ZeroDivisionError("nobody has foreseen this")


@dataclass(frozen=True)
class Expected:
    """A scenario and what its place holds; None where there is no place, and `why_no_place` says why."""

    scenario: Callable[[Desk], Told]
    where: str | None
    why_no_place: str = ""


COMMAND_LINE = "the message quotes the command line itself"

HERE = {
    ErrorCode.MANIFEST_INVALID: Expected(manifest_invalid, r"orders\.yaml:\d+:\d+"),
    ErrorCode.NOT_SUPPORTED: Expected(not_supported, r"orders\.yaml:\d+:\d+"),
    ErrorCode.USAGE: Expected(usage, None, COMMAND_LINE),
    ErrorCode.BACKFILL_PLAN_INVALID: Expected(plan_invalid, r"orders\.yaml"),
    ErrorCode.BACKFILL_PLAN_MOVED: Expected(plan_moved, "--plan-hash"),
    ErrorCode.BACKFILL_STATE_UNSUPPORTED: Expected(state_unsupported, r"orders\.yaml:\d+:\d+"),
    ErrorCode.LEDGER_FILE_INVALID: Expected(ledger_file_invalid, r"ledger/orders\.json"),
    ErrorCode.LEDGER_FILE_FAILED: Expected(ledger_file_failed, r"ledger/orders\.journal\.jsonl"),
    ErrorCode.CONNECTION_MISSING: Expected(connection_missing, "DPONE_CONN_OPERATIONS"),
    ErrorCode.CONNECTION_INVALID: Expected(connection_invalid, "DPONE_CONN_OPERATIONS"),
    ErrorCode.CONNECTION_FAILED: Expected(
        connection_failed, r"connection operations \(127\.0\.0\.1:1/orders\)"
    ),
    ErrorCode.COLUMNS_DIFFER: Expected(columns_differ, r"sink\.table public\.flights"),
    ErrorCode.BACKFILL_CAMPAIGN_BUSY: Expected(campaign_busy, "campaign flights-history"),
    ErrorCode.BACKFILL_CAMPAIGN_DRIFT: Expected(campaign_drift, "campaign flights-history"),
    ErrorCode.BACKFILL_CAMPAIGN_LEASE_LOST: Expected(campaign_lease_lost, "campaign flights-history"),
    ErrorCode.BACKFILL_CAMPAIGN_STOPPED: Expected(campaign_stopped, "campaign flights-history"),
    ErrorCode.BACKFILL_CHUNK_BUSY: Expected(chunk_busy, "campaign flights-history, chunk 1"),
    ErrorCode.BACKFILL_CHUNK_FAILED: Expected(chunk_failed, "campaign flights-history, chunk 2"),
    ErrorCode.BACKFILL_CHUNK_LEASE_LOST: Expected(chunk_lease_lost, "campaign flights-history, chunk 1"),
    ErrorCode.BACKFILL_LANE_LOST: Expected(lane_lost, "campaign flights-history"),
    ErrorCode.BACKFILL_OVERLAP: Expected(overlap, "ledger memory"),
    ErrorCode.INTERRUPTED: Expected(interrupted, "campaign flights-history"),
    ErrorCode.MAPPING_POLICY_INVALID: Expected(mapping_policy_invalid, r"workloads\.yaml:\d+:\d+"),
    ErrorCode.MAPPING_REQUIRES_CHUNKED_BACKFILL: Expected(
        mapping_requires_chunked_backfill, r"orders\.yaml:\d+:\d+"
    ),
    ErrorCode.MAPPING_TASK_LIMIT_EXCEEDED: Expected(mapping_task_limit_exceeded, r"workloads\.yaml:\d+:\d+"),
    ErrorCode.MAPPING_POOL_REQUIRED: Expected(mapping_pool_required, r"workloads\.yaml:\d+:\d+"),
    ErrorCode.MAPPING_PARALLELISM_MULTIPLIER: Expected(
        mapping_parallelism_multiplier, r"orders\.yaml:\d+:\d+"
    ),
    ErrorCode.MAPPING_STATE_UNSUPPORTED: Expected(mapping_state_unsupported, r"orders\.yaml:\d+:\d+"),
    ErrorCode.MAPPING_PLAN_MISMATCH: Expected(mapping_plan_mismatch, "mapping item 0"),
    ErrorCode.MAPPING_ITEM_INVALID: Expected(mapping_item_invalid, "DPONE_AIRFLOW_MAPPING_ITEM"),
    ErrorCode.PACK_INVALID: Expected(pack_invalid, r"airflow-pack\.json"),
    ErrorCode.PACK_TOO_LARGE: Expected(pack_too_large, r"orders\.yaml:\d+:\d+"),
    ErrorCode.RUN_CONTEXT_INVALID: Expected(run_context_invalid, "DPONE_TRY_NUMBER"),
    ErrorCode.RETRY_AUTHORITY_EXCEEDED: Expected(retry_authority_exceeded, r"workloads\.yaml:\d+:\d+"),
    ErrorCode.INTERNAL: Expected(internal, None, "the traceback before it is the place"),
}

_MISTAKES = "tests/integration/test_mistakes.py::test_a_mistake_is_told_and_nothing_is_moved"
_REFUSED = "tests/integration/test_refused_campaigns.py::"
_CHECKSUMS = "tests/integration/test_checksums.py::"
_VERIFY = "tests/integration/test_verify.py::"
_UNEXCHANGED = "tests/integration/test_refused_publications.py::"

ELSEWHERE = {
    # A server has to say so.
    ErrorCode.BACKFILL_SESSION_UNSAFE: (
        "tests/integration/test_poolers.py::test_an_internal_run_is_refused_by_name"
    ),
    ErrorCode.BACKFILL_NULLS_FOUND: _MISTAKES,
    ErrorCode.BACKFILL_ROWS_DIFFER: _REFUSED + "test_a_strict_chunk_whose_rows_differ_is_rolled_back",
    ErrorCode.BACKFILL_CONTENT_DIFFERS: _CHECKSUMS + "test_a_row_that_was_changed_on_its_way_fails_its_chunk",
    ErrorCode.BACKFILL_VERIFICATION_MISMATCH: _VERIFY + "test_a_row_that_was_changed_is_found_in_its_chunk",
    ErrorCode.BACKFILL_VERIFICATION_INCOMPLETE: _VERIFY
    + "test_an_incomplete_campaign_is_never_told_to_be_equal",
    ErrorCode.BACKFILL_CAMPAIGN_MISSING: _REFUSED
    + "test_a_campaign_that_was_never_begun_is_told_by_its_ledger",
    ErrorCode.BACKFILL_PUBLICATION_REFUSED: _UNEXCHANGED + "test_a_live_table_with_a_trigger_is_refused",
    ErrorCode.BACKFILL_PUBLICATION_MISMATCH: _UNEXCHANGED
    + "test_a_row_that_somebody_has_written_into_the_shadow_is_noticed",
    ErrorCode.BACKFILL_PUBLICATION_BUSY: _UNEXCHANGED
    + "test_a_reader_that_stays_keeps_the_tables_from_being_exchanged",
    ErrorCode.MAPPING_CAMPAIGN_BUSY: (
        _REFUSED + "test_a_target_that_stays_locked_is_busy_in_the_words_of_the_mode"
    ),
    ErrorCode.DATABASE_FAILED: _MISTAKES,
    ErrorCode.LEDGER_MISSING: _MISTAKES,
    ErrorCode.TABLE_MISSING: _MISTAKES,
    ErrorCode.TABLE_UNSUITABLE: _MISTAKES,
    # Airflow has to be there.
    ErrorCode.MAPPING_UNSUPPORTED: "tests/airflow/test_dags.py::test_an_airflow_that_cannot_map_is_refused",
    ErrorCode.OUTCOME_INVALID: (
        "tests/airflow/test_outcomes.py::test_missing_and_damaged_evidence_is_a_failure"
    ),
    ErrorCode.OUTCOME_NOT_PASSED: (
        "tests/airflow/test_outcomes.py::test_failed_shows_the_runs_own_error_and_first_failures"
    ),
    ErrorCode.POD_REFUSED: "tests/airflow/test_pod_operator.py::test_what_kubernetes_refuses_is_not_retried",
    ErrorCode.HOOK_FAILED: "tests/airflow/test_hooks.py::test_a_failed_hook_fails_its_task",
}
"""Tests by code that take more than this environment has; each asserts code, place and way out itself."""

NOT_RAISED: dict[ErrorCode, str] = {}
"""Codes that no package raises, each with the reason why it stands in the list nevertheless."""


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    for name in EnvVar:
        monkeypatch.delenv(name.value, raising=False)
    return Desk(tmp_path, monkeypatch, capsys)


def test_every_code_has_a_scenario():
    named = [*HERE, *ELSEWHERE, *NOT_RAISED]
    assert sorted(ErrorCode) == sorted(named)


@pytest.mark.parametrize("code", HERE)
def test_a_code_is_raised_with_its_exit_code_a_message_a_place_and_a_way_out(desk, code):
    expected = HERE[code]
    found = expected.scenario(desk)
    assert (code.value, error_class(code.value).exit_code) == (found.code, found.exit_code)
    assert found.message.strip()
    assert (found.next_step or "").strip()
    if expected.where is None:
        assert found.where is None
        assert expected.why_no_place
    else:
        assert re.search(expected.where, found.where or ""), found


@pytest.mark.parametrize("code", ELSEWHERE)
def test_a_code_that_takes_more_is_raised_by_the_test_that_is_named(code):
    path, _, name = ELSEWHERE[code].partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    tests = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert name in tests
    assert {code.value, error_class(code.value).__name__} & set(re.findall(r"\w+", text))


def test_every_code_is_raised_by_some_package():
    class_of = {error_class(code.value).__name__: code for code in ErrorCode}
    used = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path.parent.name == "errors":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                used.add(class_of.get(node.func.id))
            elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "ErrorCode":
                used.add(ErrorCode[node.attr])
    assert set(NOT_RAISED) == set(ErrorCode) - used


def test_an_outcome_that_cannot_be_read_says_so_without_airflow_too():
    with pytest.raises(OutcomeInvalidError) as caught:
        parse_outcome(b"{")
    assert ExitCode.OWNERSHIP_OR_INFRASTRUCTURE is caught.value.exit_code
    assert caught.value.next_step
