"""A campaign whose ledger is in a folder: every verb, what is refused, and what is left when a process is killed."""

import json
import signal

import pytest

from dpone_contract.environment import STATE_DIR
from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_policy import MappingLimits, MappingMode, MappingPolicy
from dpone_contract.process import build_process
from dpone_runtime.adapters.postgres.batches import lock_key
from tests.integration.campaigns import day, manifest_text
from tests.integration.child_runs import Finished
from tests.integration.fault_lane import BEFORE_LOAD, HOLD, KILL_BOTH
from tests.integration.file_history import FileHistory, in_a_file
from tests.integration.inner_modes import APPEND, FULL_REFRESH, MERGE, REPLACE, Scenario
from tests.integration.transaction_pooler import TransactionPooler

CHUNKS, VICTIM = 3, 2
SCENARIOS = {scenario.mode: scenario for scenario in (REPLACE, MERGE, FULL_REFRESH)}
every_mode = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


def run(history: FileHistory, scenario: Scenario = REPLACE) -> Finished:
    return history.run("run", history.manifest(scenario.text()))


def require_loaded(history: FileHistory, scenario: Scenario) -> None:
    history.require_loaded(scenario.chunks)
    if scenario is FULL_REFRESH:
        assert 20 == history.value("SELECT count(*) FROM target.history"), "the other days have to be gone"


# Whole runs.


@every_mode
def test_a_campaign_is_loaded_and_not_loaded_again(file_history: FileHistory, scenario: Scenario) -> None:
    scenario.prepare(file_history)
    done = run(file_history, scenario)
    assert 0 == done.exit_code, done.output
    require_loaded(file_history, scenario)
    versions = [file_history.versions(index) for index in range(1, CHUNKS + 1)]
    again = run(file_history, scenario)
    assert 0 == again.exit_code, again.output
    assert "nothing to do" in again.stderr
    assert versions == [file_history.versions(index) for index in range(1, CHUNKS + 1)]
    assert not file_history.value("SELECT to_regnamespace('dpone_audit') IS NOT NULL")


def test_the_outcome_says_what_the_ledger_is(file_history: FileHistory) -> None:
    done = run(file_history)
    assert done.outcome is not None
    backfill = done.outcome.backfill
    assert backfill is not None
    assert ("local_file", "authoritative", str(file_history.summary)) == (
        backfill.state_backend,
        backfill.state_cache_status,
        backfill.state_path,
    )
    assert ("file", "process", False, True, True) == tuple(
        backfill.state_capabilities[name]
        for name in ("dialect", "lock_scope", "distributed_lock", "durable_write", "durable_read")
    )
    assert {"dialect": "file", "folder": str(file_history.state), "run_key": backfill.run_key} == (
        backfill.state_authority
    )
    assert (60, 60, 3) == (backfill.rows_extracted, backfill.rows_loaded, backfill.chunks_committed)
    assert [20, 20, 20] == [record.rows_loaded for record in file_history.records()]


def test_the_summary_tells_people_how_it_stands(file_history: FileHistory) -> None:
    run(file_history)
    told = json.loads(file_history.summary.read_text(encoding="utf-8"))
    assert ("complete", {"committed": 3}, 3) == (
        told["campaign"]["status"],
        told["chunks"],
        told["campaign"]["chunks_total"],
    )
    assert file_history.journal.stat().st_size == told["journal"]["bytes"]


@pytest.mark.parametrize("how", ["manifest", "option", "environment", "neither"])
def test_the_folder_is_where_it_is_named(file_history: FileHistory, how: str) -> None:
    named, arguments, environ = file_history.folder / "here", list[str](), {STATE_DIR: ""}
    text = manifest_text(3)
    if how == "manifest":
        text = text.replace("      chunk:\n", f"      state_dir: {named}\n      chunk:\n")
    if how == "option":
        arguments = ["--state-dir", str(named)]
    if how == "environment":
        environ = {STATE_DIR: str(named)}
    path = file_history.manifest(text)
    done = file_history.run("backfill", "run", path, "--execute", *arguments, environ=environ)
    assert 0 == done.exit_code, done.output
    expected = file_history.runs[-1].folder / ".dpone" / "backfill" if how == "neither" else named
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert (expected / f"{done.outcome.backfill.run_key}.json").is_file()
    assert not file_history.state.exists()


def test_a_ledger_beside_the_target_says_what_a_file_is_worth(file_history: FileHistory) -> None:
    beside = file_history.folder / "beside.yaml"
    beside.write_text(manifest_text(3), encoding="utf-8")
    path = str(beside)
    first = file_history.run("run", path)
    assert first.outcome is not None
    assert first.outcome.backfill is not None
    assert ("unavailable", None) == (
        first.outcome.backfill.state_cache_status,
        first.outcome.backfill.state_path,
    )
    file = file_history.state / f"{first.outcome.backfill.run_key}.json"
    file.write_text("whatever it says", encoding="utf-8")
    second = file_history.run("run", path)
    assert second.outcome is not None
    assert second.outcome.backfill is not None
    assert ("present_non_authoritative", str(file)) == (
        second.outcome.backfill.state_cache_status,
        second.outcome.backfill.state_path,
    )
    assert "nothing to do" in second.stderr


# Verbs.


def test_status_is_read_without_the_database(file_history: FileHistory) -> None:
    run(file_history)
    nowhere = {"DPONE_CONN_TARGET_DB": "postgresql://nobody@127.0.0.1:1/nothing"}
    told = file_history.run(
        "backfill", "status", file_history.manifest(REPLACE.text()), "--format", "json", environ=nowhere
    )
    assert 0 == told.exit_code, told.output
    found = json.loads(told.stdout)
    assert ("complete", 3, "file") == (
        found["status"],
        found["chunks"]["committed"],
        found["state_authority"]["dialect"],
    )


def test_a_campaign_that_was_never_begun_is_told_by_its_folder(file_history: FileHistory) -> None:
    for verb in ("status", "resume"):
        told = file_history.run("backfill", verb, file_history.manifest())
        assert 2 == told.exit_code, told.output
        assert "DPONE_BACKFILL_CAMPAIGN_MISSING" in told.stderr
        assert f"at: folder {file_history.state}" in told.stderr
    assert not file_history.state.exists()


def test_there_is_nothing_to_create_by_hand(file_history: FileHistory) -> None:
    told = file_history.run("state", "ddl", file_history.manifest())
    assert 0 == told.exit_code, told.output
    assert told.stdout.startswith("-- ")
    assert "nothing to create" in told.stdout


def test_a_cancelled_campaign_finishes_its_chunk_and_is_resumed_with_a_reason(
    file_history: FileHistory,
) -> None:
    path = file_history.manifest()
    begun = file_history.start("run", path, faults=[(BEFORE_LOAD, VICTIM, HOLD)])
    begun.wait_for(BEFORE_LOAD, VICTIM)
    cancelled = file_history.run("backfill", "cancel", path, "--reason", "too early", "--requested-by", "ops")
    assert 0 == cancelled.exit_code, cancelled.output
    begun.release()
    stopped = begun.finish()
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (stopped.exit_code, stopped.error_code), stopped.output
    assert {1: ("committed", 1), 2: ("committed", 1)} == file_history.chunks()

    refused = file_history.run("backfill", "resume", path)
    assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (refused.exit_code, refused.error_code), refused.output
    done = file_history.run("backfill", "resume", path, "--reason", "now")
    assert 0 == done.exit_code, done.output
    assert ["opened", "cancel_requested", "resumed", "completed"] == file_history.events(None)
    file_history.require_loaded(CHUNKS)


def test_an_interval_that_is_run_again_begins_a_round(file_history: FileHistory) -> None:
    path = file_history.manifest(manifest_text(first="{{ ds }}", last="{{ ds }}"))
    environ = {"DPONE_LOGICAL_DATE": day(3).isoformat()}
    assert 0 == file_history.run("run", path, environ=environ).exit_code
    file_history.sql("UPDATE source.history SET note = 'second' WHERE day = %s", day(3))
    again = file_history.run("run", path, environ=environ)
    assert 0 == again.exit_code, again.output
    assert "round 2" in again.stderr
    where = f"day = '{day(3)}'"
    assert file_history.content("source.history", where) == file_history.content("target.history", where)
    (record,) = file_history.records()
    assert (2, 2) == (record.round, record.attempt)


def test_several_lanes_share_a_folder_through_their_coordinator(file_history: FileHistory) -> None:
    path = file_history.manifest(
        manifest_text(8).replace("      chunk:", "      parallel_workers: 3\n      chunk:")
    )
    done = file_history.run("run", path)
    assert 0 == done.exit_code, done.output
    file_history.require_loaded(8)


def test_what_differs_is_found_and_loaded_again_alone(file_history: FileHistory) -> None:
    assert 0 == run(file_history).exit_code
    path = file_history.manifest(REPLACE.text())
    equal = file_history.run("backfill", "verify", path)
    assert 0 == equal.exit_code, equal.output
    kept = [file_history.versions(index) for index in (1, 3)]
    file_history.sql(
        "UPDATE target.history SET note = 'changed by hand' WHERE day = %s AND id %% 5 = 0", day(2)
    )
    different = file_history.run("backfill", "verify", path, "--anew")
    assert 4 == different.exit_code, different.output
    repaired = file_history.run("backfill", "verify", path, "--repair", "--reason", "changed by hand")
    assert 0 == repaired.exit_code, repaired.output
    assert kept == [file_history.versions(index) for index in (1, 3)]
    assert [(2, 1), (2, 2), (2, 1)] == [(record.round, record.attempt) for record in file_history.records()]
    window = f"day BETWEEN '{day(1)}' AND '{day(3)}'"
    assert file_history.content("source.history", window) == file_history.content("target.history", window)


# What is refused.


def test_an_append_is_refused_before_anything_is_opened(file_history: FileHistory) -> None:
    told = run(file_history, APPEND)
    assert (2, "DPONE_BACKFILL_STATE_UNSUPPORTED") == (told.exit_code, told.error_code), told.output
    assert "would load them twice" in told.stderr
    assert "audit_schema" in told.stderr
    assert not file_history.state.exists()


def test_a_distributed_lock_is_refused(file_history: FileHistory) -> None:
    path = file_history.folder / "locked.yaml"
    text = in_a_file(manifest_text(3)).replace("local_file }", "local_file, require_distributed_lock: true }")
    path.write_text(text, encoding="utf-8")
    told = file_history.run("run", str(path))
    assert (2, "DPONE_BACKFILL_STATE_UNSUPPORTED") == (told.exit_code, told.error_code), told.output
    assert "remove require_distributed_lock" in told.stderr
    assert not file_history.state.exists()


def test_a_mapped_item_is_refused(file_history: FileHistory) -> None:
    limits = MappingLimits(max_items=1, max_active=1, pool="dpone_backfill")
    manifest = parse_manifest(in_a_file(manifest_text(3)), "file_history.yaml")
    process = build_process(manifest, MappingPolicy(mode=MappingMode.SUMMARY, limits=limits))
    told = file_history.start_item(process).finish()
    assert (2, "DPONE_AIRFLOW_MAPPING_STATE_UNSUPPORTED") == (told.exit_code, told.error_code), told.output
    assert "distributed_lock, distributed_chunk_lease" in told.stderr
    assert not file_history.state.exists()


@pytest.mark.parametrize("in_turn", [True, False])
def test_a_proxy_that_pools_transactions_is_refused(file_history: FileHistory, *, in_turn: bool) -> None:
    with TransactionPooler(file_history.uri, in_turn=in_turn) as pooler:
        told = file_history.run("run", file_history.manifest(), environ={"DPONE_CONN_TARGET_DB": pooler.uri})
    assert (2, "DPONE_BACKFILL_SESSION_UNSAFE") == (told.exit_code, told.error_code), told.output
    assert [] == file_history.sql("SELECT 1 FROM target.history LIMIT 1")


def test_a_second_run_of_the_campaign_is_refused_at_once(file_history: FileHistory) -> None:
    path = file_history.manifest()
    first = file_history.start("run", path, faults=[("copied", VICTIM, HOLD)])
    first.wait_for("copied", VICTIM)
    refused = file_history.run("run", path)
    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (refused.exit_code, refused.error_code), refused.output
    assert "nothing needs to be deleted" in refused.stderr
    first.release()
    done = first.finish()
    assert 0 == done.exit_code, done.output
    assert ["claimed", "committed"] == file_history.events(VICTIM)
    file_history.require_loaded(CHUNKS)


def test_a_run_of_another_folder_or_window_cannot_have_the_target_too(file_history: FileHistory) -> None:
    path = file_history.manifest()
    adjacent = file_history.manifest(
        manifest_text(name="later", first=day(5).isoformat(), last=day(6).isoformat()), file="later.yaml"
    )
    first = file_history.start("run", path, faults=[("copied", VICTIM, HOLD)])
    first.wait_for("copied", VICTIM)
    elsewhere = {STATE_DIR: str(file_history.folder / "another machine")}
    for manifest, environ in ((path, elsewhere), (adjacent, {}), (adjacent, elsewhere)):
        refused = file_history.run("run", manifest, environ=environ)
        assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (refused.exit_code, refused.error_code), refused.output
        assert "the target is held" in refused.stderr
    first.release()
    assert 0 == first.finish().exit_code
    file_history.require_loaded(CHUNKS)


def test_no_ledger_beside_the_target_opens_a_campaign_meanwhile(file_history: FileHistory) -> None:
    """It would need the lock of the target, which the run has for as long as it lasts."""
    first = file_history.start("run", file_history.manifest(), faults=[("copied", VICTIM, HOLD)])
    first.wait_for("copied", VICTIM)
    relation = file_history.value("SELECT 'target.history'::regclass::oid::text")
    take = "SELECT pg_try_advisory_xact_lock(%s)"
    assert not file_history.value(take, lock_key("target", relation))
    first.release()
    assert 0 == first.finish().exit_code
    assert file_history.value(take, lock_key("target", relation))


def test_a_campaign_that_was_opened_beside_the_target_meanwhile_is_met(file_history: FileHistory) -> None:
    killed = file_history.start("run", file_history.manifest(), faults=[("copied", VICTIM, KILL_BOTH)])
    assert -signal.SIGKILL == killed.finish().exit_code
    beside = file_history.folder / "beside.yaml"
    beside.write_text(manifest_text(3), encoding="utf-8")
    begun = file_history.start("run", str(beside), faults=[("copied", VICTIM, HOLD)])
    begun.wait_for("copied", VICTIM)
    refused = file_history.run("run", file_history.manifest())
    assert (2, "DPONE_BACKFILL_OVERLAP") == (refused.exit_code, refused.error_code), refused.output
    begun.release()
    assert 0 == begun.finish().exit_code


def test_an_unfinished_campaign_beside_the_target_is_met(file_history: FileHistory) -> None:
    beside = file_history.folder / "beside.yaml"
    beside.write_text(manifest_text(3), encoding="utf-8")
    file_history.sql("ALTER TABLE target.history ADD CONSTRAINT none CHECK (false) NOT VALID")
    assert 1 == file_history.run("run", str(beside)).exit_code
    file_history.sql("ALTER TABLE target.history DROP CONSTRAINT none")
    refused = run(file_history)
    assert (2, "DPONE_BACKFILL_OVERLAP") == (refused.exit_code, refused.error_code), refused.output
    assert "at: ledger dpone_audit" in refused.stderr
    # Somebody else's campaign is not closed on the way, whatever it is asked for.
    file_history.run("backfill", "cancel", str(beside), "--reason", "stop")
    again = run(file_history)
    assert (2, "DPONE_BACKFILL_OVERLAP") == (again.exit_code, again.error_code), again.output
