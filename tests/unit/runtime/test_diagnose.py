"""The rules of the doctor: what was looked at, and the one command that follows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from dpone_contract.errors import ExitCode, TableMissingError
from dpone_contract.process import plan_campaign
from dpone_runtime.diagnosis_view import DiagnosisView
from dpone_runtime.domain.campaign import CampaignStatus, Window
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.diagnosis import Verdict
from dpone_runtime.domain.event import Event, EventKind, PastEvent
from dpone_runtime.ports.diagnostics import LockingSession
from dpone_runtime.ports.ledger import OtherCampaign, RunningChunk
from dpone_runtime.services.diagnose_campaign import FailedChunks, Situation, diagnose
from tests.campaign_factories import NOON, RUN_KEY, make_campaign, make_plan, make_record
from tests.factories import make_process

COMMITTED, RUNNING, FAILED, LAPSED = (
    ChunkStatus.COMMITTED,
    ChunkStatus.RUNNING,
    ChunkStatus.FAILED,
    ChunkStatus.LEASE_EXPIRED,
)
FAILURES = (FailedChunks("DPONE_BACKFILL_CHUNK_FAILED", 2, 3, "a row is bad"),)
DONE = {COMMITTED: 5}


def make_situation(status: CampaignStatus | None = CampaignStatus.OPEN, **changes) -> Situation:
    """Five chunks, three committed, two pending."""
    campaign = None if status is None else make_campaign(status=status, updated_at=NOON)
    found = Situation(
        "m.yaml",
        RUN_KEY,
        ledger_exists=True,
        internal=True,
        campaign=campaign,
        window=make_campaign().window,
        counts={COMMITTED: 3},
    )
    return replace(found, **changes)


def other_campaign(status: CampaignStatus = CampaignStatus.OPEN, live: int = 0, **changes) -> OtherCampaign:
    campaign = make_campaign(make_plan(run_key="another"), status=status)
    return OtherCampaign(campaign, live, "dpone_audit", **changes)


def history(*kinds: tuple[EventKind, str | None], round_number: int = 1) -> tuple[PastEvent, ...]:
    return tuple(
        PastEvent(number, NOON, Event(RUN_KEY, kind, round_number, number, detail=detail))
        for number, (kind, detail) in enumerate(kinds, 1)
    )


OPENED, COMPLETED = (EventKind.OPENED, None), (EventKind.COMPLETED, None)
BEGUN = (EventKind.VERIFICATION_BEGUN, "content")
EQUAL = (EventKind.VERIFICATION_ENDED, "content: 5 chunks compared, 0 differ")
DIFFERENT = (EventKind.VERIFICATION_ENDED, "content: 5 chunks compared, 2 differ")
EQUAL_COUNTS = (EventKind.VERIFICATION_ENDED, "counts: 5 chunks compared, 0 differ")
COMPLETE = CampaignStatus.COMPLETE

CASES = {
    "pending only": (make_situation(), ["pending"], 3, "dpone backfill resume m.yaml"),
    "failed": (
        make_situation(counts={COMMITTED: 3, FAILED: 2}, failed=FAILURES),
        ["failed"],
        3,
        "dpone backfill retry-failed m.yaml --execute",
    ),
    "failed and pending": (
        make_situation(counts={COMMITTED: 2, FAILED: 2}, failed=FAILURES),
        ["failed", "pending"],
        3,
        "dpone backfill retry-failed m.yaml --execute",
    ),
    "lapsed": (
        make_situation(counts={COMMITTED: 4, LAPSED: 1}),
        ["lapsed"],
        3,
        "dpone backfill retry-failed m.yaml --execute",
    ),
    "at work": (
        make_situation(counts={COMMITTED: 3, RUNNING: 1}),
        ["at_work", "pending"],
        0,
        "dpone backfill status m.yaml",
    ),
    "at work with failures": (
        make_situation(counts={COMMITTED: 2, RUNNING: 1, FAILED: 2}, failed=FAILURES),
        ["at_work", "failed"],
        3,
        "dpone backfill status m.yaml",
    ),
    "halted": (
        make_situation(CampaignStatus.HALTED, counts={COMMITTED: 2, FAILED: 2}, failed=FAILURES),
        ["halted", "failed", "pending"],
        3,
        "dpone backfill resume m.yaml --reason ...",
    ),
    "cancelled": (
        make_situation(CampaignStatus.CANCEL_REQUESTED),
        ["cancelled", "pending"],
        3,
        "dpone backfill resume m.yaml --reason ...",
    ),
    "closed": (
        make_situation(CampaignStatus.CLOSED),
        ["closed", "pending"],
        3,
        "dpone backfill restart m.yaml --reason ... --execute",
    ),
    "committed and not marked": (
        make_situation(counts=DONE),
        ["unmarked"],
        3,
        "dpone backfill resume m.yaml",
    ),
    "complete": (
        make_situation(COMPLETE, counts=DONE, history=history(OPENED, COMPLETED)),
        ["unverified"],
        0,
        "dpone backfill verify m.yaml",
    ),
    "verified": (
        make_situation(COMPLETE, counts=DONE, history=history(OPENED, COMPLETED, BEGUN, EQUAL)),
        ["verified"],
        0,
        "nothing",
    ),
    "contents that differ, then equal counts": (
        make_situation(COMPLETE, counts=DONE, history=history(COMPLETED, BEGUN, DIFFERENT, EQUAL_COUNTS)),
        ["differs"],
        3,
        "dpone backfill verify m.yaml --repair --reason ...",
    ),
    "contents that differed and are equal again": (
        make_situation(COMPLETE, counts=DONE, history=history(COMPLETED, BEGUN, DIFFERENT, EQUAL)),
        ["verified"],
        0,
        "nothing",
    ),
    "an append that differs": (
        make_situation(
            counts=DONE,
            campaign=make_campaign(status=COMPLETE, inner_mode="incremental_append", updated_at=NOON),
            history=history(OPENED, COMPLETED, BEGUN, DIFFERENT),
        ),
        ["differs"],
        3,
        "an append is not loaded again; partition_replace under another backfill_id replaces the window",
    ),
    "verification under way": (
        make_situation(COMPLETE, counts=DONE, history=history(OPENED, COMPLETED, BEGUN)),
        ["verification_unfinished"],
        0,
        "dpone backfill verify m.yaml",
    ),
    "verified before it was completed": (
        make_situation(COMPLETE, counts=DONE, history=history(OPENED, BEGUN, EQUAL, COMPLETED)),
        ["unverified"],
        0,
        "dpone backfill verify m.yaml",
    ),
    "different": (
        make_situation(COMPLETE, counts=DONE, history=history(OPENED, COMPLETED, BEGUN, DIFFERENT)),
        ["differs"],
        3,
        "dpone backfill verify m.yaml --repair --reason ...",
    ),
    "verified in an earlier round": (
        make_situation(
            campaign=make_campaign(status=COMPLETE, round=2),
            counts=DONE,
            history=history(OPENED, COMPLETED, BEGUN, DIFFERENT),
        ),
        ["unverified"],
        0,
        "dpone backfill verify m.yaml",
    ),
    "no campaign": (
        make_situation(None, counts={}),
        ["not_begun"],
        3,
        "dpone backfill run m.yaml --execute",
    ),
    "no ledger": (
        make_situation(None, counts={}, ledger_exists=False),
        ["ledger_missing"],
        3,
        "dpone backfill run m.yaml --execute",
    ),
    "unwritable": (
        make_situation(missing_rights=("UPDATE on chunks",)),
        ["ledger_unwritable", "pending"],
        5,
        "grant USAGE on the ledger's schema and SELECT, INSERT, UPDATE on its tables to this user, or connect to the primary",
    ),
    "proxy before an internal run": (
        make_situation(pooled=True),
        ["proxy", "pending"],
        3,
        "connect to the server itself or through a session pool, or use a mapped mode",
    ),
    "proxy before mapped tasks": (
        make_situation(pooled=True, internal=False, counts={COMMITTED: 3, RUNNING: 1}),
        ["proxy", "at_work", "pending"],
        0,
        "dpone backfill status m.yaml",
    ),
    "drift": (
        make_situation(drifts=("the plan has changed",)),
        ["drift", "pending"],
        3,
        "restore it, or begin a new campaign under another backfill_id",
    ),
    "tables": (
        make_situation(tables=TableMissingError("gone", next_step="look")),
        ["tables", "pending"],
        3,
        "look",
    ),
    "overlap": (
        make_situation(None, counts={}, others=(other_campaign(live=2),)),
        ["not_begun", "overlap"],
        3,
        "dpone backfill run m.yaml --execute",
    ),
    "overlap that a run closes": (
        make_situation(None, counts={}, others=(other_campaign(CampaignStatus.CANCEL_REQUESTED),)),
        ["not_begun", "overlap"],
        3,
        "dpone backfill run m.yaml --execute",
    ),
    "overlap of a complete one": (
        make_situation(COMPLETE, counts=DONE, others=(other_campaign(),)),
        ["overlap", "unverified"],
        0,
        "dpone backfill verify m.yaml",
    ),
}


@pytest.mark.parametrize("situation, symptoms, exit_code, next_step", CASES.values(), ids=CASES)
def test_what_follows(situation, symptoms, exit_code, next_step):
    found = diagnose(situation)
    assert symptoms == [symptom.name for symptom in found.symptoms]
    assert (ExitCode(exit_code), next_step) == (found.exit_code, found.next_step)
    assert all(symptom.next_step is None or symptom.next_step for symptom in found.symptoms)


def test_a_window_beside_it_is_no_overlap():
    beside = make_campaign(window=Window("flight_date", "date", "2014-01-01", "2014-02-01"))
    other = replace(other_campaign(), campaign=beside)
    assert ["not_begun"] == [
        symptom.name for symptom in diagnose(make_situation(None, counts={}, others=(other,))).symptoms
    ]


def test_a_stop_tells_when_why_and_by_whom():
    campaign = make_campaign(
        status=CampaignStatus.CANCEL_REQUESTED, updated_at=NOON, reason="maintenance", requested_by="ops"
    )
    (told, _) = diagnose(make_situation(campaign=campaign)).symptoms
    assert "cancelled at 2013-06-01 12:00:00 UTC by ops: maintenance" in told.text


def test_a_failure_tells_what_its_code_advises():
    (told,) = diagnose(make_situation(counts={COMMITTED: 3, FAILED: 2}, failed=FAILURES)).symptoms
    assert told.text.startswith(
        "2 chunks failed with DPONE_BACKFILL_CHUNK_FAILED, the first is chunk 3: a row is bad. Do: "
    )
    assert "dpone backfill retry-failed m.yaml --execute" in told.text
    assert "MANIFEST" not in told.text


def test_what_a_code_advises_lifts_a_halt():
    halted = make_campaign(status=CampaignStatus.HALTED, updated_at=NOON)
    situation = make_situation(campaign=halted, counts={COMMITTED: 3, FAILED: 2}, failed=FAILURES)
    (told,) = (symptom for symptom in diagnose(situation).symptoms if symptom.name == "failed")
    assert "`dpone backfill retry-failed m.yaml --execute --reason ...`" in told.text
    assert "`dpone backfill resume m.yaml --reason ...`" in told.text


def view_of(situation: Situation) -> DiagnosisView:
    planned = plan_campaign(make_process(mode="internal", chunks=5))
    session = LockingSession(7, "dpone sink", "active", timedelta(seconds=12), waits=True, holds=("chunk 1",))
    return DiagnosisView(planned, situation, diagnose(situation), (session,), {"dialect": "postgres"})


RUNNING_CHUNKS = (
    RunningChunk(make_record(dag_run_id="manual__1"), timedelta(seconds=61)),
    RunningChunk(make_record(chunk_index=2), timedelta(seconds=-5)),
)


def test_the_text_of_a_diagnosis():
    counts = {COMMITTED: 3, RUNNING: 1, LAPSED: 1}
    text = view_of(make_situation(counts=counts, running=RUNNING_CHUNKS)).text()
    assert [
        "campaign flights-history: open, round 1; something is to be done",
        "  1 running, 3 committed, 1 lease_expired of 5 chunks",
        "     1 chunk is at work; a dead run frees its chunk within two minutes",
        "       chunk 1 [2013-01-01, 2013-01-02): DAG run manual__1 since 2013-06-01 12:00:00 UTC, lease 61 s left",
        "  !  1 chunk has a lapsed lease: the run died, or was frozen; look at its log",
        "       chunk 2 [2013-01-01, 2013-01-02): a run by hand since 2013-06-01 12:00:00 UTC, lease lapsed 5 s ago",
        "     session 7 (dpone sink, active, in a transaction for 12 s, waits for another session) holds chunk 1",
        "  next: dpone backfill status m.yaml",
    ] == text.splitlines()


def test_what_could_not_be_looked_at_is_not_said_to_be_not_begun():
    lacking = ("SELECT on dpone_audit.__dpone__backfill_campaigns",)
    unread = make_situation(None, counts={}, ledger_exists=False, missing_rights=lacking, seen=False)
    text = view_of(unread).text()
    assert text.startswith("campaign flights-history: not known; the infrastructure needs a look")
    assert f"the ledger cannot be written, for lack of: {lacking[0]}" in text
    assert "not begun" in view_of(make_situation(None, counts={})).text()


def test_no_statement_is_named_that_makes_a_folder():
    situation = make_situation(None, counts={}, ledger_exists=False, in_a_file=True)
    (found,) = diagnose(situation).symptoms
    assert "there is no ledger yet; a run makes its folder" == found.text
    beside = replace(situation, in_a_file=False, command="'my orders.yaml' --to 2013-01-02")
    assert "`dpone state ddl 'my orders.yaml'`" in diagnose(beside).symptoms[0].text


def test_the_document_of_a_diagnosis():
    found = view_of(make_situation(counts={COMMITTED: 3, RUNNING: 1, LAPSED: 1}, running=RUNNING_CHUNKS))
    document = found.document
    assert document == json.loads(json.dumps(document))
    assert ("dpone.backfill-doctor.v1", Verdict.ACTION.value) == (document["schema"], document["verdict"])
    assert {"pending": 0, "running": 1, "committed": 3, "failed": 0, "lease_expired": 1} == document["chunks"]
    assert [61.0, -5.0] == [chunk["lease_seconds_left"] for chunk in document["running"]]
    assert [
        {
            "pid": 7,
            "name": "dpone sink",
            "state": "active",
            "seconds_in_transaction": 12.0,
            "waits": True,
            "holds": ["chunk 1"],
        }
    ] == document["sessions"]


def test_lists_of_a_diagnosis_are_bounded():
    many = tuple(RunningChunk(make_record(chunk_index=index), timedelta(1)) for index in range(1, 500))
    situation = make_situation(
        counts={RUNNING: 499}, running=many, others=tuple(other_campaign() for _ in range(100))
    )
    assert 10 == len(view_of(situation).document["running"])
    assert 10 == sum(symptom.name == "overlap" for symptom in diagnose(situation).symptoms)


def test_a_diagnosis_in_markdown_is_a_list():
    text = view_of(make_situation(counts={COMMITTED: 3, RUNNING: 1}, running=RUNNING_CHUNKS[:1])).text(
        markdown=True
    )
    assert text.startswith("### campaign flights-history: open, round 1; healthy\n\n- ")
    assert text.splitlines()[-1] == "- next: dpone backfill status m.yaml"
