"""Many schedules of the protocol, none of which may break what the ledger promises; one of them again; and what a failing one tells.

DPONE_TEST_SIMULATION_SCHEDULES says how many, DPONE_TEST_SIMULATION_SEED which one `test_one_seed` runs.
"""

import os
from collections import Counter

import pytest

from dpone_contract.errors import (
    CampaignBusyError,
    CampaignStoppedError,
    ChunkBusyError,
    DatabaseFailedError,
    LaneLostError,
    OverlapError,
    PublicationBusyError,
    PublicationMismatchError,
    PublicationRefusedError,
)
from dpone_runtime.ports.lanes import LaneEventKind
from tests.campaign_factories import TARGET
from tests.simulation.decisions import Kind, Load, Setup, Start
from tests.simulation.lanes import SimulatedLanes
from tests.simulation.search import Failed, find_failure, replay, run_seed, search, shrink, told
from tests.simulation.stories import FAMILIES, FAULTS, Family, decisions, family_of, tell_story
from tests.simulation.strangers import Deed
from tests.simulation.tables import BY_HAND
from tests.simulation.weakening import Weakening
from tests.simulation.world import World

SCHEDULES = int(os.environ.get("DPONE_TEST_SIMULATION_SCHEDULES", "20000"))
SEED = int(os.environ.get("DPONE_TEST_SIMULATION_SEED", "0"))
NO_CHUNK_LOCK = Weakening(locks=frozenset({"chunk"}))


def report(failed: Failed | None) -> None:
    """Fail with the shortest schedule that still breaks the same."""
    if failed is not None:
        pytest.fail(told(shrink(failed)), pytrace=False)


@pytest.mark.timeout(1200)  # two minutes on two processors; more where many share them
def test_no_schedule_breaks_what_the_ledger_promises():
    failed, ran = search(0, SCHEDULES)
    report(failed)
    assert SCHEDULES == ran


def test_one_seed():
    report(run_seed(SEED))


# What the schedules are worth.


@pytest.fixture
def heard(monkeypatch):
    """What lanes have said in all worlds."""
    found = Counter[LaneEventKind]()
    poll = SimulatedLanes.poll

    def listen(lanes, timeout):
        events = poll(lanes, timeout)
        found.update(event.kind for event in events)
        return events

    monkeypatch.setattr(SimulatedLanes, "poll", listen)
    return found


def test_schedules_meet_every_way_in_which_a_chunk_and_a_campaign_can_end(heard):
    """A simulation in which nothing goes wrong would prove nothing."""
    events, refusals, taken_over, settled = Counter(), Counter(), 0, 0
    decided, failed_only, unpublished, published_again = Counter(), 0, set(), 0
    for seed in range(100 * len(FAMILIES)):
        story, chance = tell_story(seed)
        world = World(story.setup)
        for decision in decisions(story, chance, world):
            decided[decision.what] += 1
            failed_only += decision.start is not None and decision.start.failed_only
            world.apply(decision)
        world.settle()
        settled += any(name.startswith("last run") for name in world.processes)
        events.update(event["kind"] for event in world.database.events)
        refusals.update(type(one.refusal) for one in world.processes.values() if one.refusal)
        unpublished |= {
            type(told)
            for one in world.processes.values()
            if (told := getattr(one.result, "unpublished", None))
        }
        rounds = {event["round"] for event in world.database.events if event["kind"] == "published"}
        published_again += len(rounds) > 1
        taken_over += any(event["attempt"] and event["attempt"] > 1 for event in world.database.events)
        world.close()
    chunk_events = {"claimed", "released", "failed", "committed", "carried"}
    assert set() == (chunk_events | CAMPAIGN_EVENTS) - set(events)
    assert set() == LANE_EVENTS - set(heard)
    assert set() == REFUSALS - set(refusals)
    assert min(taken_over, settled) > 100
    assert set() == set(FAULTS) - set(decided) - {"advance far"}  # which is an "advance"
    assert failed_only > 10
    assert set() == UNPUBLISHED - unpublished
    assert published_again > 10


CAMPAIGN_EVENTS = {
    *("opened", "resumed", "round_begun", "cancel_requested", "halted", "closed", "completed", "published"),
}
UNPUBLISHED = {
    CampaignBusyError,
    CampaignStoppedError,
    PublicationBusyError,
    PublicationMismatchError,
    PublicationRefusedError,
}
LANE_EVENTS = {
    LaneEventKind.OPENED,
    LaneEventKind.COMMITTED,
    LaneEventKind.FAILED,
    LaneEventKind.BUSY,
    LaneEventKind.LEASE_LOST,
    LaneEventKind.COMMIT_UNKNOWN,
    LaneEventKind.GONE,
}
REFUSALS = {
    CampaignBusyError,
    CampaignStoppedError,
    ChunkBusyError,
    DatabaseFailedError,
    LaneLostError,
    OverlapError,
}


def test_a_run_without_faults_loads_each_chunk_by_one_attempt():
    world = World(Setup((Load("a", 0, 3),)))
    world.start(Start("run", Kind.INTERNAL, 0, lanes=2))
    world.settle()
    kinds = Counter(event["kind"] for event in world.database.events)
    assert {"opened": 1, "claimed": 3, "committed": 3, "completed": 1} == kinds
    assert ["run", "once more 0"] == list(world.processes)


def test_a_run_without_faults_publishes_what_it_has_loaded_and_others_rows_stay_in_the_backup():
    world = World(Setup((Load("a", 0, 3, swaps=True),)))
    world.start(Start("somebody", Kind.STRANGER, 0, deed=Deed.WRITE))
    world.settle()
    world.start(Start("run", Kind.INTERNAL, 0, lanes=2))
    world.settle()
    found = world.database.committed
    live, backup = found.names[TARGET.name], TARGET.relation
    assert found.campaigns["a"]["target_relation"] == live != backup
    rows = Counter((row.relation, row.run_key) for row in found.rows.values())
    assert {(live, "a"): 6, (backup, BY_HAND): 1} == rows
    kinds = [event["kind"] for event in world.database.events if not event["chunk_index"]]
    assert ["opened", "completed", "published"] == kinds
    assert "once more 0" in world.processes


# A failing schedule.


def found_failure() -> Failed:
    failed, _ = find_failure(range(1400), NO_CHUNK_LOCK, (Family.TAKEOVER,))
    assert failed is not None
    return failed


def test_a_seed_is_one_schedule():
    assert Family.TAKEOVER is family_of(found_failure().seed)
    assert found_failure() == found_failure()


def test_decisions_alone_make_a_schedule_again():
    failed = found_failure()
    error, _ = replay(failed.setup, failed.decisions, NO_CHUNK_LOCK)
    assert failed.found == str(error)
    sound, _ = replay(failed.setup, failed.decisions)
    assert sound is None


def test_a_failing_schedule_is_made_short_and_told():
    failed = found_failure()
    short = shrink(failed, NO_CHUNK_LOCK)
    error, _ = replay(short.setup, short.decisions, NO_CHUNK_LOCK)
    assert (short.name, short.found) == (failed.name, str(error))
    for at in range(len(short.decisions)):
        left_out = short.decisions[:at] + short.decisions[at + 1 :]
        other, _ = replay(short.setup, left_out, NO_CHUNK_LOCK)
        assert other is None or other.name != short.name, f"decision {at} is not needed"
    text = told(short, NO_CHUNK_LOCK)
    assert f"DPONE_TEST_SIMULATION_SEED={failed.seed} " in text
    assert "start item 1: kind item" in text
    assert "=> a chunk 1 attempt 1 claimed" in text
    assert short.found in text
