"""A ledger in a folder: what is on the disk after a change, what is refused of it, and what a crash may leave."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
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
from dpone_runtime.adapters.local_file.lines import Header, decode, encode
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.event import EventKind
from dpone_runtime.ports.connectors import LoadReceipt
from dpone_runtime.services.chunk_claims import ChunkClaims
from dpone_runtime.services.open_campaign import (
    begin_round,
    cancel_campaign,
    complete_campaign,
    open_campaign,
)
from tests.campaign_factories import RUN_KEY, TARGET, make_campaign, make_plan
from tests.file_ledgers import OwnTargetLocks, ledger_in

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


def claims_of(ledger: LocalFileLedger, chunks: int = CHUNKS) -> ChunkClaims:
    return ChunkClaims(ledger, make_plan(chunks), max_active=None, dag_run_id=None)


def commit(ledger: LocalFileLedger, *indexes: int) -> None:
    for index in indexes:
        request = claims_of(ledger).claim(index).request
        assert request is not None
        ledger.record_commit(request, LoadReceipt(7, 7, 0))


def begun(folder: Path) -> None:
    """Leave a campaign with two committed chunks and one at work, its summary as old as the campaign."""
    ledger = ledger_in(folder)
    open_campaign(ledger, make_campaign())
    # Without an end of this ledger nothing but the journal has the chunks, as after a kill.
    commit(ledger, 1, 2)
    claims_of(ledger).claim(3)


def ended(folder: Path) -> None:
    """Leave the same with a summary of all of it."""
    begun(folder)
    ledger = ledger_in(folder)
    commit(ledger, 4)
    ledger.close()


@contextmanager
def reading(folder: Path) -> Iterator[LocalFileLedger]:
    ledger = ledger_in(folder)
    try:
        yield ledger
    finally:
        ledger.close()


def statuses(folder: Path) -> dict[int, str]:
    with reading(folder) as ledger:
        return {index: status.value for index, status in ledger.chunk_statuses(RUN_KEY).items()}


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
    ended(folder)
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
    ended(folder)
    assert {".lock", JOURNAL, SUMMARY} == {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("run_key", ["../../out", ".hidden", "a/b", "ż" * 90, "orders.execution", "x\ny"])
def test_any_key_has_its_files_in_the_folder(folder, ledger, run_key):
    plan = make_plan(run_key=run_key)
    open_campaign(ledger, make_campaign(plan))
    ledger.close()
    assert run_key == ledger.read_campaign(run_key).run_key
    assert 3 == len(list(folder.iterdir()))
    assert [folder] == list(folder.parent.iterdir())


# What is refused.

Damage = Callable[[Path], object]


def in_journal(change: Callable[[list[bytes]], list[bytes]]) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / JOURNAL
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return damage


def in_summary(change: Callable[[str], str]) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / SUMMARY
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")

    return damage


def of_another(name: str) -> Damage:
    """Put the file of another campaign in its place."""

    def damage(folder: Path) -> None:
        with reading(folder) as ledger:
            other = make_campaign(make_plan(run_key="another"), target=replace(TARGET, relation="9"))
            open_campaign(ledger, other)
        (folder / name.replace(RUN_KEY, "another")).replace(folder / name)
        for path in folder.glob("another*"):
            path.unlink()

    return damage


NEWER = encode(Header.model_construct(format="dpone.backfill-journal.v2", run_key=RUN_KEY))
DAMAGES: dict[str, tuple[str, Damage]] = {
    "summary empty": (SUMMARY, in_summary(lambda text: "")),
    "summary cut": (SUMMARY, in_summary(lambda text: text[:200])),
    "summary not ours": (SUMMARY, in_summary(lambda text: '{"hello": "world"}')),
    "summary of a later format": (SUMMARY, in_summary(lambda text: text.replace("ledger.v1", "ledger.v2"))),
    "summary with a state nobody knows": (SUMMARY, in_summary(lambda text: text.replace("open", "done"))),
    "summary of another": (SUMMARY, of_another(SUMMARY)),
    "summary gone": (SUMMARY, lambda folder: (folder / SUMMARY).unlink()),
    "journal gone": (JOURNAL, lambda folder: (folder / JOURNAL).unlink()),
    "journal empty": (JOURNAL, in_journal(lambda lines: [])),
    "journal of another": (JOURNAL, of_another(JOURNAL)),
    "journal not ours": (JOURNAL, in_journal(lambda lines: [b"hello\n", b"world\n"])),
    "journal of a later format": (JOURNAL, in_journal(lambda lines: [NEWER, *lines[1:]])),
    "journal cut at a line": (JOURNAL, in_journal(lambda lines: lines[:-1])),
    "journal cut within a line": (JOURNAL, in_journal(lambda lines: [*lines[:-1], lines[-1][:50]])),
    "journal cut to its first line": (JOURNAL, in_journal(lambda lines: lines[:1])),
    "a line changed": (
        JOURNAL,
        in_journal(lambda lines: [*lines[:5], lines[5].replace(b"committed", b"committee"), *lines[6:]]),
    ),
    "a line gone": (JOURNAL, in_journal(lambda lines: [*lines[:3], *lines[4:]])),
    "a line twice": (JOURNAL, in_journal(lambda lines: [*lines[:3], lines[2], *lines[3:]])),
    "lines exchanged": (JOURNAL, in_journal(lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]])),
    "a line of somebody's at the end": (JOURNAL, in_journal(lambda lines: [*lines, b"{}\n"])),
    "zeros at the end of a line": (JOURNAL, in_journal(lambda lines: [*lines[:-1], bytes(300) + b"\n"])),
}


@pytest.mark.parametrize("name, damage", DAMAGES.values(), ids=DAMAGES)
def test_what_cannot_be_believed_is_refused_by_name_and_left_as_it_is(folder, name, damage):
    ended(folder)
    damage(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with reading(folder) as ledger:
        for act in (
            lambda: ledger.read_campaign(RUN_KEY),
            lambda: ledger.committed(RUN_KEY, 1, 1, CHUNKS),
            lambda: claims_of(ledger).claim(1),
            lambda: open_campaign(ledger, make_campaign()),
        ):
            with pytest.raises(LedgerFileInvalidError) as refusal:
                act()
            assert (str(folder / name), RUN_KEY) == (refusal.value.where, refusal.value.fields["run_key"])
            assert all(file in refusal.value.next_step for file in (JOURNAL, SUMMARY))
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_campaign_whose_files_are_all_gone_begins_anew(folder):
    ended(folder)
    for name in (SUMMARY, JOURNAL):
        (folder / name).unlink()
    assert {} == statuses(folder)


def test_no_byte_of_a_journal_can_change_unseen(folder):
    ended(folder)
    whole = (folder / JOURNAL).read_bytes()
    for place in range(0, len(whole), 11):
        changed = bytearray(whole)
        changed[place] ^= 1
        (folder / JOURNAL).write_bytes(changed)
        with pytest.raises(LedgerFileInvalidError):
            statuses(folder)


# What a crash leaves.

WHOLE = [{}, {1: "running"}, {1: "committed"}, {1: "committed", 2: "running"}]
WHOLE += [{1: "committed", 2: "committed"}, {1: "committed", 2: "committed", 3: "running"}]


def test_an_append_that_was_broken_off_has_not_happened(folder):
    """Cut anywhere after the summary, the journal tells of a state that it was in, and goes on from there."""
    begun(folder)
    whole, told = (folder / JOURNAL).read_bytes(), (folder / SUMMARY).read_bytes()
    mark = json.loads(told)["journal"]["bytes"]
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n") and place + 1 >= mark]
    for cut in range(mark, len(whole) + 1, 29):
        (folder / JOURNAL).write_bytes(whole[:cut])
        (folder / SUMMARY).write_bytes(told)
        expected = WHOLE[sum(end <= cut for end in ends) - 1]
        assert expected == statuses(folder)
        with reading(folder) as ledger:
            claims_of(ledger).claim(5)
        assert {**expected, 5: "running"} == statuses(folder)


def test_a_reader_changes_nothing_of_a_broken_append(folder):
    begun(folder)
    torn = (folder / JOURNAL).read_bytes()[:-20]
    (folder / JOURNAL).write_bytes(torn)
    assert {1: "committed", 2: "committed"} == statuses(folder)
    assert torn == (folder / JOURNAL).read_bytes()


def test_a_change_of_many_lines_is_whole_or_not_there(folder):
    """A round that carries chunks: without its last line it was not begun."""
    with reading(folder) as ledger:
        open_campaign(ledger, make_campaign())
        commit(ledger, 1, 2, 3, 4, 5)
        complete_campaign(ledger, ledger.read_campaign(RUN_KEY), CHUNKS)
    told = (folder / SUMMARY).read_bytes()
    with reading(folder) as ledger:
        begin_round(ledger, make_campaign(), reason="one differs", only=frozenset({2}))
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    change = [text for text in lines[1:] if decode(text).event.round == 2]
    assert ["round_begun", *["carried"] * 4] == [decode(text).event.kind.value for text in change]
    assert [True] * 4 + [False] == [decode(text).more for text in change]
    for left in range(len(change)):
        (folder / JOURNAL).write_bytes(b"".join(lines[: len(lines) - len(change) + left]))
        (folder / SUMMARY).write_bytes(told)
        with reading(folder) as ledger:
            campaign = ledger.read_campaign(RUN_KEY)
            assert (1, CampaignStatus.COMPLETE) == (campaign.round, campaign.status)
            assert frozenset(range(1, 6)) == ledger.committed(RUN_KEY, 1, 1, CHUNKS)


def test_an_opening_without_its_summary_is_completed(folder):
    """What a kill between the first change and the summary leaves; nothing can have been done then."""
    with reading(folder) as ledger:
        open_campaign(ledger, make_campaign())
    (folder / SUMMARY).unlink()
    with reading(folder) as ledger:
        assert CampaignStatus.OPEN is ledger.read_campaign(RUN_KEY).status
        commit(ledger, 1)
    assert {"committed": 1} == json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["chunks"]


def start(folder: Path, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.unit.runtime.claim_from_folder", str(folder), str(last)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)


def test_two_processes_lose_no_change_of_each_other(folder):
    last = 150
    with reading(folder) as ledger:
        open_campaign(ledger, make_campaign(make_plan(last)))
        processes = [start(folder, last) for _ in range(2)]
        told = [process.communicate(timeout=60)[0].split() for process in processes]
        assert [0, 0] == [process.returncode for process in processes]
        assert sorted(map(str, range(1, last + 1))) == sorted(told[0] + told[1])
        assert {ChunkStatus.COMMITTED: last} == dict(ledger.counts(RUN_KEY, 1))
        assert set(range(1, last + 1)) == {
            record.rows_loaded for record in ledger.read_chunks(RUN_KEY, 1, last) if record.attempt == 1
        }


def test_a_process_that_is_killed_loses_nothing_that_it_has_told(folder):
    last = 5_000
    with reading(folder) as ledger:
        open_campaign(ledger, make_campaign(make_plan(last)))
    for _ in range(3):
        process = start(folder, last)
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        told += process.communicate(timeout=20)[0].splitlines(keepends=True)
        told = [line for line in told if line.endswith("\n")]
        with reading(folder) as ledger:
            done = ledger.committed(RUN_KEY, 1, 1, last)
            assert {int(line) for line in told} <= done
            assert len(ledger.chunk_statuses(RUN_KEY)) - len(done) <= 3


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
    in_journal(lambda lines: [lines[0], lines[1].replace(b"open", b"shut")])(folder)
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


def test_files_of_others_in_the_folder_hinder_nobody(folder, ledger):
    for name in ("notes.txt", "flights.execution.json", "x.json", "verify"):
        (folder / name).write_text("{", encoding="utf-8")
    open_campaign(ledger, make_campaign())
    commit(ledger, 1)
    assert EventKind.OPENED is ledger.campaign_events(RUN_KEY)[0].event.kind
