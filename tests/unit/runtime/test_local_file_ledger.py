"""A ledger in a folder: what is on the disk after a change, its locks, and what fails."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dpone_contract.errors import (
    CampaignBusyError,
    ChunkBusyError,
    InternalError,
    LedgerFileFailedError,
    LedgerFileInvalidError,
    LedgerMissingError,
    OverlapError,
)
from dpone_runtime.adapters.local_file import ledger as ledger_module
from dpone_runtime.adapters.local_file.file_lock import locked
from dpone_runtime.adapters.local_file.ledger import LocalFileLedger
from dpone_runtime.domain.campaign import CampaignStatus, Window
from dpone_runtime.domain.claim import ClaimVerdict
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.ports.ledger import OtherCampaign, StaleRevisionError
from dpone_runtime.services.open_campaign import Opening, cancel_campaign, open_campaign
from tests.campaign_factories import RUN_KEY, TARGET, make_campaign, make_plan
from tests.file_ledgers import (
    OwnTargetLocks,
    claims_of,
    commit,
    leave_ended,
    ledger_in,
    statuses,
)

CHUNKS = 5
NOW = timedelta(0)
JOURNAL, SUMMARY = f"{RUN_KEY}.journal.jsonl", f"{RUN_KEY}.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def ledger(folder: Path) -> Iterator[LocalFileLedger]:
    opened = ledger_in(folder)
    yield opened
    opened.close()


# What is there.


def test_a_folder_that_is_not_there_tells_of_nothing_and_is_not_made(folder):
    ledger = LocalFileLedger(folder, OwnTargetLocks())
    assert (False, None, {}) == (
        ledger.exists(),
        ledger.read_campaign(RUN_KEY),
        dict(ledger.counts(RUN_KEY, 1)),
    )
    ledger.close()
    assert not folder.exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "state").write_text("a file", encoding="utf-8")
    with pytest.raises(LedgerMissingError) as refusal:
        ledger_in(tmp_path / "state" / "below")
    assert str(tmp_path / "state" / "below") == refusal.value.where
    assert "--state-dir" in refusal.value.next_step


def test_a_change_is_on_the_disk_when_it_returns(folder, ledger):
    open_campaign(ledger, make_campaign())
    commit(ledger, 1)
    assert {1: "committed"} == statuses(folder)


def test_the_journal_is_lines_that_people_can_read(folder, ledger):
    open_campaign(ledger, make_campaign())
    commit(ledger, 2)
    lines = [json.loads(text) for text in (folder / JOURNAL).read_text(encoding="utf-8").splitlines()]
    assert ("dpone.backfill-journal.v1", RUN_KEY) == (lines[0]["format"], lines[0]["run_key"])
    assert ["opened", "claimed", "committed"] == [line["event"]["kind"] for line in lines[1:]]
    assert (2, "committed", 7) == (
        lines[3]["chunk"]["chunk_index"],
        lines[3]["chunk"]["status"],
        lines[3]["chunk"]["rows_loaded"],
    )


def test_the_summary_follows_the_campaign_and_is_whole_at_the_end(folder):
    leave_ended(folder)
    told = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    assert ("dpone.backfill-ledger.v1", RUN_KEY, "open") == (
        told["format"],
        told["run_key"],
        told["campaign"]["status"],
    )
    assert {"committed": 3, "running": 1} == told["chunks"]
    assert [3] == [record["chunk_index"] for record in told["running"]]
    assert {"file": JOURNAL, "bytes": (folder / JOURNAL).stat().st_size, "lines": 8} == told["journal"]


def test_no_other_file_is_left(folder):
    leave_ended(folder)
    assert {".lock", JOURNAL, SUMMARY} == {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("run_key", ["../../out", ".hidden", "a/b", "ż" * 90, "orders.execution", "x\ny"])
def test_any_key_has_its_files_in_the_folder(folder, ledger, run_key):
    plan = make_plan(run_key=run_key)
    open_campaign(ledger, make_campaign(plan))
    ledger.close()
    assert run_key == ledger.read_campaign(run_key).run_key
    assert 3 == len(list(folder.iterdir()))
    assert [folder] == list(folder.parent.iterdir())


# What fails.


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let the disk be full, as far as this process is concerned."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_and_leaves_the_ledger_as_it_was(folder, ledger):
    open_campaign(ledger, make_campaign())
    commit(ledger, 1)
    size = (folder / JOURNAL).stat().st_size
    with no_file_larger_than(size + 100), pytest.raises(LedgerFileFailedError) as failure:
        claims_of(ledger).claim(2)
    assert "space on its disk" in failure.value.next_step
    assert size == (folder / JOURNAL).stat().st_size
    assert {1: "committed"} == statuses(folder)
    commit(ledger, 2)
    assert {1: "committed", 2: "committed"} == statuses(folder)


def test_files_that_vanish_during_a_run_are_refused(folder, ledger):
    open_campaign(ledger, make_campaign())
    commit(ledger, 1)
    (folder / JOURNAL).unlink()
    with pytest.raises(LedgerFileInvalidError):
        claims_of(ledger).claim(2)
    assert not (folder / JOURNAL).exists()


# Locks.


def test_a_folder_that_stays_locked_is_told_by_what_was_wanted(folder, ledger, monkeypatch):
    open_campaign(ledger, make_campaign())
    record = claims_of(ledger).claim(1).record
    for name in ("TRANSITION_WAIT", "OPENING_WAIT", "RENEWAL_WAIT"):
        monkeypatch.setattr(ledger_module, name, NOW)
    with locked(folder / ".lock", wait=NOW):
        with pytest.raises(ChunkBusyError):
            claims_of(ledger).claim(2)
        with pytest.raises(CampaignBusyError):
            ledger.open_campaign("another", TARGET, lambda view: None)
        # Whoever has the lock may be the commit itself: the next renewal tells.
        assert ledger.renew(record)
    assert {1: "running"} == statuses(folder)


def test_a_run_has_its_campaign_and_its_target(folder, ledger):
    locks = OwnTargetLocks()
    other = ledger_in(folder, locks)
    with ledger.fence(RUN_KEY):
        with pytest.raises(CampaignBusyError, match="held by another run"), other.fence(RUN_KEY):
            pytest.fail("two runs of one campaign")
        assert {} == locks.fences
        with other.fence("another"):
            assert [TARGET.relation] == list(locks.fences)
    other.close()


def test_what_a_dead_run_has_claimed_is_free_at_once_for_the_next(folder, ledger):
    """Nobody else can be at work: whoever claimed it held the fence that this run has now."""
    open_campaign(ledger, make_campaign())
    claims_of(ledger).claim(1)
    commit(ledger, 2)
    assert ClaimVerdict.BUSY is claims_of(ledger).claim(1).verdict
    with ledger.fence(RUN_KEY):
        assert {1: "lease_expired", 2: "committed"} == statuses(folder)
        assert ClaimVerdict.CLAIM is claims_of(ledger).claim(1).verdict
        assert {1: "running", 2: "committed"} == statuses(folder)
    assert 2 == ledger.read_chunk(RUN_KEY, 1).attempt


@pytest.mark.parametrize("loss", ["session", "file"])
def test_a_fence_that_is_lost_is_noticed(folder, loss):
    locks = OwnTargetLocks()
    ledger = ledger_in(folder, locks)
    with ledger.fence(RUN_KEY) as fence:
        assert fence.held()
        if loss == "session":
            locks.fences[TARGET.relation].alive = False
        else:
            (folder / f"{RUN_KEY}.lock").unlink()
        assert not fence.held()
    ledger.close()


def test_nothing_runs_without_a_run(folder):
    ledger = LocalFileLedger(folder, OwnTargetLocks())
    with pytest.raises(InternalError), ledger.fence(RUN_KEY):
        pytest.fail("a run without what its lanes commit under")


def test_holders_are_looked_for_on_the_target_of_the_campaign(folder):
    locks = OwnTargetLocks()
    ledger = ledger_in(folder, locks)
    assert 0 == ledger.end_holders(RUN_KEY, 1)
    open_campaign(ledger, make_campaign())
    ledger.end_holders(RUN_KEY, 2)
    assert [(TARGET.relation, RUN_KEY, 2)] == locks.ended
    ledger.close()


# Neighbours.


def other_campaign(**changes):
    plan = make_plan(run_key="another")
    return make_campaign(plan, **changes)


def test_a_neighbour_that_cannot_be_believed_lets_nothing_begin_on_its_target(folder, ledger):
    open_campaign(ledger, make_campaign())
    ledger.close()
    path = folder / JOURNAL
    path.write_bytes(path.read_bytes().replace(b'"status":"open"', b'"status":"shut"'))
    with pytest.raises(LedgerFileInvalidError, match=RUN_KEY):
        open_campaign(ledger, other_campaign())
    assert ledger.read_campaign("another") is None
    elsewhere = other_campaign(target=replace(TARGET, relation="9"))
    assert "another" == open_campaign(ledger, elsewhere).campaign.run_key


def test_a_neighbour_whose_summary_is_old_is_read_to_its_end(folder, ledger):
    """A kill after the change and before the summary: the journal alone tells that it is open again."""
    campaign = open_campaign(ledger, make_campaign()).campaign
    cancel_campaign(ledger, campaign, reason="stop", by=None)
    open_campaign(ledger, other_campaign())
    assert CampaignStatus.CLOSED is ledger.read_campaign(RUN_KEY).status
    told = (folder / SUMMARY).read_bytes()
    cancel_campaign(ledger, ledger.read_campaign("another"), reason="stop", by=None)
    open_campaign(ledger, make_campaign(), reason="go on")
    ledger.close()
    (folder / SUMMARY).write_bytes(told)
    with pytest.raises(OverlapError):
        open_campaign(ledger, other_campaign(), reason="go on")


def test_a_campaign_of_another_ledger_is_never_closed_in_its_place(folder):
    """It may have the very same key: one manifest, once over each kind of ledger."""
    locks = OwnTargetLocks()
    ledger = ledger_in(folder, locks)
    campaign = open_campaign(ledger, make_campaign()).campaign
    cancel_campaign(ledger, campaign, reason="stop", by=None)
    beside = make_campaign(status=CampaignStatus.CANCEL_REQUESTED)
    locks.beside = (OtherCampaign(beside, 0, "dpone_audit", foreign=True),)
    with pytest.raises(OverlapError) as refusal:
        open_campaign(ledger, make_campaign(), reason="go on")
    assert "ledger dpone_audit" == refusal.value.where
    assert CampaignStatus.CANCEL_REQUESTED is ledger.read_campaign(RUN_KEY).status
    ledger.close()


@pytest.mark.parametrize("status", [CampaignStatus.OPEN, CampaignStatus.CANCEL_REQUESTED])
def test_a_campaign_that_was_opened_beside_the_target_since_is_met(folder, status):
    """Nobody there has seen this one, so that it is looked for at every run and not at the first alone."""
    locks = OwnTargetLocks()
    ledger = ledger_in(folder, locks)
    open_campaign(ledger, make_campaign())
    locks.beside = (OtherCampaign(other_campaign(status=status), 0, "dpone_audit", foreign=True),)
    with pytest.raises(OverlapError):
        open_campaign(ledger, make_campaign())
    apart = Window("flight_date", "date", "2013-02-01", "2013-03-01")
    locks.beside = (OtherCampaign(other_campaign(window=apart), 0, "dpone_audit", foreign=True),)
    assert Opening.FOUND is open_campaign(ledger, make_campaign()).how
    ledger.close()


def test_an_event_of_no_campaign_makes_no_file(folder, ledger):
    with pytest.raises(StaleRevisionError):
        ledger.add_event(Event(RUN_KEY, EventKind.VERIFICATION_BEGUN, 1, 1))
    assert {".lock"} == {path.name for path in folder.iterdir()}


def test_files_of_others_in_the_folder_hinder_nobody(folder, ledger):
    for name in ("notes.txt", "flights.execution.json", "x.json", "verify"):
        (folder / name).write_text("{", encoding="utf-8")
    open_campaign(ledger, make_campaign())
    commit(ledger, 1)
    assert EventKind.OPENED is ledger.campaign_events(RUN_KEY)[0].event.kind
