"""The ledger port over any SQL session: which statements make a transition, and in which order they lock."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import TypeVar

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import CampaignBusyError, ChunkBusyError, LedgerMissingError, PublicationBusyError
from dpone_runtime.adapters.sql.ledger_reader import LedgerReader
from dpone_runtime.adapters.sql.other_campaigns import add_committed, campaigns_on_target, require_same_table
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.adapters.sql.rows import (
    Row,
    campaign_from_row,
    record_from_row,
    values_of_campaign,
    values_of_event,
    values_of_record,
)
from dpone_runtime.adapters.sql.session import LockTimeoutError, SqlSession
from dpone_runtime.domain.campaign import TableIdentity
from dpone_runtime.domain.capabilities import StateCapabilities
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.claim import LedgerView
from dpone_runtime.domain.event import Event
from dpone_runtime.domain.lease import LEASE_TTL
from dpone_runtime.domain.local_run import local_data_scope
from dpone_runtime.domain.publication import Receipts, ShadowContent, Swap
from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest
from dpone_runtime.ports.ledger import (
    Change,
    Decision,
    Fence,
    OpeningDecision,
    OpeningView,
    OtherCampaign,
    PublicationDecision,
    PublicationView,
    StaleRevisionError,
)

T = TypeVar("T")

OPENING_WAIT = timedelta(seconds=30)
TRANSITION_WAIT = timedelta(seconds=15)
PUBLICATION_WAIT = timedelta(seconds=15)
SWAP_TRIES = 15
"""How often a swap tries to have both tables, with a pause between two tries in which the ledger's locks are free."""

RENEWAL_WAIT = timedelta(seconds=5)
TABLES = frozenset({"campaigns", "chunks", "tallies", "events", "shadows"})
"""What a ledger has to have; the last are columns of the first."""


class SqlLedger(LedgerReader):
    """`CampaignLedger` over a `SqlSession`. `lease_ttl` is an argument for tests; runs use the default."""

    def __init__(self, session: SqlSession, schema: str, lease_ttl: timedelta = LEASE_TTL) -> None:
        super().__init__(session)
        self._schema = schema
        self._lease_ttl = lease_ttl

    def capabilities(self) -> StateCapabilities:
        return self._session.capabilities()

    def authority(self) -> dict[str, str]:
        return {
            "dialect": self.capabilities().dialect,
            "schema": self._schema,
            "campaigns": "__dpone__backfill_campaigns",
            "chunks": "__dpone__backfill_chunks",
            "tallies": "__dpone__backfill_tallies",
            "events": "__dpone__backfill_events",
        }

    def ensure_schema(self) -> None:
        if TABLES - self._session.ledger_tables():
            self._session.create_ledger()

    def exists(self) -> bool:
        found = self._session.ledger_tables()
        missing = ", ".join(sorted(TABLES - found))
        if found and missing:
            raise LedgerMissingError(
                f"the ledger in schema {self._schema} is not whole, or an earlier version made it: it has no {missing}",
                where=f"ledger in schema {self._schema}",
                next_step="let a role that may create tables run what `dpone state ddl MANIFEST` prints, or begin a run, which does",
            )
        return not missing

    def transition(self, run_key: RunKey, chunk_index: int | None, decide: Decision) -> Change | None:
        return self._transition(run_key, chunk_index, decide, ())

    def _transition(
        self, run_key: RunKey, chunk_index: int | None, decide: Decision, further_locks: tuple[Statement, ...]
    ) -> Change | None:
        query = self._queries.statement
        opening = (
            *self._session.begin_statements(TRANSITION_WAIT),
            query("lock", lock=self._lock("transition", run_key)),
            *further_locks,
        )
        reading = (
            query("read_campaign", run_key=run_key),
            query("read_chunk", run_key=run_key, chunk_index=chunk_index or 0),
            query("count_live", run_key=run_key),
            query("clock"),
        )
        try:
            rows = self._session.batch((*opening, *reading))[len(opening) :]
        except LockTimeoutError as error:
            raise ChunkBusyError(
                f"the ledger of campaign {run_key} was locked for {TRANSITION_WAIT.seconds} s",
                where=f"campaign {run_key}",
                next_step="look for a long transaction in the ledger's schema",
            ) from error
        view = LedgerView(
            campaign=campaign_from_row(rows[0][0]) if rows[0] else None,
            chunk=record_from_row(rows[1][0]) if rows[1] else None,
            live_leases=rows[2][0][0],
            now=rows[3][0][0],
        )
        change = self._decided(lambda: decide(view))
        return self._finish(change, had_chunk=view.chunk is not None, had_campaign=view.campaign is not None)

    def _decided(self, decide: Callable[[], T]) -> T:
        """Take a decision; a refusal undoes the transaction that it was taken in."""
        try:
            return decide()
        except LockTimeoutError:
            raise  # it is undone already
        except BaseException:
            self._session.batch((self._queries.statement("rollback"),))
            raise

    def open_campaign(
        self, run_key: RunKey, target: TableIdentity, decide: OpeningDecision, *, with_committed: bool = False
    ) -> Change | None:
        query = self._queries.statement
        opening = (
            *self._session.begin_statements(OPENING_WAIT),
            # The target's lock alone is not keyed with the ledger's schema: two ledgers may share a target.
            query("lock", lock=self._session.lock_value("target", target.relation)),
            # What a run over a folder has left at work on the target shares this one, and comes to its end first.
            query("lock", lock=self._session.lock_value(*local_data_scope(target.relation))),
            query("lock", lock=self._lock("transition", run_key)),
        )
        reading = (query("read_campaign", run_key=run_key), query("find_ledgers"))
        names = query("relations_of_name", name=target.name)
        try:
            rows = self._session.batch((*opening, *reading, names))[len(opening) :]
        except LockTimeoutError as error:
            what = f"campaign {run_key} could not be opened: its locks were held for {OPENING_WAIT.seconds} s"
            step = "run it again; if it repeats, look for a long transaction on the target, or a run over a local_file ledger"
            raise _busy(run_key, what, step) from error
        self._decided(lambda: require_same_table(run_key, target, {row[0] for row in rows[2]}))
        campaign = campaign_from_row(rows[0][0]) if rows[0] else None
        others = self._others(run_key, target, rows[1], over=with_committed)
        if with_committed:
            others = add_committed(self._session, others)
        change = self._decided(lambda: decide(OpeningView(campaign, others)))
        begins_round = change is not None and campaign is not None and change.event.round != campaign.round
        locks = (query("lock", lock=self._lock("close", run_key)),) if begins_round else ()
        return self._finish(change, had_chunk=False, had_campaign=campaign is not None, locks=locks)

    def _others(
        self, run_key: RunKey, target: TableIdentity, ledgers: list[Row], *, over: bool
    ) -> tuple[OtherCampaign, ...]:
        schemas = tuple(row[0] for row in ledgers)
        found = campaigns_on_target(self._session, target, schemas, self._schema, over=over)
        return tuple(other for other in found if other.foreign or other.campaign.run_key != run_key)

    def close_campaign(self, run_key: RunKey, decide: Decision) -> Change | None:
        self._end_all_holders(run_key)
        close_lock = self._queries.statement("lock", lock=self._lock("close", run_key))
        change = self._transition(run_key, None, decide, (close_lock,))
        self._end_all_holders(run_key)
        return change

    def publish(
        self,
        run_key: RunKey,
        swap: Swap,
        decide: PublicationDecision,
        *,
        fenced: bool,
        told: Callable[[str], None] = lambda _line: None,
    ) -> Change | None:
        query, session = self._queries.statement, self._session
        try:
            self._begin_publication(run_key, fenced=fenced)
            while (built := self._decided(lambda: session.build_missing_index(swap))) is not None:
                # One a transaction: what is built need not be built again.
                session.batch((query("commit"),))
                told(f"  index {built} is built")
                self._begin_publication(run_key, fenced=fenced)
            content = self._decided(lambda: session.hold_shadow(swap))
            told(f"  {content.rows:,} rows are counted")
            change = self._exchanged(run_key, swap, content, decide, told)
        except LockTimeoutError as error:
            raise PublicationBusyError(
                f"the tables of campaign {run_key}, or its ledger, were held by others for {PUBLICATION_WAIT.seconds} s",
                where=f"table {swap.live}",
                next_step="look for long transactions on them, then run this again; no row is moved for it",
            ) from error
        return self._finish(change, had_chunk=False, had_campaign=True, wrote_before=True)

    def _begin_publication(self, run_key: RunKey, *, fenced: bool) -> None:
        """Begin a transaction that has the campaign's fence for its length, unless the caller holds it."""
        lock = self._lock("fence", run_key)
        fence = () if fenced else (self._queries.statement("lock", lock=lock),)
        try:
            self._session.batch((*self._session.begin_statements(PUBLICATION_WAIT), *fence))
        except LockTimeoutError as error:
            # A run that is stopped for ever keeps its fence: the next try finds it free, as the next internal run would.
            self._read("end_silent_run", lock=lock, run_key=run_key, silence=LEASE_TTL)
            what = f"campaign {run_key} is being published, or is held by another run"
            step = "wait until that run has ended, then run this again; nothing needs to be deleted"
            raise _busy(run_key, what, step) from error

    def _exchanged(
        self,
        run_key: RunKey,
        swap: Swap,
        content: ShadowContent,
        decide: PublicationDecision,
        told: Callable[[str], None],
    ) -> Change | None:
        """Decide under the ledger's locks, and exchange the tables; while others hold one of those, nobody waits for these.

        Errors: PublicationBusyError where others hold a table for longer than is useful; LockTimeoutError.
        """
        query, session = self._queries.statement, self._session
        locks = (
            query("lock", lock=session.lock_value("target", swap.live_relation)),
            query("lock", lock=self._lock("transition", run_key)),
            query("lock", lock=self._lock("close", run_key)),
        )
        reading = (query("read_campaign", run_key=run_key), query("receipts", run_key=run_key))
        for number in range(1, SWAP_TRIES + 1):
            rows = session.batch((query("savepoint"), *locks, *reading))[1 + len(locks) :]
            campaign = campaign_from_row(rows[0][0]) if rows[0] else None
            view = PublicationView(campaign, Receipts(*rows[1][0]), content)
            change = self._decided(partial(decide, view))
            held = self._decided(lambda: _held_by_others(session, swap)) if change is not None else None
            if held is None:
                return change
            if number == SWAP_TRIES:
                session.batch((query("rollback"),))
                raise held
            if number == 1:
                told(f"  waiting: {held.message}")
            session.batch((query("rollback_to_savepoint"), query("pause")))
        return None

    def _end_all_holders(self, run_key: RunKey) -> None:
        for (index,) in self._read("claimed_chunks", run_key=run_key):
            self.end_holders(run_key, index)

    def _finish(
        self,
        change: Change | None,
        *,
        had_chunk: bool,
        had_campaign: bool,
        locks: tuple[Statement, ...] = (),
        wrote_before: bool = False,
    ) -> Change | None:
        query = self._queries.statement
        if change is None:
            self._session.batch((query("rollback"),))
            return None
        writes: list[Statement] = []
        if change.campaign is not None:
            name = "update_campaign" if had_campaign else "insert_campaign"
            writes.append(query(name, **values_of_campaign(change.campaign, change.event_of_campaign)))
        if change.chunk is not None:
            values = values_of_record(change.chunk, change.event)
            name = "end_chunk"
            if change.chunk.status is ChunkStatus.RUNNING:
                name = "claim_chunk" if had_chunk else "insert_chunk"
                values["lease_ttl"] = self._lease_ttl
            writes.append(query(name, **values))
        if not self._write(locks, writes, self._carrying(change), wrote_before=wrote_before):
            raise StaleRevisionError
        return change

    def _carrying(self, change: Change) -> tuple[Statement, ...]:
        if change.campaign is None or change.reloaded is None:
            return ()
        statement = self._queries.statement(
            "carry_chunks",
            run_key=change.campaign.run_key,
            round=change.campaign.round,
            reloaded=json.dumps(sorted(change.reloaded)),
        )
        return (statement,)

    def _write(
        self,
        locks: tuple[Statement, ...],
        writes: list[Statement],
        carrying: tuple[Statement, ...],
        *,
        wrote_before: bool,
    ) -> bool:
        """Write and commit; False where a row's revision had moved, and then nothing is written.

        One write goes together with its COMMIT, since one that matched no row has written nothing. Of two, either may match
        alone, and a transaction may have written before: they are looked at before. `carrying` follows what has matched, and may
        match nothing itself.
        """
        commit = self._queries.statement("commit")
        try:
            if len(writes) == 1 and not carrying and not wrote_before:
                return bool(self._session.batch((*locks, *writes, commit))[len(locks)])
            matched = all(self._session.batch((*locks, *writes))[len(locks) :])
            ending = (*carrying, commit) if matched else (self._queries.statement("rollback"),)
            self._session.batch(ending)
            return matched
        except LockTimeoutError as error:
            raise ChunkBusyError(
                f"a row or lock of the ledger was held for {TRANSITION_WAIT.seconds} s or more",
                where=f"ledger in schema {self._schema}",
                next_step="look for a long transaction in the ledger's schema",
            ) from error

    def add_event(self, event: Event) -> None:
        self._read("insert_event", **values_of_event(event))

    def others(self, run_key: RunKey, target: TableIdentity) -> tuple[OtherCampaign, ...]:
        return self._others(run_key, target, self._read("find_ledgers"), over=False)

    def renew(self, record: ChunkRecord) -> bool:
        # Shared: renewals do not wait for one another, but a claim waits for one whose COMMIT is under way. It would
        # else take the lease for lapsed, and the chunk, or a place within max_active, from somebody who renewed in time.
        begin = (
            *self._session.begin_statements(RENEWAL_WAIT),
            self._queries.statement("lock_shared", lock=self._lock("transition", record.run_key)),
        )
        renewal = self._queries.statement(
            "renew_chunk",
            run_key=record.run_key,
            chunk_index=record.chunk_index,
            revision=record.revision,
            owner=record.owner,
            lease_ttl=self._lease_ttl,
        )
        try:
            return bool(self._session.batch((*begin, renewal, self._queries.statement("commit")))[len(begin)])
        except LockTimeoutError:
            # Somebody decides just now, or holds the row, perhaps the commit itself: no loss, the next renewal tells.
            return True

    def record_commit(self, request: LoadRequest, receipt: LoadReceipt) -> None:
        """The data transaction has turned the chunk's row."""

    def end_holders(self, run_key: RunKey, chunk_index: int) -> int:
        return len(self._read("chunk_lock_holders", lock=self._lock("chunk", run_key, chunk_index)))

    def close(self) -> None:
        self._session.close()

    def fence(self, run_key: RunKey) -> AbstractContextManager[Fence]:
        return self._session.fence(self._lock("fence", run_key), run_key)

    def _lock(self, purpose: str, *scope: object) -> object:
        return self._session.lock_value(purpose, self._schema, *scope)


def _held_by_others(session: SqlSession, swap: Swap) -> PublicationBusyError | None:
    """Exchange the tables; where others hold one, give the error that says so."""
    try:
        session.swap_tables(swap)
    except PublicationBusyError as error:
        return error
    return None


def _busy(run_key: RunKey, what: str, step: str) -> CampaignBusyError:
    return CampaignBusyError(what, where=f"campaign {run_key}", next_step=step, run_key=run_key)
