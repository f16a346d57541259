"""What must hold after every commit, read from the committed state and history alone, and before every change of a slice.

What a publication has to be is in `publication_invariants`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import combinations

from dpone_contract.manifest import InnerMode
from dpone_runtime.domain.campaign import Window
from dpone_runtime.domain.chunk_record import TRANSITIONS, ChunkStatus
from dpone_runtime.domain.lease import LEASE_TTL
from tests.simulation.database import Database, Session
from tests.simulation.lanes import PARTS
from tests.simulation.publication_invariants import (
    Publications,
    a_campaign_writes_its_own_table,
    a_round_is_published_once,
    nothing_is_committed_into_what_is_published,
    nothing_is_opened_on_what_was_replaced,
    the_live_table_changes_with_its_receipt,
    what_is_published_is_whole,
    what_was_stopped_is_not_published,
)
from tests.simulation.rows import is_over
from tests.simulation.tables import BY_HAND, Commit, Row
from tests.simulation.violations import ViolationError

_RENEWED = {"lease_expires_at", "leased_at", "renewed_by"}


@dataclass
class Expectation:
    """What the history says of the target: of each day the attempts whose rows it holds, and what was committed when."""

    max_active: int | None
    days: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    by_hand: Counter[tuple[str, int, str, int]] = field(default_factory=Counter)
    """Rows that no campaign has written."""

    committed: Counter[tuple[str, int, int]] = field(default_factory=Counter)

    reasons: dict[str, str | None] = field(default_factory=dict)
    """With which reason each campaign was opened first: with one, an append may meet rows of others."""

    def follow(self, commit: Commit) -> None:
        """Take in the events of one commit, in their order.

        Errors: ViolationError for an append to what is there.
        """
        for event in commit.wrote.events:
            if event["kind"] == "opened":
                self.reasons[event["run_key"]] = event["detail"]
            if event["kind"] == "committed":
                self._committed(commit, event)
        self.by_hand.update(
            (row.relation, row.day, row.owner, row.part)
            for row in commit.wrote.inserted.values()
            if row.run_key == BY_HAND
        )

    def _committed(self, commit: Commit, event: Row) -> None:
        run_key, index = event["run_key"], event["chunk_index"]
        self.committed[run_key, event["round"], index] += 1
        row, campaign = commit.after.chunks[run_key, index], commit.after.campaigns[run_key]
        table = campaign["shadow_relation"] or campaign["target_relation"]
        for day in range(*map(_ordinal, (row["lower_bound"], row["upper_bound"]))):
            appends = campaign["inner_mode"] == InnerMode.INCREMENTAL_APPEND
            kept = self.days.get((table, day), []) if appends else []
            if kept and self.reasons[run_key] is None:
                raise ViolationError("exactly once", f"{_place(row)} was appended to rows that are there")
            self.days[table, day] = [*kept, event["owner"]]


def _ordinal(bound: str) -> int:
    return date.fromisoformat(bound).toordinal()


def _place(row: Row) -> str:
    chunk = f" chunk {row['chunk_index']}" if row.get("chunk_index") else ""
    return f"{row['run_key']}{chunk}"


def rows_are_there_exactly_once(commit: Commit, expectation: Expectation) -> None:
    """Every day holds the rows of the attempts that the history names as committed, each whole and once."""
    for (run_key, round_number, index), times in expectation.committed.items():
        if times > 1:
            raise ViolationError(
                "exactly once", f"{run_key} chunk {index} was committed {times} times in round {round_number}"
            )
    if not commit.wrote.inserted and not commit.wrote.deleted and not commit.wrote.events:
        return
    found = Counter((row.relation, row.day, row.owner, row.part) for row in commit.after.rows.values())
    wanted = Counter(
        (table, day, owner, part)
        for (table, day), owners in expectation.days.items()
        for owner in owners
        for part in range(1, PARTS + 1)
    )
    wanted.update(expectation.by_hand)
    if found != wanted:
        table, day = min(key[:2] for key in (found - wanted) + (wanted - found))
        raise ViolationError(
            "exactly once",
            f"day {date.fromordinal(day)} has {sum(n for key, n in found.items() if key[:2] == (table, day))} rows, "
            f"{sum(n for key, n in wanted.items() if key[:2] == (table, day))} of them as the ledger tells",
        )


def rows_come_with_their_receipt(commit: Commit, _expectation: Expectation) -> None:
    """Rows are committed by the attempt that owns the chunk, with its receipt, in an open round of a campaign not closed."""
    if commit.wrote.loads is None:
        return
    run_key, index = commit.wrote.loads
    before, after = commit.before.chunks.get((run_key, index)), commit.after.chunks.get((run_key, index))
    campaign = commit.after.campaigns[run_key]
    owners = {(row.owner, row.revision, row.round) for row in commit.wrote.inserted.values()}
    place = f"{run_key} chunk {index}"
    if before is None or {(before["owner"], before["revision"], before["round"])} != owners:
        raise ViolationError(
            "replaced", f"{place}: an attempt that does not own the chunk has committed rows"
        )
    if before["status"] != "running" or after is None or after["status"] != "committed":
        raise ViolationError("replaced", f"{place}: rows were committed without their receipt")
    if campaign["status"] == "closed" or campaign["round"] != after["round"]:
        raise ViolationError(
            "closed", f"{place}: committed into a campaign that is closed or in another round"
        )


def leases_stay_within_the_limit(commit: Commit, expectation: Expectation) -> None:
    """Live leases of a campaign never exceed max_active."""
    if expectation.max_active is None or not commit.wrote.chunks:
        return
    live = Counter(
        run_key
        for (run_key, _), row in commit.after.chunks.items()
        if row["status"] == "running" and row["lease_expires_at"] > commit.now
    )
    for run_key, count in live.items():
        if count > expectation.max_active:
            raise ViolationError(
                "max_active", f"{run_key} has {count} live leases, allowed are {expectation.max_active}"
            )


def every_change_is_one_revision_with_one_event(commit: Commit, _expectation: Expectation) -> None:
    """A row's revision grows by one with exactly one event; only a renewal, which moves an expiry alone, has none."""
    events = Counter(
        (event["run_key"], event["chunk_index"], event["revision"]) for event in commit.wrote.events
    )
    changes = [(commit.before.chunks.get(key), row) for key, row in commit.wrote.chunks.items()]
    changes += [(commit.before.campaigns.get(key), row) for key, row in commit.wrote.campaigns.items()]
    for before, row in changes:
        was = before["revision"] if before else 0
        if row["revision"] == was and before is not None and "renewed_by" in row:
            moved = {name for name in row if row[name] != before[name]} - _RENEWED
            if moved:
                raise ViolationError("revision", f"{_place(row)}: {sorted(moved)} changed without a revision")
            if row["renewed_by"] != row["owner"]:
                raise ViolationError(
                    "renewal", f"{_place(row)} was renewed by an attempt that does not own it"
                )
            continue
        told = events.pop((row["run_key"], row.get("chunk_index"), row["revision"]), 0)
        if row["revision"] != was + 1 or told != 1:
            raise ViolationError(
                "revision", f"{_place(row)}: revision {was} became {row['revision']} with {told} events"
            )
    if events:
        raise ViolationError("revision", f"events without a change: {sorted(map(str, events))}")


def chunks_move_as_the_domain_says(commit: Commit, _expectation: Expectation) -> None:
    """Statuses follow the domain's table; a commit is undone by nobody in its round, and a live lease taken by nobody."""
    for key, row in commit.wrote.chunks.items():
        before = commit.before.chunks.get(key)
        if before is None or before["revision"] == row["revision"]:
            continue
        was, now = ChunkStatus(before["status"]), ChunkStatus(row["status"])
        if was is now is ChunkStatus.COMMITTED and row["round"] == before["round"] + 1:
            continue  # carried into a round that loads others
        if now not in TRANSITIONS[was] or row["round"] < before["round"]:
            raise ViolationError("transition", f"{_place(row)}: {was.value} became {now.value}")
        if was is ChunkStatus.COMMITTED and row["round"] == before["round"]:
            raise ViolationError("transition", f"{_place(row)}: committed, and begun again in one round")
        if was is now is ChunkStatus.RUNNING and commit.now < before["leased_at"] + LEASE_TTL:
            left = before["leased_at"] + LEASE_TTL - commit.now
            raise ViolationError(
                "live lease", f"{_place(row)} was taken {left / timedelta(seconds=1):g} s too early"
            )


def completion_is_recorded_when_all_is_committed(commit: Commit, _expectation: Expectation) -> None:
    """A complete campaign has a committed row of its round for every chunk."""
    for run_key, row in commit.after.campaigns.items():
        if row["status"] != "complete":
            continue
        for index in range(1, row["chunks_total"] + 1):
            chunk = commit.after.chunks.get((run_key, index))
            if chunk is None or chunk["status"] != "committed" or chunk["round"] != row["round"]:
                raise ViolationError("completion", f"{run_key} is complete without chunk {index}")


def tallies_agree_with_the_rows(commit: Commit, _expectation: Expectation) -> None:
    """What is counted as committed in a campaign's round is what its rows say."""
    counted = Counter[tuple[str, int]]()
    for (run_key, round_number, _), count in commit.after.tallies.items():
        counted[run_key, round_number] += count
    rows = Counter(
        (run_key, row["round"])
        for (run_key, _), row in commit.after.chunks.items()
        if row["status"] == "committed"
    )
    for run_key, campaign in commit.after.campaigns.items():
        place = (run_key, campaign["round"])
        if counted[place] != rows[place]:
            raise ViolationError(
                "tally", f"{run_key} has {rows[place]} committed chunks, counted are {counted[place]}"
            )


def no_two_campaigns_write_one_slice(commit: Commit, _expectation: Expectation) -> None:
    """Campaigns that may still write to the target do not overlap."""
    if not commit.wrote.campaigns:
        return
    writing = [row for row in commit.after.campaigns.values() if not is_over(row)]
    for one, two in combinations(writing, 2):
        if one["target_relation"] == two["target_relation"] and _window(one).overlaps(_window(two)):
            raise ViolationError("overlap", f"{one['run_key']} and {two['run_key']} may both write")


def _window(row: Row) -> Window:
    """What it may change: everything, where the table is exchanged."""
    column, kind, lower, upper = (row[f"window_{name}"] for name in ("column", "kind", "lower", "upper"))
    return Window(column, kind, lower, upper, everything=row["shadow_relation"] is not None)


INVARIANTS: tuple[Callable[[Commit, Expectation], None], ...] = (
    rows_come_with_their_receipt,
    every_change_is_one_revision_with_one_event,
    chunks_move_as_the_domain_says,
    rows_are_there_exactly_once,
    leases_stay_within_the_limit,
    completion_is_recorded_when_all_is_committed,
    tallies_agree_with_the_rows,
    no_two_campaigns_write_one_slice,
)
OF_PUBLICATIONS = (
    a_round_is_published_once,
    the_live_table_changes_with_its_receipt,
    what_is_published_is_whole,
    what_was_stopped_is_not_published,
    a_campaign_writes_its_own_table,
    nothing_is_committed_into_what_is_published,
    nothing_is_opened_on_what_was_replaced,
)


def watch(database: Database, expectation: Expectation) -> None:
    """Hold a database to all of this from now on."""

    publications = Publications()

    def check(commit: Commit) -> None:
        expectation.follow(commit)
        for invariant in INVARIANTS:
            invariant(commit, expectation)
        publications.follow(commit)
        for one in OF_PUBLICATIONS:
            one(commit, publications)

    def one_transaction_a_chunk(session: Session) -> None:
        loads = session.changes().loads
        for other in database.sessions:
            if other is not session and other.transaction is not None and other.transaction.loads == loads:
                raise ViolationError(
                    "one data transaction", f"{loads} is changed by {other.name} and {session.name} at once"
                )

    database.on_commit.append(check)
    database.on_change.append(one_transaction_a_chunk)
