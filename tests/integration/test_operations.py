"""What an operator does with a campaign that went wrong: retry what failed, restart, let it halt, ask the doctor."""

import json
import os
import signal

import pytest

from tests.integration.campaigns import History, day, manifest_text, mapped_process
from tests.integration.child_runs import Finished
from tests.integration.fault_lane import BEFORE_LOAD, HOLD, KILL_COORDINATOR
from tests.integration.inner_modes import mode_text
from tests.integration.transaction_pooler import TransactionPooler

CHUNKS = 5
REFUSE = "ALTER TABLE target.history ADD CONSTRAINT refused CHECK (day NOT IN ({}))"
MEND = "ALTER TABLE target.history DROP CONSTRAINT refused"


def refuse(history: History, *chunks: int) -> None:
    history.sql(REFUSE.format(", ".join(f"'{day(index)}'" for index in chunks)))


def halting_text(limit: int, chunks: int = CHUNKS) -> str:
    return manifest_text(chunks).replace(
        "    backfill:\n", f"    backfill:\n      stop_after_failures: {limit}\n"
    )


def ask(history: History, verb: str, *arguments: str, text: str | None = None) -> Finished:
    path = history.manifest(text or manifest_text(CHUNKS))
    return history.run("backfill", verb, path, *arguments)


def document(finished: Finished) -> dict[str, object]:
    found: dict[str, object] = json.loads(finished.stdout)
    return found


def symptoms(finished: Finished) -> list[str]:
    found = document(finished)["symptoms"]
    assert isinstance(found, list)
    return [symptom["name"] for symptom in found]


def ledger_bytes(history: History) -> list[tuple[object, ...]]:
    tables = ("campaigns", "chunks", "events")
    return [
        history.sql(
            f"SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM dpone_audit.__dpone__backfill_{table} t"
        )[0]
        for table in tables
    ]


@pytest.fixture
def failed(history: History) -> History:
    """Chunks 2 and 4 have failed, 5 is pending."""
    refuse(history, 2, 4)
    done = history.run("run", history.manifest(halting_text(9, 4)))
    assert 1 == done.exit_code, done.output
    assert {1: "committed", 2: "failed", 3: "committed", 4: "failed"} == {
        index: status for index, (status, _) in history.chunks().items()
    }
    return history


# retry-failed.


def test_failed_chunks_are_listed_and_nothing_moves(history: History) -> None:
    refuse(history, 2)
    assert 1 == history.run("run", history.manifest(manifest_text(CHUNKS))).exit_code
    before = ledger_bytes(history)
    told = ask(history, "retry-failed")
    assert 0 == told.exit_code, told.output
    assert "1 failed, 0 lapsed of 5 chunks" in told.stdout
    assert "chunk 2 [2013-01-02, 2013-01-03): failed at attempt 1" in told.stdout
    assert "DPONE_BACKFILL_CHUNK_FAILED: " in told.stdout
    assert "history.yaml --execute" in told.stdout
    found = document(ask(history, "retry-failed", "--format", "json"))
    assert ("dpone.backfill-retry.v1", 1, 0) == (
        found["schema"],
        found["chunks_failed"],
        found["chunks_lapsed"],
    )
    assert before == ledger_bytes(history)


def test_only_what_failed_is_loaded_and_pending_chunks_stay(history: History) -> None:
    refuse(history, 2)
    assert 1 == history.run("run", history.manifest(manifest_text(CHUNKS))).exit_code
    history.sql(MEND)
    done = ask(history, "retry-failed", "--execute")
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 1), 2: ("committed", 2)} == history.chunks()
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert ("failed_only", 1, 1, "open") == (
        done.outcome.backfill.retry_policy,
        done.outcome.backfill.chunks_selected,
        done.outcome.backfill.chunks_committed,
        done.outcome.backfill.campaign_status,
    )
    incomplete = ask(history, "retry-failed", "--execute", "--require-complete")
    assert 3 == incomplete.exit_code, incomplete.output
    assert 0 == ask(history, "resume").exit_code
    history.require_loaded(CHUNKS)
    assert 0 == ask(history, "retry-failed", "--execute", "--require-complete").exit_code


def test_a_chunk_of_a_dead_run_is_retried(history: History) -> None:
    killed = history.run(
        "run", history.manifest(manifest_text(CHUNKS)), faults=[(BEFORE_LOAD, 2, KILL_COORDINATOR)]
    )
    assert killed.exit_code < 0
    history.lapse_leases()
    assert "0 failed, 1 lapsed of 5 chunks" in ask(history, "retry-failed").stdout
    done = ask(history, "retry-failed", "--execute")
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 1), 2: ("committed", 2)} == history.chunks()


def test_a_chunk_that_fails_again_ends_with_1(failed: History) -> None:
    done = ask(failed, "retry-failed", "--execute", text=manifest_text(4))
    assert 1 == done.exit_code
    assert (("failed", 2), ("failed", 1)) == (failed.chunks()[2], failed.chunks()[4])


def test_retrying_needs_a_campaign(history: History) -> None:
    for arguments in ((), ("--execute",)):
        refused = ask(history, "retry-failed", *arguments)
        assert 2 == refused.exit_code
        assert "DPONE_BACKFILL_CAMPAIGN_MISSING" in refused.stderr


def test_neither_a_retry_nor_a_resumption_begins_a_round_of_a_complete_interval(history: History) -> None:
    text = manifest_text(first="{{ ds }}", last="{{ ds }}")
    interval = ("--execution-date", day(3).isoformat())
    assert 0 == ask(history, "run", "--execute", *interval, text=text).exit_code
    for verb in (("retry-failed", "--execute"), ("resume",)):
        done = ask(history, *verb, *interval, text=text)
        assert 0 == done.exit_code, done.output
    assert [(1, "complete")] == history.sql(
        "SELECT round, status FROM dpone_audit.__dpone__backfill_campaigns"
    )
    assert {1: ("committed", 1)} == history.chunks()


# restart.


def test_a_restart_shows_what_it_would_load_again(history: History) -> None:
    assert 0 == history.run("run", history.manifest(manifest_text(CHUNKS))).exit_code
    before = ledger_bytes(history)
    told = ask(history, "restart", "--reason", "rows were changed")
    assert 0 == told.exit_code, told.output
    assert "round 2 would load 5 chunks, [2013-01-01, 2013-01-06), by partition_replace" in told.stdout
    assert "5 of them are committed now and would be loaded again" in told.stdout
    found = document(ask(history, "restart", "--reason", "x", "--format", "json"))
    assert (2, 5, 5) == (found["next_round"], found["chunks_to_load"], found["chunks_committed_now"])
    assert before == ledger_bytes(history)


def test_a_restart_loads_everything_again(history: History) -> None:
    assert 0 == history.run("run", history.manifest(manifest_text(CHUNKS))).exit_code
    history.sql("UPDATE source.history SET note = 'second' WHERE id % 2 = 0")
    done = ask(history, "restart", "--reason", "rows were changed", "--execute")
    assert 0 == done.exit_code, done.output
    assert dict.fromkeys(range(1, CHUNKS + 1), ("committed", 2)) == history.chunks()
    history.require_loaded(CHUNKS)
    assert [("rows were changed",)] == history.sql(
        "SELECT detail FROM dpone_audit.__dpone__backfill_events WHERE kind = 'round_begun'"
    )


@pytest.mark.parametrize("arguments", [(), ("--execute",)])
def test_a_restart_needs_a_reason_and_an_append_is_refused(
    history: History, arguments: tuple[str, ...]
) -> None:
    text = mode_text("incremental_append", CHUNKS)
    assert 0 == history.run("run", history.manifest(text)).exit_code
    before = ledger_bytes(history)
    assert 2 == ask(history, "restart", *arguments, text=text).exit_code
    refused = ask(history, "restart", "--reason", "again", *arguments, text=text)
    assert 2 == refused.exit_code
    assert "DPONE_BACKFILL_CAMPAIGN_STOPPED" in refused.stderr
    assert "appends" in refused.stderr
    assert before == ledger_bytes(history)
    assert 2 == ask(history, "restart", "--reason", " ", "--execute").exit_code


def test_a_restart_lifts_a_cancellation_and_is_refused_beside_an_overlap(history: History) -> None:
    refuse(history, 2)
    assert 1 == history.run("run", history.manifest(manifest_text(CHUNKS))).exit_code
    history.sql(MEND)
    assert 0 == ask(history, "cancel", "--reason", "wrong").exit_code
    later = history.manifest(
        manifest_text(first=day(4).isoformat(), last=day(6).isoformat()), file="later.yaml"
    )
    refuse(history, 5)
    assert 1 == history.run("run", later).exit_code
    assert "closed" == history.value(
        "SELECT status FROM dpone_audit.__dpone__backfill_campaigns ORDER BY created_at LIMIT 1"
    )
    for arguments in ((), ("--execute",)):
        refused = ask(history, "restart", "--reason", "again", *arguments)
        assert 2 == refused.exit_code
        assert "DPONE_BACKFILL_OVERLAP" in refused.stderr
    history.sql(MEND)
    assert 0 == history.run("backfill", "resume", later).exit_code
    done = ask(history, "restart", "--reason", "again", "--execute")
    assert 0 == done.exit_code, done.output
    window = f"day <= '{day(CHUNKS)}'"
    assert history.content("source.history", window) == history.content("target.history", window)


def test_a_restart_beside_a_run_is_busy_and_begins_nothing(history: History) -> None:
    run = history.start("run", history.manifest(manifest_text(CHUNKS)), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    refused = ask(history, "restart", "--reason", "again", "--execute")
    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (refused.exit_code, refused.error_code)
    assert 1 == history.value("SELECT round FROM dpone_audit.__dpone__backfill_campaigns")
    run.release()
    assert 0 == run.finish().exit_code


# stop_after_failures.


def test_a_campaign_halts_after_so_many_failures_and_goes_on_once_it_was_mended(history: History) -> None:
    refuse(history, 1, 3)
    path = history.manifest(halting_text(2))
    halted = history.run("run", path)
    assert (1, "DPONE_BACKFILL_CHUNK_FAILED") == (halted.exit_code, halted.error_code), halted.output
    assert {1: ("failed", 1), 2: ("committed", 1), 3: ("failed", 1)} == history.chunks()
    assert ["opened", "halted"] == history.events(None)
    assert halted.outcome is not None
    assert halted.outcome.backfill is not None
    assert ("halted", 2) == (halted.outcome.backfill.campaign_status, halted.outcome.backfill.chunks_failed)
    assert "the campaign is halted: 2 chunks failed, and stop_after_failures is 2" in halted.stderr
    assert "resume MANIFEST --reason" in halted.stderr

    for verb in (("run", "--execute"), ("resume",), ("retry-failed", "--execute")):
        refused = history.run("backfill", verb[0], path, *verb[1:])
        assert (2, "DPONE_BACKFILL_CAMPAIGN_STOPPED") == (refused.exit_code, refused.error_code), (
            refused.output
        )
    status = history.run("backfill", "status", path)
    assert "reason: 2 chunks failed" in status.stdout

    again = history.run("backfill", "retry-failed", path, "--execute", "--reason", "is it better now?")
    assert 1 == again.exit_code
    assert "halted" == history.value("SELECT status FROM dpone_audit.__dpone__backfill_campaigns")

    history.sql(MEND)
    done = history.run("backfill", "resume", path, "--reason", "mended")
    assert 0 == done.exit_code, done.output
    assert ["opened", "halted", "resumed", "halted", "resumed", "completed"] == history.events(None)
    history.require_loaded(CHUNKS)


def test_failures_of_mapped_items_count_together(history: History) -> None:
    refuse(history, 1, 4)
    process = mapped_process(6, items=2, max_active=2)
    text = halting_text(2, 6)
    process = process.replaced(
        manifest=process.manifest.replaced(
            sink=process.manifest.sink.replaced(
                strategy=process.manifest.sink.strategy.replaced(
                    backfill=process.manifest.backfill.replaced(stop_after_failures=2)
                )
            )
        )
    )
    first = history.start_item(process, 0, faults=[(BEFORE_LOAD, 2, HOLD)])
    first.wait_for(BEFORE_LOAD, 2)
    assert {1: ("failed", 1), 2: ("running", 1)} == history.chunks()
    second = history.start_item(process, 1).finish()
    assert 1 == second.exit_code, second.output
    assert "halted" == history.value("SELECT status FROM dpone_audit.__dpone__backfill_campaigns")
    first.release()
    done = first.finish()
    # What was at work has finished; its third chunk did not begin.
    assert 1 == done.exit_code, done.output
    assert {1: ("failed", 1), 2: ("committed", 1), 4: ("failed", 1)} == history.chunks()
    history.sql(MEND)
    assert 0 == history.run("backfill", "resume", history.manifest(text), "--reason", "mended").exit_code
    history.require_loaded(6)


# doctor.


def test_a_campaign_that_has_not_begun(history: History) -> None:
    found = ask(history, "doctor", "--format", "json")
    assert 3 == found.exit_code, found.output
    assert ["ledger_missing"] == symptoms(found)
    assert "run" in str(document(found)["next"])
    assert [] == history.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'dpone_audit'")


def test_failed_chunks_are_grouped_with_what_to_do(failed: History) -> None:
    before = ledger_bytes(failed)
    found = ask(failed, "doctor", "--format", "json", text=halting_text(9, 4))
    assert 3 == found.exit_code, found.output
    told = document(found)
    assert ("dpone.backfill-doctor.v1", "action", "open") == (told["schema"], told["verdict"], told["status"])
    assert ["failed"] == symptoms(found)
    assert [("DPONE_BACKFILL_CHUNK_FAILED", 2, 2)] == [
        (group["code"], group["chunks"], group["first_chunk_index"])
        for group in told["failures"]  # type: ignore[attr-defined]  # plain values
    ]
    path = str(failed.folder / "history.yaml")
    assert f"dpone backfill retry-failed {path} --execute" == told["next"]
    text = ask(failed, "doctor", text=halting_text(9, 4))
    assert "2 chunks failed with DPONE_BACKFILL_CHUNK_FAILED, the first is chunk 2: " in text.stdout
    assert f"next: dpone backfill retry-failed {path} --execute" in text.stdout
    assert ask(failed, "doctor", "--format", "md", text=halting_text(9, 4)).stdout.startswith("### campaign ")
    assert before == ledger_bytes(failed)


def test_chunks_at_work_are_named_with_their_run_and_session(history: History) -> None:
    process = mapped_process(CHUNKS)
    run = history.start_item(process, faults=[("copied", 2, HOLD)])
    run.wait_for("copied", 2)
    found = ask(history, "doctor", "--format", "json")
    told = document(found)
    assert (0, "healthy") == (found.exit_code, told["verdict"]), found.output
    (running,) = told["running"]  # type: ignore[misc]  # plain values
    assert (2, "manual__1", 1) == (running["chunk_index"], running["dag_run_id"], running["attempt"])
    assert 0 < running["lease_seconds_left"] <= 90
    assert running["started_at"]
    assert "chunk 2" in [lock for session in told["sessions"] for lock in session["holds"]]  # type: ignore[attr-defined]  # plain values
    assert "backfill status" in str(told["next"])
    text = ask(history, "doctor").stdout
    assert "chunk 2 [2013-01-02, 2013-01-03): DAG run manual__1 since " in text
    assert "holds chunk 2" in text
    run.release()
    assert 0 == run.finish().exit_code


def test_a_lapsed_lease_is_told(history: History) -> None:
    run = history.start("run", history.manifest(manifest_text(CHUNKS)), faults=[(BEFORE_LOAD, 2, HOLD)])
    run.wait_for(BEFORE_LOAD, 2)
    os.kill(run.process.pid, signal.SIGKILL)
    run.finish()
    history.lapse_leases()
    found = ask(history, "doctor", "--format", "json")
    assert (3, ["lapsed", "pending"]) == (found.exit_code, symptoms(found)), found.output
    assert "retry-failed" in str(document(found)["next"])
    assert "lease lapsed" in ask(history, "doctor").stdout


def test_pending_chunks_are_resumed(history: History) -> None:
    refuse(history, 2)
    assert 1 == history.run("run", history.manifest(manifest_text(CHUNKS))).exit_code
    history.sql(MEND)
    assert 0 == ask(history, "retry-failed", "--execute").exit_code
    found = ask(history, "doctor", "--format", "json")
    assert (3, ["pending"]) == (found.exit_code, symptoms(found))
    assert f"dpone backfill resume {history.folder / 'history.yaml'}" == document(found)["next"]


def test_a_stop_is_told_with_its_reason_and_who_asked(history: History) -> None:
    refuse(history, 2)
    assert 1 == history.run("run", history.manifest(manifest_text(CHUNKS))).exit_code
    assert (
        0 == ask(history, "cancel", "--reason", "source maintenance", "--requested-by", "data-ops").exit_code
    )
    found = ask(history, "doctor", "--format", "json")
    assert 3 == found.exit_code
    assert ["cancelled", "failed", "pending"] == symptoms(found)
    told = document(found)
    assert ("source maintenance", "data-ops") == (told["reason"], told["requested_by"])
    assert "resume" in str(told["next"])
    assert "by data-ops: source maintenance" in ask(history, "doctor").stdout


def test_everything_that_has_moved_is_told_at_once(failed: History) -> None:
    failed.sql("ALTER TABLE target.history RENAME TO old; CREATE TABLE target.history (LIKE source.history)")
    key = failed.value("SELECT run_key FROM dpone_audit.__dpone__backfill_campaigns")
    text = manifest_text(3).replace("    backfill:\n", f"    backfill:\n      backfill_id: {key}\n")
    found = ask(failed, "doctor", "--format", "json", text=text)
    assert 3 == found.exit_code, found.output
    told = " ".join(document(found)["drift"])  # type: ignore[arg-type]  # plain values
    for moved in ("the plan of", "the number of chunks of", "the target table"):
        assert moved in told
    failed.sql("DROP TABLE source.history CASCADE")
    found = ask(failed, "doctor", "--format", "json", text=manifest_text(4))
    assert "tables" in symptoms(found)
    assert "DPONE_TABLE_MISSING" in found.stdout


def test_other_campaigns_on_the_target_are_told(failed: History) -> None:
    text = manifest_text(first=day(3).isoformat(), last=day(6).isoformat())
    found = ask(failed, "doctor", "--format", "json", text=text)
    assert (3, ["not_begun", "overlap"]) == (found.exit_code, symptoms(found)), found.output


def test_a_complete_campaign_says_whether_it_was_verified(history: History) -> None:
    text = manifest_text(CHUNKS)
    assert 0 == history.run("run", history.manifest(text)).exit_code
    found = ask(history, "doctor", "--format", "json")
    assert (0, "complete", ["unverified"]) == (found.exit_code, document(found)["verdict"], symptoms(found))
    assert "verify" in str(document(found)["next"])
    assert 0 == ask(history, "verify").exit_code
    found = ask(history, "doctor", "--format", "json")
    assert (0, ["verified"], "nothing") == (found.exit_code, symptoms(found), document(found)["next"])
    history.sql("DELETE FROM target.history WHERE day = %s", day(2))
    assert 4 == ask(history, "verify").exit_code
    found = ask(history, "doctor", "--format", "json")
    assert (3, ["differs"]) == (found.exit_code, symptoms(found))
    assert "--repair" in str(document(found)["next"])


def test_a_target_that_is_away_is_infrastructure(history: History) -> None:
    away = {"DPONE_CONN_TARGET_DB": "postgresql://dpone:hunter2@127.0.0.1:1/x"}
    path = history.manifest(manifest_text(CHUNKS))
    found = history.run("backfill", "doctor", path, "--format", "json", environ=away)
    assert (5, ["unreachable"]) == (found.exit_code, symptoms(found)), found.output
    assert "hunter2" not in found.output
    assert "Traceback" not in found.output


@pytest.mark.parametrize("granted, told", [("SELECT", "INSERT, UPDATE"), ("", "SELECT, INSERT, UPDATE")])
def test_a_ledger_that_this_user_may_not_write_is_infrastructure(
    failed: History, granted: str, told: str
) -> None:
    failed.add_reader("reader", "pw")
    failed.sql("GRANT USAGE ON SCHEMA dpone_audit TO reader")
    if granted:
        failed.sql(f"GRANT {granted} ON ALL TABLES IN SCHEMA dpone_audit TO reader")
    host = failed.uri.rpartition("@")[2]
    path = failed.manifest(halting_text(9, 4))
    found = failed.run(
        "backfill",
        "doctor",
        path,
        "--format",
        "json",
        environ={"DPONE_CONN_TARGET_DB": f"postgresql://reader:pw@{host}"},
    )
    assert (5, "ledger_unwritable") == (found.exit_code, symptoms(found)[0]), found.output
    assert f"{told} on dpone_audit.__dpone__backfill_chunks" in found.stdout


def test_the_next_command_repeats_the_options_that_name_the_campaign(history: History) -> None:
    path = history.manifest(manifest_text(CHUNKS))
    found = history.run("backfill", "doctor", path, "--to", day(2).isoformat(), "--format", "json")
    assert f"dpone backfill run {path} --to 2013-01-02 --execute" == document(found)["next"]


def test_every_verb_repeats_the_options_that_name_the_campaign(history: History) -> None:
    """Without them the command that follows would be about another campaign."""
    path = history.manifest(manifest_text(CHUNKS))
    named = ("--to", day(2).isoformat(), "--backfill-id", "part")
    told = " ".join((path, *named))
    history.sql("ALTER TABLE target.history ADD CONSTRAINT no_second CHECK (day <> '2013-01-02')")
    missing = history.run("backfill", "status", path, *named)
    assert f"`dpone backfill run {told} --execute`" in missing.stderr
    assert 1 == history.run("backfill", "run", path, *named, "--execute").exit_code
    assert f"dpone backfill retry-failed {told}" in history.run("backfill", "status", path, *named).stdout
    failed = history.run("backfill", "retry-failed", path, *named)
    assert f"dpone backfill retry-failed {told} --execute" in failed.stdout
    incomplete = history.run("backfill", "verify", path, *named)
    assert f"dpone backfill resume {told}, then verify again" in incomplete.stderr
    history.sql("ALTER TABLE target.history DROP CONSTRAINT no_second")
    assert 0 == history.run("backfill", "resume", path, *named).exit_code
    restart = history.run("backfill", "restart", path, *named, "--reason", "again")
    assert f"dpone backfill restart {told} --reason ... --execute" in restart.stdout
    history.sql("UPDATE target.history SET note = 'changed' WHERE id = 3")
    different = history.run("backfill", "verify", path, *named, "--anew")
    assert f"dpone backfill verify {told} --repair --reason ..." in different.stderr


def test_a_proxy_in_between_is_told(failed: History) -> None:
    with TransactionPooler(failed.uri, in_turn=True) as pooler:
        found = failed.run(
            "backfill",
            "doctor",
            failed.manifest(halting_text(9, 4)),
            "--format",
            "json",
            environ={"DPONE_CONN_TARGET_DB": pooler.uri},
        )
    assert (3, ["proxy", "failed"]) == (found.exit_code, symptoms(found)), found.output
    assert "connect to the server itself" in str(document(found)["next"])


def test_a_server_that_is_read_only_is_infrastructure(failed: History) -> None:
    read_only = f"{failed.uri}?options=-c%20default_transaction_read_only%3Don"
    found = failed.run(
        "backfill",
        "doctor",
        failed.manifest(halting_text(9, 4)),
        "--format",
        "json",
        environ={"DPONE_CONN_TARGET_DB": read_only},
    )
    assert (5, "ledger_unwritable") == (found.exit_code, symptoms(found)[0]), found.output
    assert "read-only" in found.stdout


def test_the_verbs_work_over_a_ledger_in_a_folder(history: History) -> None:
    refuse(history, 1, 3)
    text = halting_text(2).replace(
        "state: { backend: audit_schema, schema: dpone_audit, require_distributed_lock: true }",
        "state: { backend: local_file }",
    )
    state = {"DPONE_BACKFILL_STATE_DIR": str(history.folder / "state")}
    path = history.manifest(text)

    def called(*arguments: str) -> Finished:
        return history.run("backfill", arguments[0], path, *arguments[1:], environ=state)

    missing = called("doctor", "--format", "json")
    assert (3, ["ledger_missing"]) == (missing.exit_code, symptoms(missing)), missing.output
    halted = called("run", "--execute")
    assert 1 == halted.exit_code, halted.output
    assert halted.outcome is not None
    assert halted.outcome.backfill is not None
    assert "halted" == halted.outcome.backfill.campaign_status
    found = called("doctor", "--format", "json")
    assert (3, ["halted", "failed", "pending"]) == (found.exit_code, symptoms(found)), found.output
    assert "2 failed, 0 lapsed of 5 chunks" in called("retry-failed").stdout
    history.sql(MEND)
    done = called("retry-failed", "--execute", "--reason", "mended")
    assert 0 == done.exit_code, done.output
    assert 0 == called("resume").exit_code
    assert "round 2 would load 5 chunks" in called("restart", "--reason", "again").stdout
    done = called("restart", "--reason", "again", "--execute")
    assert 0 == done.exit_code, done.output
    found = called("doctor", "--format", "json")
    assert (0, "complete", 2) == (found.exit_code, document(found)["verdict"], document(found)["round"])
    window = f"day <= '{day(CHUNKS)}'"
    assert history.content("source.history", window) == history.content("target.history", window)
