"""Errors of a campaign that only a database can give: one that was never begun, a lock that is held, a session that is ended."""

from datetime import timedelta

import psycopg
import pytest

from dpone_contract.errors import CampaignBusyError, DponeError, MappingCampaignBusyError
from dpone_contract.manifest import RetryPolicy
from dpone_runtime.adapters.postgres.batches import lock_key
from dpone_runtime.adapters.postgres.session import PostgresSession
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.connections import ResolvedConnection
from dpone_runtime.services.run_campaign import RunTools, Selection, run_campaign
from tests.campaign_factories import TARGET, make_campaign, make_plan
from tests.integration.campaigns import History, manifest_text
from tests.integration.fault_lane import HOLD

SCHEMA = "dpone_audit"
PLAN = make_plan(3)
DROP_ROWS = (
    "CREATE FUNCTION target.drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
    "CREATE TRIGGER drop_row BEFORE INSERT ON target.history FOR EACH ROW EXECUTE FUNCTION target.drop_row()"
)


@pytest.mark.parametrize("verb", ["status", "resume", "cancel"])
def test_a_campaign_that_was_never_begun_is_told_by_its_ledger(history: History, verb: str) -> None:
    manifest = history.manifest()
    reason = ["--reason", "test"] if verb == "cancel" else []
    told = history.run("backfill", verb, manifest, *reason)
    assert 2 == told.exit_code, told.output
    assert "error DPONE_BACKFILL_CAMPAIGN_MISSING: the ledger has no campaign target_history-" in told.stderr
    assert "  at: schema dpone_audit of connection target_db\n" in told.stderr
    assert f"  next: begin it with `dpone backfill run {manifest} --execute`" in told.stderr


def test_a_strict_chunk_whose_rows_differ_is_rolled_back(history: History) -> None:
    history.sql(DROP_ROWS)
    text = manifest_text(3).replace("    backfill:\n", "    backfill:\n      verify: strict\n")
    told = history.run("run", history.manifest(text))
    assert (1, "DPONE_BACKFILL_ROWS_DIFFER") == (told.exit_code, told.error_code), told.output
    assert "the source counted 20 rows and the target 0" in told.stderr
    assert ", chunk 1\n" in told.stderr
    assert "  next: look for triggers" in told.stderr
    assert {1: ("failed", 1)} == history.chunks()


def test_a_dropped_ledger_is_told_as_missing(history: History) -> None:
    run = history.start("run", history.manifest(), faults=[("guarded", 1, HOLD)])
    run.wait_for("guarded", 1)
    history.sql("ALTER SCHEMA dpone_audit RENAME TO elsewhere")
    run.release()
    told = run.finish()
    assert (2, "DPONE_LEDGER_MISSING") == (told.exit_code, told.error_code), told.output
    assert "the ledger in schema dpone_audit is gone" in told.stderr
    assert "  at: ledger in schema dpone_audit of connection target_db\n" in told.stderr
    assert "Traceback" not in told.output


@pytest.mark.parametrize("mapped, kind", [(True, MappingCampaignBusyError), (False, CampaignBusyError)])
def test_a_target_that_stays_locked_is_busy_in_the_words_of_the_mode(
    database: str, monkeypatch: pytest.MonkeyPatch, kind: type[DponeError], *, mapped: bool
) -> None:
    monkeypatch.setattr("dpone_runtime.adapters.sql.ledger.OPENING_WAIT", timedelta(milliseconds=200))
    session = PostgresSession(
        ResolvedConnection("target_db", database, "test", "DPONE_CONN_TARGET_DB"), SCHEMA
    )
    ledger = SqlLedger(session, SCHEMA)
    ledger.ensure_schema()
    with psycopg.connect(database) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key("target", TARGET.relation),))
        with pytest.raises(kind) as caught:
            open_on(ledger, mapped=mapped)
    ledger.close()
    error = caught.value
    assert type(error) is kind
    assert (5, f"campaign {PLAN.run_key}") == (error.exit_code, error.where)
    assert "its locks were held" in error.message
    assert "look for a long transaction" in (error.next_step or "")


def open_on(ledger: SqlLedger, *, mapped: bool) -> None:
    """Run the campaign as far as its opening."""

    def nothing(*_: object) -> None:
        raise AssertionError("the campaign was opened")

    tools = RunTools(
        ledger=ledger,
        lanes=nothing,  # type: ignore[arg-type]  # never asked for
        observer=None,  # type: ignore[arg-type]  # never told anything
        clock=timedelta,
        stop_requested=lambda: False,
        opened=nothing,
    )
    selection = Selection(
        first=1,
        last=3,
        mapped=mapped,
        max_active=1 if mapped else None,
        lane_count=1,
        policy=RetryPolicy.NON_COMMITTED,
        dag_run_id=None,
    )
    run_campaign(tools, PLAN, make_campaign(PLAN), selection)
