"""The queries of `ledger.sql` that read, executed over the simulated database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.simulation.conditions import Condition, conditions_without
from tests.simulation.database import Session
from tests.simulation.rows import campaign_columns, chunk_columns, event_columns, is_over, shown_status
from tests.simulation.tables import Row
from tests.simulation.weakening import Weakening

Values = Mapping[str, Any]
Rows = list[tuple[Any, ...]]
SCHEMA = "dpone_audit"
_VERDICTS = ("verified", "differs")


class ReadingStatements:
    """What reads; a weakening leaves conditions out, of what writes as well."""

    def __init__(self, weakening: Weakening) -> None:
        self.weakening = weakening
        self._conditions = conditions_without(weakening.conditions)

    def _holds(self, query: str, row: Row, values: Values, now: datetime) -> bool:
        conditions: tuple[Condition, ...] = self._conditions[query]
        return all(condition(row, values, now) for condition in conditions)

    def query_read_campaign(self, session: Session, values: Values) -> Rows:
        row = session.campaign(values["run_key"])
        return [campaign_columns(row)] if row else []

    def query_read_chunk(self, session: Session, values: Values) -> Rows:
        row = session.chunk((values["run_key"], values["chunk_index"]))
        return [chunk_columns(row)] if row else []

    def query_count_live(self, session: Session, values: Values) -> Rows:
        return [(len(self._found("count_live", session, values)),)]

    def query_committed_chunks(self, session: Session, values: Values) -> Rows:
        return [(row["chunk_index"],) for row in self._found("committed_chunks", session, values)]

    def query_claimed_chunks(self, session: Session, values: Values) -> Rows:
        return [(row["chunk_index"],) for row in self._found("claimed_chunks", session, values)]

    def query_list_failures(self, session: Session, values: Values) -> Rows:
        return [chunk_columns(row) for row in self._failed(session, values)[: values["count"]]]

    def query_list_failed_or_lapsed(self, session: Session, values: Values) -> Rows:
        now = session.clock()
        lapsed = [
            row for row in self._found("list_running", session, values) if row["lease_expires_at"] <= now
        ]
        found = [
            row
            for row in (*self._failed(session, values), *lapsed)
            if values["first"] <= row["chunk_index"] <= values["last"]
        ]
        found.sort(key=lambda row: int(row["chunk_index"]))
        return [chunk_columns(row) for row in found[: values["count"]]]

    def query_count_failed(self, session: Session, values: Values) -> Rows:
        campaign = session.campaign(values["run_key"])
        failed = self._failed(session, values)
        return [(sum(row["finished_at"] >= campaign["updated_at"] for row in failed if campaign),)]

    def query_group_failures(self, session: Session, values: Values) -> Rows:
        groups: dict[str, list[int]] = {}
        for row in self._failed(session, values):
            groups.setdefault(row["error_code"] or "", []).append(row["chunk_index"])
        return [
            (code, len(found), min(found))
            for code, found in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
        ]

    def query_list_running(self, session: Session, values: Values) -> Rows:
        now = session.clock()
        found = self._found("list_running", session, values)[: values["count"]]
        return [(*chunk_columns(row), row["lease_expires_at"] - now) for row in found]

    def _failed(self, session: Session, values: Values) -> list[Row]:
        campaign = session.campaign(values["run_key"])
        if campaign is None:
            return []
        return self._found("list_failures", session, {**values, "campaign_round": campaign["round"]})

    def query_read_chunks(self, session: Session, values: Values) -> Rows:
        return [chunk_columns(row) for row in self._found("read_chunks", session, values)]

    def query_campaign_events(self, session: Session, values: Values) -> Rows:
        events = session.database.events
        return [
            event_columns(one)
            for one in events
            if one["run_key"] == values["run_key"] and not one["chunk_index"]
        ]

    def query_verdicts(self, session: Session, values: Values) -> Rows:
        return [
            event_columns(one)
            for one in session.database.events
            if one["run_key"] == values["run_key"]
            and values["first"] <= (one["chunk_index"] or 0) <= values["last"]
            and one["event_id"] > values["after"]
            and one["kind"] in _VERDICTS
        ]

    def _found(self, query: str, session: Session, values: Values) -> list[Row]:
        now = session.clock()
        rows = session.chunks_of(values["run_key"])
        return [row for row in rows if self._holds(query, row, values, now)]

    def query_receipts(self, session: Session, values: Values) -> Rows:
        campaign = session.campaign(values["run_key"])
        told = {**values, "campaign_round": campaign and campaign["round"]}
        found = self._found("receipts", session, told)
        return [(len(found), sum(row["rows_loaded"] for row in found))]

    def query_count_statuses(self, session: Session, values: Values) -> Rows:
        run_key, round_number = values["run_key"], values["round"]
        committed = sum(
            count
            for (key, of_round, _), count in session.database.committed.tallies.items()
            if (key, of_round) == (run_key, round_number)
        )
        shown = [shown_status(row, round_number, session.clock()) for row in session.chunks_of(run_key)]
        others = ("failed", "running", "lease_expired")
        return [("committed", committed), *((status, shown.count(status)) for status in others)]

    def query_list_statuses(self, session: Session, values: Values) -> Rows:
        campaign = session.campaign(values["run_key"])
        rows = session.chunks_of(values["run_key"]) if campaign else []
        return [
            (row["chunk_index"], shown_status(row, campaign["round"], session.clock()))
            for row in rows
            if campaign and values["first"] <= row["chunk_index"] <= values["last"]
        ]

    def query_find_ledgers(self, _session: Session, _values: Values) -> Rows:
        return [(SCHEMA,)]

    def query_relations_of_name(self, session: Session, values: Values) -> Rows:
        relation = session.relation(values["name"])
        return [] if relation is None else [(relation,)]

    def query_campaigns_on_target(self, session: Session, values: Values) -> Rows:
        found = [
            row
            for _, row in sorted(session.database.committed.campaigns.items())
            if row["target_server"] == values["server"]
            and row["target_database"] == values["database"]
            and row["target_relation"] == values["relation"]
            and (values["over"] or not is_over(row))
        ]
        now = session.clock()
        return [
            (
                *campaign_columns(row),
                sum(
                    chunk["status"] == "running" and chunk["lease_expires_at"] > now
                    for chunk in session.chunks_of(row["run_key"])
                ),
            )
            for row in found
        ]

    def query_committed_ranges(self, session: Session, values: Values) -> Rows:
        islands: list[tuple[int, str, str]] = []
        for row in session.chunks_of(values["run_key"]):
            if row["status"] != "committed" and row["round"] == 1:
                continue
            lower = row["lower_bound"]
            if islands and islands[-1][0] == row["chunk_index"] - 1:
                lower = islands.pop()[1]
            islands.append((row["chunk_index"], lower, row["upper_bound"]))
        return [(lower, upper) for _, lower, upper in islands]
