"""Every query of `ledger.sql`, and what a sink does to its slice, executed over the simulated database, under the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dpone_runtime.adapters.sql.queries import Statement
from tests.simulation.database import EVER, Session, Waiting
from tests.simulation.reading import Rows, Values
from tests.simulation.rows import CAMPAIGN_COLUMNS, CHUNK_COLUMNS
from tests.simulation.table_statements import TableStatements, required
from tests.simulation.tables import NotNullViolationError, Row, TargetRow, changed
from tests.simulation.weakening import SOUND, Weakening

FEW_SLOTS = 2
"""Of those in which commits are counted, so that a few chunks meet in one."""
DONE: Rows = [(1,)]
_NO_LOCKS: Mapping[int, str] = {}
_MOVES = (
    *("status", "revision", "round", "reason", "requested_by", "loaded_columns", "target_relation"),
    *("shadow_relation", "shadow_name", "object_contract"),
)
"""What a change of a campaign writes."""


class Statements(TableStatements):
    """The executor of a database. A weakening leaves out what it names; `purposes` says which lock is for what."""

    def __init__(self, weakening: Weakening = SOUND, purposes: Mapping[int, str] = _NO_LOCKS) -> None:
        super().__init__(weakening)
        missing, unshared = weakening.locks, weakening.locks | weakening.shared_locks
        self._no_locks = {lock for lock, purpose in purposes.items() if purpose in missing}
        self._no_shared_locks = {lock for lock, purpose in purposes.items() if purpose in unshared}
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

    def query_savepoint(self, session: Session, _values: Values) -> Rows:
        session.set_savepoint()
        return []

    def query_rollback_to_savepoint(self, session: Session, _values: Values) -> Rows:
        session.roll_back_to_savepoint()
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

    def query_clock(self, session: Session, _values: Values) -> Rows:
        return [(session.clock(),)]

    def query_fence_take(self, session: Session, values: Values) -> Rows:
        return [(self.weakening.fence or session.take(values["lock"], of_session=True), 0)]

    def query_fence_held(self, session: Session, values: Values) -> Rows:
        return [(self.weakening.fence or session in session.database.advisory.get(values["lock"], {}),)]

    def query_chunk_lock_holders(self, session: Session, values: Values) -> Rows:
        holders = [
            found for found in session.database.advisory.get(values["lock"], {}) if found is not session
        ]
        if self.weakening.endings:
            return []
        for holder in holders:
            holder.signalled = True
        return [(True,) for _ in holders]

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
        row = changed(newest, **{name: values[name] for name in _MOVES}, updated_at=session.clock())
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
        carried = 0
        for found in self._found("carry_chunks", session, values):
            key = (found["run_key"], found["chunk_index"])
            yield from _row_lock(session, ("chunk", *key))
            row = session.chunk(key)
            assert row is not None
            if row is not found and not self._holds("carry_chunks", row, values, session.clock()):
                continue
            row = changed(row, round=values["round"], revision=row["revision"] + 1)
            session.changes().chunks[key] = row
            carried += 1
            _event(session, {"event_kind": "carried", "event_detail": None}, row, owner=row["owner"])
        if carried:
            yield from self._count(session, (values["run_key"], values["round"], 0), carried)
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
        slot = values["slot"] % FEW_SLOTS
        yield from self._count(session, (values["run_key"], values["round"], slot), 1)
        told = {"event_kind": "committed", "event_detail": values["detail"]}
        return _event(session, told, row, owner=row["owner"])

    def _count(self, session: Session, tally: tuple[str, int, int], chunks: int) -> Waiting:
        if not self.weakening.tallies:
            yield from _row_lock(session, ("tally", *tally))
            session.changes().tallies[tally] = session.tally(tally) + chunks
        return []

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
        snapshot, relation = session.database.committed, required(session, values["table"])
        for number, row in snapshot.rows.items():
            if row.relation == relation and values["lower"] <= row.day < values["upper"]:
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
    wrote, database, relation = session.changes(), session.database, required(session, values["table"])
    for day in range(values["lower"], values["upper"]):
        database.rows_written += 1
        wrote.inserted[database.rows_written] = TargetRow(
            relation,
            day,
            part,
            *(values[name] for name in ("run_key", "chunk_index", "round", "revision", "owner")),
        )
    return []
