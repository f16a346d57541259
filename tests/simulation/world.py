"""The simulated world: a database, processes with their lanes, and every decision that a schedule is made of."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from typing import Protocol

from dpone_contract.chunk_kinds.dates import DateChunks
from dpone_contract.chunk_plan import ChunkPlan, RunKey, plan_chunks
from dpone_contract.errors import (
    CampaignDriftError,
    PublicationMismatchError,
    PublicationRefusedError,
    TableMissingError,
)
from dpone_contract.manifest import RetryPolicy
from dpone_contract.step import parse_step
from dpone_runtime.adapters.postgres.batches import lock_key
from dpone_runtime.adapters.sql.ledger import SqlLedger
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.local_run import local_data_scope
from dpone_runtime.services.open_campaign import OpenedCampaign, begin_round, cancel_campaign
from dpone_runtime.services.publish_campaign import Publication
from dpone_runtime.services.run_campaign import CampaignRun, RunTools, Selection, run_campaign
from tests.campaign_factories import FIRST_DAY, TARGET, make_campaign
from tests.simulation.database import EVER, Database, Session
from tests.simulation.decisions import Decision, Kind, Load, Setup, Start
from tests.simulation.invariants import Expectation, watch
from tests.simulation.lanes import Lane, SimulatedLanes
from tests.simulation.preparation import (
    LIVE,
    NOTHING_TO_LOOK_AT,
    Prepared,
    prepare,
    shadow_of,
    swap_of,
)
from tests.simulation.processes import Process
from tests.simulation.reading import SCHEMA
from tests.simulation.rows import is_over
from tests.simulation.session import SimulatedSession
from tests.simulation.silent_observer import SilentObserver
from tests.simulation.statements import Statements
from tests.simulation.strangers import do_by_hand
from tests.simulation.tables import BY_HAND, Row
from tests.simulation.violations import ViolationError
from tests.simulation.weakening import SOUND, Weakening

LAST_RUNS = 4
"""How many runs without a fault a campaign may take to be complete, whatever has happened to it."""
MOST_STEPS = 20_000
OF_TABLES = (CampaignDriftError, PublicationMismatchError, PublicationRefusedError, TableMissingError)
"""Why a campaign cannot be published whose tables are not what they should be."""

LONGEST = timedelta(hours=2).total_seconds()


class Actor(Protocol):
    """Whoever the scheduler may let go on."""

    name: str

    def ready(self) -> bool:
        """Whether a step would do something."""

    def step(self) -> None:
        """Go on to the next place where others may come in between."""

    def timer(self) -> float:
        """When it becomes ready though nobody does anything."""


class World:
    """All that there is. `told` is a readable account, kept where `tell` is set."""

    def __init__(self, setup: Setup, weakening: Weakening = SOUND, *, tell: bool = False) -> None:
        self.setup = setup
        statements = Statements(weakening, lock_purposes(setup))
        self.database = Database(statements.execute, own_clock=weakening.own_clock)
        watch(self.database, Expectation(setup.max_active))
        self.processes: dict[str, Process] = {}
        self.lanes: dict[str, Lane] = {}
        self.told: list[str] = []
        self._tell = tell
        self._never_woken: set[str] = set()

    # Looking.

    def actors(self) -> list[Actor]:
        """Everybody who may have something to do."""
        self.database.sessions = [session for session in self.database.sessions if not session.dead]
        processes = [process for process in self.processes.values() if process.at_work()]
        lanes = [lane for lane in self.lanes.values() if not lane.dead]
        return [*self.database.sessions, *processes, *lanes]

    def ready(self) -> list[Actor]:
        """Who has something to do."""
        return [actor for actor in self.actors() if actor.ready()]

    def next_timer(self) -> float:
        """When the next one wakes up by itself."""
        return min((actor.timer() for actor in self.actors()), default=EVER)

    def _find(self, name: str) -> Session | Process | Lane | None:
        found = self.processes.get(name) or self.lanes.get(name)
        return found or next((one for one in self.database.sessions if one.name == name), None)

    # Deciding.

    def apply(self, decision: Decision) -> None:
        """Do one thing; nothing where it does not apply, so that decisions may be left out of a schedule.

        Errors: ViolationError.
        """
        if self._tell:
            self.told.append(str(decision))
        match decision.what:
            case "start":
                assert decision.start is not None
                self.start(decision.start)
            case "advance":
                self.database.elapsed += decision.seconds
            case _:
                actor = self._find(decision.actor)
                if isinstance(actor, Session):
                    self._with_session(decision.what, actor)
                elif actor is not None:
                    self._with_process(decision.what, actor)

    def _with_session(self, what: str, session: Session) -> None:
        match what:
            case "step" if session.ready():
                self._step(session)
            case "end at once" if session.signalled:
                session.end()
            case "lose the answer of":
                session.lose_answer()
            case "freeze" | "wake":
                session.slow = what == "freeze"

    def _with_process(self, what: str, process: Process | Lane) -> None:
        match what:
            case "step" if process.ready():
                self._step(process)
            case "kill" | "vanish":
                process.kill(host_vanished=what == "vanish")
            case "freeze" | "stop for ever" if process.frozen_at is None and not process.dead:
                process.frozen_at = self.database.elapsed
                if what == "stop for ever":
                    self._never_woken.add(process.name)
            case "wake" if process.name not in self._never_woken:
                process.frozen_at = None
            case "interrupt" if isinstance(process, Process):
                process.stop_requested = True
            case "poison" if isinstance(process, Lane):
                process.poisoned = True
            case _ if isinstance(process, Lane):
                self._with_pipe(what, process)

    def _with_pipe(self, what: str, lane: Lane) -> None:
        match what:
            case "hold the words of":
                lane.words.hold(self.database.elapsed)
            case "hold the orders of":
                lane.orders.hold(self.database.elapsed)
            case "let through":
                lane.words.let_through()
                lane.orders.let_through()
            case "cut the words of":
                lane.words.cut = True
            case "cut the orders of":
                lane.orders.cut = True
            case "garble the words of":
                lane.words.garbled = True

    def _step(self, actor: Actor) -> None:
        if not self._tell:
            actor.step()
        else:
            before = len(self.database.events)
            ran = len(actor.ran) if isinstance(actor, Session) else 0
            try:
                actor.step()
            finally:
                self._account(actor, ran, before)
        if isinstance(actor, Process) and actor.crash is not None:
            raise ViolationError("crash", f"{actor.name} ended with {actor.crash!r}") from actor.crash
        if isinstance(actor, Process) and isinstance(actor.result, CampaignRun):
            self._require_true_word(actor.name, actor.result)

    def _require_true_word(self, name: str, run: CampaignRun) -> None:
        """A run does not say that the tables of a campaign are wrong which is published, be it by another run."""
        told, opened = run.unpublished, run.opened.campaign
        if not isinstance(told, OF_TABLES):
            return
        for event in self.database.events:
            if (event["kind"], event["run_key"], event["round"]) == (
                "published",
                opened.run_key,
                opened.round,
            ):
                raise ViolationError("untrue", f"{name} says of a campaign that is published: {told}")

    def _account(self, actor: Actor, ran: int, before: int) -> None:
        if isinstance(actor, Session):
            self.told[-1] = f"{actor.name}: {', '.join(actor.ran[ran:]) or 'goes on'}"
            if actor.dead:
                self.told[-1] += ", ends"
        elif isinstance(actor, Process) and actor.ended:
            self.told[-1] += f", ends: {actor.refusal or actor.crash or 'done'}"
        for event in self.database.events[before:]:
            chunk = (
                f" chunk {event['chunk_index']} attempt {event['attempt']}" if event["chunk_index"] else ""
            )
            self.told.append(f"    => {event['run_key']}{chunk} {event['kind']}, round {event['round']}")

    def start(self, start: Start) -> Process:
        """Start a process; a second one of a name is the first."""
        if start.name not in self.processes:
            self.processes[start.name] = Process(
                self.database,
                start.name,
                lambda process: self._act(process, start),
                start.clocks,
            )
        return self.processes[start.name]

    def _act(self, process: Process, start: Start) -> object:
        load = self.setup.loads[start.load]
        if start.kind is Kind.STRANGER:
            table = shadow_of(load.run_key) if start.to_shadow else LIVE
            do_by_hand(process, start.deed, str(table), start.held)
            return None
        plan, wanted = _planned(load)
        ledger = SqlLedger(SimulatedSession(process.connect, process.wait), SCHEMA)
        if start.kind is Kind.CANCEL:
            campaign = ledger.read_campaign(plan.run_key)
            return campaign and cancel_campaign(ledger, campaign, reason="stop", by=None)
        found = Prepared(wanted, NOTHING_TO_LOOK_AT)
        if self.setup.exchanges:
            restart = start.kind is Kind.RESTART
            found = prepare(process, ledger, wanted, swaps=load.swaps, restart=restart)
        wanted = found.wanted
        if start.kind is Kind.RESTART:
            return begin_round(ledger, wanted, reason="again", only=start.only)
        mapped = start.kind is Kind.ITEM
        tools = RunTools(
            ledger=ledger,
            lanes=lambda: SimulatedLanes(process, load.mode, found.table, self._add_lane),
            observer=SilentObserver(),
            clock=process.clock,
            stop_requested=lambda: process.stop_requested,
            opened=_ignore,
            publication=_publication,
        )
        selection = Selection(
            first=start.first,
            last=start.last or plan.chunks_total,
            mapped=mapped,
            max_active=self.setup.max_active,
            lane_count=start.lanes,
            policy=RetryPolicy.FAILED_ONLY if start.failed_only else RetryPolicy.NON_COMMITTED,
            dag_run_id=None,
            reason=start.reason,
            stop_after_failures=start.stop_after_failures,
        )
        return run_campaign(tools, plan, wanted, selection)

    def _add_lane(self, lane: Lane) -> None:
        self.lanes[lane.name] = lane

    # The end: no more faults.

    def settle(self) -> None:
        """Let everybody come to an end, then run each campaign until it is complete.

        Errors: ViolationError, also where something is stuck.
        """
        for session in self.database.sessions:
            session.slow = False
        stopped: list[Process | Lane] = [*self.processes.values(), *self.lanes.values()]
        for one in stopped:
            if one.name not in self._never_woken:
                one.frozen_at = None
        for lane in self.lanes.values():
            lane.orders.clear_faults()
            lane.words.clear_faults()
        self._run_out()
        for number in range(1, LAST_RUNS + 1):
            left = self._left()
            if not left:
                self._run_once_more()
                return
            for load in left:
                self.start(Start(f"last run {number} of {load}", Kind.ITEM, load, lanes=1, reason="go on"))
                self._run_out()
        if left := self._left():
            raise ViolationError("stuck", self._why_stuck(left))

    def _run_once_more(self) -> None:
        """A run of what is complete changes nothing, as where somebody clears its tasks."""
        found, before = self.database.committed, len(self.database.events)
        for number, load in enumerate(self.setup.loads):
            row = found.campaigns.get(load.run_key)
            if row and is_over(row) and row["status"] != "closed" and not load.templated:
                self.start(Start(f"once more {number}", Kind.ITEM, number))
                self._run_out()
        if found is not self.database.committed or before != len(self.database.events):
            raise ViolationError("once more", "a run of a complete campaign has changed something")

    def _left(self) -> list[int]:
        found = self.database.committed.campaigns
        return [
            number
            for number, load in enumerate(self.setup.loads)
            if load.run_key in found and not is_over(row := found[load.run_key]) and not self._is_lost(row)
        ]

    def _is_lost(self, row: Row) -> bool:
        """Whether a campaign's tables are not what they were, so that it is refused for ever."""
        names, shadow = self.database.committed.names, row["shadow_relation"]
        by_hand = {one.relation for one in self.database.committed.rows.values() if one.run_key == BY_HAND}
        replaced = names.get(row["target_name"]) != row["target_relation"]
        return replaced or (
            shadow is not None and (names.get(row["shadow_name"]) != shadow or shadow in by_hand)
        )

    def _why_stuck(self, left: list[int]) -> str:
        keys = ", ".join(self.setup.loads[number].run_key for number in left)
        said = [str(process.refusal) for process in self.processes.values() if process.refusal]
        return f"{keys} not complete after {LAST_RUNS} runs without a fault; the last one said: {said[-1:]}"

    def _run_out(self) -> None:
        began = self.database.elapsed
        for _ in range(MOST_STEPS):
            ready = self.ready()
            for actor in ready:
                if actor.ready():
                    self._told_step(actor)
            if ready:
                continue
            alive = [one.name for one in self.processes.values() if one.at_work()]
            if not alive:
                return
            until = self.next_timer()
            if until == EVER or self.database.elapsed - began > LONGEST:
                raise ViolationError("stuck", f"{', '.join(alive)} never ends")
            self.apply(Decision("advance", seconds=max(until - self.database.elapsed, 1e-6)))
        raise ViolationError("stuck", f"nothing ends within {MOST_STEPS} steps")

    def _told_step(self, actor: Actor) -> None:
        if self._tell:
            self.told.append(f"step {actor.name}")
        self._step(actor)

    def close(self) -> None:
        """Unwind every process that is left."""
        for process in self.processes.values():
            process.kill()


@lru_cache(maxsize=256)
def _planned(load: Load) -> tuple[ChunkPlan, Campaign]:
    first = FIRST_DAY + timedelta(days=load.begins)
    last: date = first + timedelta(days=load.chunks * load.days - 1)
    spec = DateChunks("flight_date", first, last, parse_step(f"{load.days}d"))
    plan = plan_chunks(spec, RunKey(load.run_key))
    return plan, make_campaign(plan, inner_mode=load.mode.value, templated=load.templated)


def lock_purposes(setup: Setup) -> dict[int, str]:
    """Say what each lock is for that a protocol over these campaigns takes."""
    found = {
        lock_key("target", TARGET.relation): "target",
        lock_key(*local_data_scope(TARGET.relation)): "runs over a folder",
    }
    for load in setup.loads:
        scope = (SCHEMA, load.run_key)
        found |= {lock_key(purpose, *scope): purpose for purpose in ("transition", "close", "fence")}
        found |= {lock_key("chunk", *scope, index): "chunk" for index in range(1, load.chunks + 1)}
    return found


def _publication(campaign: Campaign) -> Publication | None:
    swap = swap_of(campaign)
    return None if swap is None else Publication(swap, lambda _line: None)


def _ignore(_opened: OpenedCampaign) -> None:
    """Nobody wants to be told."""
