"""What happens on the pipe between a coordinator and its lanes, one case each; schedules mix them with everything else."""

from collections import Counter

import pytest

from dpone_contract.errors import LaneLostError
from tests.simulation.decisions import Decision, Kind, Load, Setup, Start
from tests.simulation.lanes import SILENCE
from tests.simulation.pipes import Stream
from tests.simulation.world import World

LANE = "run/lane 1"
MOST_TURNS = 5_000


def make_world(*, chunks=2, lanes=1):
    world = World(Setup((Load("a", 0, chunks),)))
    world.start(Start("run", Kind.INTERNAL, 0, lanes=lanes))
    return world


def until(world, condition):
    """Let everybody go on, without a fault, up to where a condition holds."""
    for _ in range(MOST_TURNS):
        if condition():
            return
        ready = world.ready()
        for actor in ready:
            if actor.ready() and not condition():
                world.apply(Decision("step", actor.name))
        if not ready:
            world.apply(Decision("advance", seconds=max(world.next_timer() - world.database.elapsed, 1e-6)))
    raise AssertionError("it does not come to that")


def has_begun(world, statement, lane=LANE):
    return lambda: any(
        statement in session.ran and session.name.startswith(lane) for session in world.database.sessions
    )


def ended(world):
    """Wait for the run's end; give what it did."""
    until(world, lambda: not world.processes["run"].at_work())
    return world.processes["run"]


def kinds_of(world):
    return Counter(event["kind"] for event in world.database.events)


def committed(world, chunks):
    """Settle, and require each chunk to have been loaded by one attempt."""
    world.settle()
    assert {"opened": 1, "claimed": chunks, "committed": chunks, "completed": 1} == kinds_of(world)


@pytest.mark.parametrize("what", ["cut the words of", "garble the words of"])
def test_a_commit_that_is_told_by_half_a_frame_or_nonsense_is_counted_by_its_row(what):
    world = make_world()
    until(world, has_begun(world, "guard_chunk"))
    world.apply(Decision(what, LANE))
    run = ended(world)
    assert run.refusal is None
    assert 2 == run.result.report.committed
    assert [LANE, "run/lane 2"] == list(world.lanes)
    committed(world, 2)


def test_a_word_that_is_on_its_way_is_lost_with_its_lane_and_the_row_tells():
    world = make_world()
    until(world, has_begun(world, "guard_chunk"))
    world.apply(Decision("hold the words of", LANE))
    until(world, lambda: kinds_of(world)["committed"] == 1)
    world.apply(Decision("kill", LANE))
    run = ended(world)
    assert (None, 2) == (run.refusal, run.result.report.committed)
    committed(world, 2)


def test_a_late_word_keeps_no_other_lane_waiting():
    world = make_world(chunks=4, lanes=2)
    until(world, has_begun(world, "guard_chunk"))
    world.apply(Decision("hold the words of", LANE))
    until(world, lambda: kinds_of(world)["committed"] == 4)
    assert world.processes["run"].at_work()
    world.apply(Decision("let through", LANE))
    run = ended(world)
    assert (None, 4) == (run.refusal, run.result.report.committed)
    assert [LANE, "run/lane 2"] == list(world.lanes)
    committed(world, 4)


def test_a_lane_that_is_not_heard_for_too_long_is_ended_and_its_chunk_counted():
    world = make_world()
    until(world, has_begun(world, "guard_chunk"))
    world.apply(Decision("hold the words of", LANE))
    until(world, lambda: world.lanes[LANE].dead)
    assert world.database.elapsed > SILENCE
    run = ended(world)
    assert (None, 2) == (run.refusal, run.result.report.committed)
    committed(world, 2)


def test_an_order_that_is_half_written_when_the_coordinator_dies_is_no_order():
    world = make_world()
    until(world, lambda: LANE in world.lanes)
    world.apply(Decision("cut the orders of", LANE))
    run = ended(world)
    assert run.dead
    until(world, lambda: world.lanes[LANE].dead)
    assert {"opened": 1, "claimed": 1} == kinds_of(world)
    world.settle()
    assert {"opened": 1, "claimed": 3, "committed": 2, "completed": 1} == kinds_of(world)


def test_an_order_that_is_late_is_carried_out_while_its_lease_is_renewed():
    world = make_world(chunks=1)
    until(world, lambda: LANE in world.lanes)
    world.apply(Decision("hold the orders of", LANE))
    until(world, has_begun(world, "renew_chunk", "run/ledger"))
    world.apply(Decision("let through", LANE))
    assert ended(world).refusal is None
    committed(world, 1)


def test_a_lane_that_dies_before_it_is_open_is_no_loss_of_a_chunk():
    world = make_world()
    until(world, lambda: LANE in world.lanes)
    world.apply(Decision("cut the words of", LANE))
    assert isinstance(ended(world).refusal, LaneLostError)
    assert {"opened": 1} == kinds_of(world)


def test_frames_arrive_in_their_order_and_once():
    stream = Stream[int]()
    assert stream.put(1)
    stream.hold(0.0)
    assert stream.put(2)
    stream.garbled = True
    assert stream.put(3)
    assert stream.put(4)
    assert [1] == list(stream.arrived)
    stream.let_through()
    stream.let_through()
    stream.cut = True
    assert not stream.put(5)
    assert [1, 2, None, 4] == list(stream.arrived)


def test_a_run_of_failed_chunks_alone_begins_no_other():
    world = make_world(chunks=3)
    until(world, has_begun(world, "guard_chunk"))
    world.apply(Decision("poison", LANE))
    first = ended(world)
    assert 1 == len(first.result.report.failures)
    before = kinds_of(world)["claimed"]
    run = world.start(Start("again", Kind.INTERNAL, 0, failed_only=True))
    until(world, lambda: not run.at_work())
    assert (None, 1, 1) == (run.refusal, run.result.report.selected, run.result.report.committed)
    assert before + 1 == kinds_of(world)["claimed"]
    statuses = {key[1]: row["status"] for key, row in world.database.committed.chunks.items()}
    assert {1: "committed"} == statuses
