"""What must hold of publications after every commit, read from the committed state and history alone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date

from tests.campaign_factories import TARGET
from tests.simulation.lanes import PARTS
from tests.simulation.tables import BY_HAND, Commit, Row
from tests.simulation.violations import ViolationError

LIVE = TARGET.name
_STOPS = ("cancel_requested", "halted", "closed")
_GOES_ON = ("opened", "resumed", "round_begun")


@dataclass
class Publications:
    """What the history says: how often each round was published, and which campaigns were told to stop and not to go on since."""

    times: Counter[tuple[str, int]] = field(default_factory=Counter)
    stopped: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)
    """Relations in whose place another has come by a publication."""

    def follow(self, commit: Commit) -> None:
        """Take in the events of one commit, in their order."""
        for event in commit.wrote.events:
            if event["kind"] == "published":
                self.times[event["run_key"], event["round"]] += 1
                self.replaced.add(commit.before.campaigns[event["run_key"]]["target_relation"])
            if event["kind"] in _STOPS:
                self.stopped.add(event["run_key"])
            if event["kind"] in _GOES_ON:
                self.stopped.discard(event["run_key"])


def _published(commit: Commit) -> list[Row]:
    return [event for event in commit.wrote.events if event["kind"] == "published"]


def a_round_is_published_once(commit: Commit, publications: Publications) -> None:
    """A campaign's round is published at most once."""
    for event in _published(commit):
        times = publications.times[event["run_key"], event["round"]]
        if times > 1:
            raise ViolationError(
                "published once", f"{event['run_key']} was published {times} times in round {event['round']}"
            )


def the_live_table_changes_with_its_receipt(commit: Commit, _publications: Publications) -> None:
    """Another table is the live one if, and only if, the same commit says of one campaign that it is published, with its receipt."""
    was, now = commit.before.names.get(LIVE), commit.after.names.get(LIVE)
    events = _published(commit)
    if len(events) != (was != now) and not commit.wrote.by_hand:
        raise ViolationError("receipt", f"{len(events)} receipts, and {was} is {now} after it")
    for event in events:
        before, after = (state.campaigns[event["run_key"]] for state in (commit.before, commit.after))
        receipt = json.loads(event["detail"])
        told = {
            "replaced": (before["target_relation"], receipt["replaced_relation"], was),
            "live": (before["shadow_relation"], receipt["live_relation"], after["target_relation"], now),
            "backup": (commit.after.names.get(receipt["backup"]), was),
            "state": (after["status"], "published"),
            "shadow": (after["shadow_relation"], None),
        }
        for what, values in told.items():
            if len(set(values)) > 1:
                raise ViolationError("receipt", f"{event['run_key']} is published, and {what} is {values}")


def what_is_published_is_whole(commit: Commit, _publications: Publications) -> None:
    """The table that becomes live holds the rows of the attempts committed in the campaign's round, each whole and once, and no other."""
    for event in _published(commit):
        campaign = commit.after.campaigns[event["run_key"]]
        wanted = Counter[tuple[int, str, int]]()
        for index in range(1, campaign["chunks_total"] + 1):
            chunk = commit.after.chunks.get((event["run_key"], index))
            if chunk is None or (chunk["status"], chunk["round"]) != ("committed", event["round"]):
                raise ViolationError("whole", f"{event['run_key']} is published without chunk {index}")
            days = [date.fromisoformat(chunk[name]).toordinal() for name in ("lower_bound", "upper_bound")]
            wanted.update((day, chunk["owner"], part) for day in range(*days) for part in range(1, PARTS + 1))
        live = commit.after.names[LIVE]
        found = Counter(
            (row.day, row.owner, row.part) for row in commit.after.rows.values() if row.relation == live
        )
        if found != wanted:
            raise ViolationError(
                "whole",
                f"{event['run_key']} is published with {found.total()} rows, {wanted.total()} are committed",
            )


def what_was_stopped_is_not_published(commit: Commit, publications: Publications) -> None:
    """Published is what was complete in its round just before, and was not stopped since somebody let it go on."""
    for event in _published(commit):
        before = commit.before.campaigns[event["run_key"]]
        if (before["status"], before["round"]) != ("complete", event["round"]):
            raise ViolationError(
                "stopped",
                f"{event['run_key']} is published in round {event['round']}, and was {before['status']} in {before['round']}",
            )
        if event["run_key"] in publications.stopped:
            raise ViolationError("stopped", f"{event['run_key']} was told to stop, and is published")


def a_campaign_writes_its_own_table(commit: Commit, _publications: Publications) -> None:
    """A campaign with a shadow changes nothing but its shadow, one without nothing but its target."""
    if commit.wrote.loads is None:
        return
    campaign = commit.after.campaigns[commit.wrote.loads[0]]
    own = campaign["shadow_relation"] or campaign["target_relation"]
    changed = {row.relation for row in commit.wrote.inserted.values() if row.run_key != BY_HAND}
    changed |= {commit.before.rows[number].relation for number in commit.wrote.deleted}
    if changed - {own}:
        raise ViolationError(
            "own table", f"{campaign['run_key']} has changed {changed - {own}}, its table is {own}"
        )


def nothing_is_committed_into_what_is_published(commit: Commit, publications: Publications) -> None:
    """No chunk is committed in a round that is published."""
    for event in commit.wrote.events:
        place = (event["run_key"], event["round"])
        if event["kind"] == "committed" and publications.times[place]:
            raise ViolationError(
                "too late", f"{place} is published, and chunk {event['chunk_index']} is committed"
            )


def nothing_is_opened_on_what_was_replaced(commit: Commit, publications: Publications) -> None:
    """Nobody opens a campaign whose target is the table that a publication has put aside."""
    for event in commit.wrote.events:
        target = commit.after.campaigns[event["run_key"]]["target_relation"]
        if event["kind"] in _GOES_ON and target in publications.replaced:
            raise ViolationError(
                "put aside", f"{event['run_key']} is {event['kind']} on {target}, which is a backup"
            )
