"""Every query of `ledger.sql`, and what a sink does to its slice, executed over the simulated database, under the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dpone_runtime.adapters.sql.queries import Statement
from tests.simulation.conditions import Condition, conditions_without
from tests.simulation.database import EVER, Session, Waiting
from tests.simulation.rows import (
    CAMPAIGN_COLUMNS,
    CHUNK_COLUMNS,
    campaign_columns,
    chunk_columns,
    event_columns,
    shown_status,
)
from tests.simulation.tables import NotNullViolationError, Row, TargetRow, changed
from tests.simulation.weakening import SOUND, Weakening

Values = Mapping[str, Any]
Rows = list[tuple[Any, ...]]
SCHEMA = "dpone_audit"
DONE: Rows = [(1,)]

_OVER = ("complete", "published", "closed")
_NO_LOCKS: Mapping[int, str] = {}


_VERDICTS = ("verified", "differs")


class Statements:
    """The executor of a database. A weakening leaves out what it names; `purposes` says which lock is for what."""

    def __init__(self, weakening: Weakening = SOUND, purposes: Mapping[int, str] = _NO_LOCKS) -> None:
        self._conditions = conditions_without(weakening.conditions)
        missing, unshared = weakening.locks, weakening.locks | weakening.shared_locks
        self._no_locks = {lock for lock, purpose in purposes.items() if purpose in missing}
        self._no_shared_locks = {lock for lock, purpose in purposes.items() if purpose in unshared}
        self._weakening = weakening
        self._queries: dict[str, Callable[[Session, Values], Rows | Waiting]] = {
            name.removeprefix("query_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("query_")
        }

    def names(self) -> frozenset[str]:
        """Give the names of all statements."""
        return frozenset(self._queries)

    def execute(self, session: Session, statement: Statement) -> Rows | Waiting:
        """Begin one statement: its rows, or a generator that says what it waits for."""
        return self._queries[statement.name](session, statement.values)

    def _holds(self, query: str, row: Row, values: Values, now: datetime) -> bool:
        conditions: tuple[Condition, ...] = self._conditions[query]
        return all(condition(row, values, now) for condition in conditions)

    # Transactions and locks.

    def query_begin(self, session: Session, _values: Values) -> Rows:
        session.begin()
        return []

    def query_settings(self, session: Session, values: Values) -> Rows:
        session.lock_timeout = int(values["lock_timeout"]) / 1000 or EVER
        if (idle := values.get("idle_in_transaction_session_timeout")) is not None:
            session.idle_bound = int(idle) / 1000 or EVER
        return []

    def query_commit(self, session: Session, _values: Values) -> Rows:
        session.commit()
        return []

    def query_rollback(self, session: Session, _values: Values) -> Rows:
        session.roll_back()
        return []

    def query_lock(self, session: Session, values: Values) -> Rows | Waiting:
        return self._lock(session, values["lock"], shared=False)

    def query_lock_shared(self, session: Session, values: Values) -> Rows | Waiting:
        return self._lock(session, values["lock"], shared=True)

    def _lock(self, session: Session, lock: int, *, shared: bool) -> Rows | Waiting:
        if lock in (self._no_shared_locks if shared else self._no_locks) or session.take(lock, shared=shared):
            return []
        return self._waiting_lock(session, lock, shared=shared)

    def _waiting_lock(
        self, session: Session, lock: int, *, shared: bool, of_session: bool = False
    ) -> Waiting:
        while not session.take(lock, shared=shared, of_session=of_session):
            yield lambda: session.may_take(lock, shared=shared)
        return []

    def query_session_lock(self, session: Session, values: Values) -> Waiting:
        return self._waiting_lock(session, values["lock"], shared=False, of_session=True)

    def query_end_silent_run(self, session: Session, values: Values) -> Rows:
        if self._found("count_live", session, values):
            return []
        silence = values["silence"].total_seconds()
        holders = session.database.advisory.get(values["lock"], {})
        silent = [holder for holder in holders if holder.idle_for() > silence]
        for holder in silent:
            holder.signalled = True
        return [(True,) for _ in silent]

    def query_lock_table(self, _session: Session, _values: Values) -> Rows:
        """Data transactions do not exclude one another, and nobody changes the table."""
        return []

    def query_seen_columns(self, _session: Session, _values: Values) -> Rows:
        return []

    def query_clock(self, session: Session, _values: Values) -> Rows:
        return [(session.clock(),)]

    def query_fence_take(self, session: Session, values: Values) -> Rows:
        return [(self._weakening.fence or session.take(values["lock"], of_session=True), 0)]

    def query_fence_held(self, session: Session, values: Values) -> Rows:
        return [(self._weakening.fence or session in session.database.advisory.get(values["lock"], {}),)]

    def query_chunk_lock_holders(self, session: Session, values: Values) -> Rows:
        holders = [
            found for found in session.database.advisory.get(values["lock"], {}) if found is not session
        ]
        if self._weakening.endings:
            return []
        for holder in holders:
            holder.signalled = True
        return [(True,) for _ in holders]

    # Reading.

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

    def query_count_statuses(self, session: Session, values: Values) -> Rows:
        counts: dict[str, int] = {}
        for row in session.chunks_of(values["run_key"]):
            shown = shown_status(row, values["round"], session.clock())
            counts[shown] = counts.get(shown, 0) + 1
        return list(counts.items())

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

    def query_campaigns_on_target(self, session: Session, values: Values) -> Rows:
        found = [
            row
            for _, row in sorted(session.database.committed.campaigns.items())
            if row["target_server"] == values["server"]
            and row["target_database"] == values["database"]
            and row["target_relation"] == values["relation"]
            and (values["over"] or row["status"] not in _OVER)
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

    # Writing.

    def query_insert_campaign(self, session: Session, values: Values) -> Waiting:
        key = values["run_key"]
        if not session.campaign(key):
            yield from _row_lock(session, ("campaign", key))
        if session.campaign(key):
            return []
        now = session.clock()
        row = {name: values.get(name) for name in CAMPAIGN_COLUMNS} | {"created_at": now, "updated_at": now}
        session.changes().campaigns[key] = row
        return _event(session, values, row)

    def query_update_campaign(self, session: Session, values: Values) -> Waiting:
        key = values["run_key"]
        row = session.campaign(key)
        if row is None or not self._holds("update_campaign", row, values, session.clock()):
            return []
        yield from _row_lock(session, ("campaign", key))
        newest = session.campaign(key)
        assert newest is not None
        if newest is not row and not self._holds("update_campaign", newest, values, session.clock()):
            return []
        columns = ("status", "revision", "round", "reason", "requested_by", "loaded_columns")
        row = changed(newest, **{name: values[name] for name in columns}, updated_at=session.clock())
        session.changes().campaigns[key] = row
        return _event(session, values, row)

    def query_insert_chunk(self, session: Session, values: Values) -> Waiting:
        key = (values["run_key"], values["chunk_index"])
        if not session.chunk(key):
            yield from _row_lock(session, ("chunk", *key))
        if session.chunk(key):
            return []
        row: Row = dict.fromkeys(CHUNK_COLUMNS) | _claimed(session, values)
        session.changes().chunks[key] = row
        return _event(session, values, row, owner=row["owner"])

    def query_claim_chunk(self, session: Session, values: Values) -> Waiting:
        row = yield from self._lock_chunk("claim_chunk", session, values)
        if row is None:
            return []
        forgotten = (
            *("rows_extracted", "rows_loaded", "content_digest", "error_code", "error_message"),
            "finished_at",
        )
        row = {**row, **dict.fromkeys(forgotten), **_claimed(session, values)}
        session.changes().chunks[row["run_key"], row["chunk_index"]] = row
        return _event(session, values, row, owner=row["owner"])

    def query_end_chunk(self, session: Session, values: Values) -> Waiting:
        row = yield from self._lock_chunk("end_chunk", session, values)
        if row is None:
            return []
        columns = ("status", "revision", "owner", "error_code", "error_message")
        row = changed(
            row,
            **{name: values[name] for name in columns},
            lease_expires_at=None,
            finished_at=session.clock() if values["has_finished"] else None,
        )
        session.changes().chunks[row["run_key"], row["chunk_index"]] = row
        return _event(session, values, row, owner=values["event_owner"])

    def query_carry_chunks(self, session: Session, values: Values) -> Waiting:
        for found in self._found("carry_chunks", session, values):
            key = (found["run_key"], found["chunk_index"])
            yield from _row_lock(session, ("chunk", *key))
            row = session.chunk(key)
            assert row is not None
            if row is not found and not self._holds("carry_chunks", row, values, session.clock()):
                continue
            row = changed(row, round=values["round"], revision=row["revision"] + 1)
            session.changes().chunks[key] = row
            _event(session, {"event_kind": "carried", "event_detail": None}, row, owner=row["owner"])
        return []

    def query_insert_event(self, session: Session, values: Values) -> Rows:
        told = {"event_kind": values["kind"], "event_detail": values["detail"]}
        _event(session, told, values, owner=values["owner"])
        return []

    def query_renew_chunk(self, session: Session, values: Values) -> Waiting:
        row = yield from self._lock_chunk("renew_chunk", session, values)
        if row is None:
            return []
        lease = {"lease_expires_at": session.clock() + values["lease_ttl"]}
        renewed = changed(row, **lease, leased_at=_true_time(session), renewed_by=values["owner"])
        session.changes().chunks[row["run_key"], row["chunk_index"]] = renewed
        return [(row["chunk_index"],)]

    def query_guard_chunk(self, session: Session, values: Values) -> Rows:
        row = session.chunk((values["run_key"], values["chunk_index"]))
        if row is None or not self._holds("guard_chunk", row, values, session.clock()):
            return []
        return [(row["attempt"],)]

    def query_complete_chunk(self, session: Session, values: Values) -> Waiting:
        # The campaign is read by the statement's snapshot, also where the chunk's row had to be waited for.
        campaign = session.campaign(values["run_key"], session.database.committed)
        fits = campaign is not None and self._holds(
            "complete_chunk: campaign", campaign, values, session.clock()
        )
        row = yield from self._lock_chunk("complete_chunk", session, values)
        if row is None or not fits:
            raise NotNullViolationError
        row = changed(
            row,
            status="committed",
            revision=row["revision"] + 1,
            lease_expires_at=None,
            error_code=None,
            error_message=None,
            finished_at=session.clock(),
            **{name: values[name] for name in ("rows_extracted", "rows_loaded", "content_digest")},
        )
        session.changes().chunks[row["run_key"], row["chunk_index"]] = row
        told = {"event_kind": "committed", "event_detail": values["detail"]}
        return _event(session, told, row, owner=row["owner"])

    def _lock_chunk(self, query: str, session: Session, values: Values) -> Any:
        """Find the row by the statement's snapshot, wait for its lock, and ask its newest version again."""
        key = (values["run_key"], values["chunk_index"])
        row = session.chunk(key)
        if row is None or not self._holds(query, row, values, session.clock()):
            return None
        yield from _row_lock(session, ("chunk", *key))
        newest = session.chunk(key)
        if newest is not row and not (newest and self._holds(query, newest, values, session.clock())):
            return None
        return newest

    # The slice.

    def query_slice(self, session: Session, values: Values) -> Waiting:
        """Delete a slice by its days; rows that somebody else deletes meanwhile are waited for and left out."""
        _touch(session, values)
        snapshot = session.database.committed
        for number, row in snapshot.rows.items():
            if values["lower"] <= row.day < values["upper"]:
                yield from _row_lock(session, ("row", number))
                if number in session.database.committed.rows:
                    session.changes().deleted.add(number)
        return []

    def query_copy_first(self, session: Session, values: Values) -> Rows:
        """Half of the rows of a COPY that has begun: from now on the server waits for its client without a bound."""
        _touch(session, values)
        session.copying = True
        return _insert(session, values, part=1)

    def query_copy_last(self, session: Session, values: Values) -> Rows:
        session.copying = False
        return _insert(session, values, part=2)


def _row_lock(session: Session, row: tuple[Any, ...]) -> Waiting:
    while not session.take_row(row):
        yield lambda: session.may_take_row(row)
    return []


def _true_time(session: Session) -> datetime:
    return session.database.now()


def _claimed(session: Session, values: Values) -> Row:
    now = session.clock()
    columns = ("run_key", "chunk_index", "status", "revision", "round", "attempt", "owner")
    bounds = ("idempotency_key", "lower_bound", "upper_bound", "dag_run_id")
    return {name: values[name] for name in (*columns, *bounds)} | {
        "lease_expires_at": now + values["lease_ttl"],
        "started_at": now,
        # No columns, but for the invariants: at which moment of the database the lease was given, and by whom renewed.
        "leased_at": _true_time(session),
        "renewed_by": values["owner"],
    }


def _event(session: Session, values: Values, row: Values, *, owner: str | None = None) -> Rows:
    session.database.events_written += 1
    session.changes().events.append(
        {
            "event_id": session.database.events_written,
            "at": session.clock(),
            "run_key": row["run_key"],
            "kind": values["event_kind"],
            "round": row["round"],
            "revision": row["revision"],
            "chunk_index": row.get("chunk_index"),
            "attempt": row.get("attempt"),
            "owner": owner,
            "detail": values["event_detail"],
        }
    )
    return DONE


def _touch(session: Session, values: Values) -> None:
    session.changes().loads = (values["run_key"], values["chunk_index"])
    session.tell_of_change()


def _insert(session: Session, values: Values, *, part: int) -> Rows:
    wrote, database = session.changes(), session.database
    for day in range(values["lower"], values["upper"]):
        database.rows_written += 1
        wrote.inserted[database.rows_written] = TargetRow(
            day,
            part,
            *(values[name] for name in ("run_key", "chunk_index", "round", "revision", "owner")),
        )
    return []
