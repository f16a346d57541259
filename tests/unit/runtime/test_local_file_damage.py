"""A ledger in a folder that somebody or a crash has been at: what is refused, and what is left of a change that was broken off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dpone_contract.errors import (
    LedgerFileInvalidError,
)
from dpone_runtime.adapters.local_file.lines import Header, decode, encode
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.services.open_campaign import (
    begin_round,
    complete_campaign,
    open_campaign,
)
from tests.campaign_factories import RUN_KEY, TARGET, make_campaign, make_plan
from tests.file_ledgers import (
    claims_of,
    commit,
    leave_begun,
    leave_ended,
    reading,
    statuses,
)

CHUNKS = 5
NOW = timedelta(0)
JOURNAL, SUMMARY = f"{RUN_KEY}.journal.jsonl", f"{RUN_KEY}.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


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
    leave_ended(folder)
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
    leave_ended(folder)
    for name in (SUMMARY, JOURNAL):
        (folder / name).unlink()
    assert {} == statuses(folder)


def test_no_byte_of_a_journal_can_change_unseen(folder):
    leave_ended(folder)
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
    leave_begun(folder)
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
    leave_begun(folder)
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
            # A short line takes the place of long ones: nothing of them may be left after it.
            ledger.add_event(Event(RUN_KEY, EventKind.VERIFICATION_BEGUN, 1, 1))
        with reading(folder) as ledger:
            kinds = [past.event.kind for past in ledger.campaign_events(RUN_KEY)]
            assert [EventKind.OPENED, EventKind.COMPLETED, EventKind.VERIFICATION_BEGUN] == kinds


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
