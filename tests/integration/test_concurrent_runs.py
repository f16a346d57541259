"""Several runs of one campaign at once: no chunk is loaded twice, none is left, and never more at once than allowed."""

import signal
from collections import Counter

from tests.integration.campaigns import History, day, items_of, mapped_process
from tests.integration.child_runs import Run
from tests.integration.fault_lane import BEFORE_LOAD, HOLD, KILL_BOTH
from tests.waiting import wait_until


def test_a_second_internal_run_is_refused_and_the_first_ends(history: History) -> None:
    first = history.start("run", history.manifest(), faults=[(BEFORE_LOAD, 1, HOLD)])
    first.wait_for(BEFORE_LOAD, 1)
    second = history.run("run", history.manifest())
    assert (5, "DPONE_BACKFILL_CAMPAIGN_BUSY") == (second.exit_code, second.error_code), second.output
    assert "Traceback" not in second.output
    assert {1: ("running", 1)} == history.chunks()

    first.release()
    done = first.finish()
    assert 0 == done.exit_code, done.output
    assert ["opened", "completed"] == history.events(None)
    history.require_loaded(3)


def test_a_live_lease_is_waited_for_and_the_others_are_loaded_meanwhile(history: History) -> None:
    killed = history.start("run", history.manifest(), faults=[("before commit", 1, KILL_BOTH)])
    assert -signal.SIGKILL == killed.finish().exit_code
    resumed = history.start("run", history.manifest())
    resumed.wait_for_words("chunk 1 is held by another run")
    history.lapse_leases()
    done = resumed.finish()
    assert 0 == done.exit_code, done.output
    assert {1: ("committed", 2), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
    history.require_loaded(3)


def test_one_item_run_twice_at_once_loads_each_chunk_once(history: History) -> None:
    process = mapped_process(3, max_active=2)
    first = history.start_item(process, faults=[(BEFORE_LOAD, 2, HOLD)])
    first.wait_for(BEFORE_LOAD, 2)
    second = history.start_item(process)
    # The second takes what is free, and waits for what the first one holds.
    wait_until(lambda: history.chunks().get(3) == ("committed", 1), 30, "the second run's chunk")
    second.wait_for_words("chunk 2 is held by another run")
    assert ("running", 1) == history.chunks()[2]
    first.release()
    ends = [first.finish(), second.finish()]
    assert [0, 0] == [done.exit_code for done in ends], [done.output for done in ends]
    outcomes = [done.outcome.backfill for done in ends if done.outcome and done.outcome.backfill]
    assert [(2, 1), (1, 2)] == [
        (outcome.chunks_committed, outcome.chunks_skipped_resume) for outcome in outcomes
    ]
    assert {1: ("committed", 1), 2: ("committed", 1), 3: ("committed", 1)} == history.chunks()
    assert ["opened", "completed"] == history.events(None)
    history.require_loaded(3)


def test_neighbouring_items_never_load_more_at_once_than_max_active(history: History) -> None:
    process = mapped_process(10, items=5, max_active=2)
    every = [(BEFORE_LOAD, chunk_index, HOLD) for chunk_index in range(1, 11)]
    held = [history.start_item(process, index, faults=every) for index in range(2)]
    for run, item in zip(held, items_of(process), strict=False):
        run.wait_for(BEFORE_LOAD, item.first_chunk_index)
    assert 2 == history.live_leases()
    waiting = [history.start_item(process, index) for index in range(2, 5)]
    for run in waiting:
        run.wait_for_words("max_active is reached")
    assert 2 == history.live_leases()
    assert {1: ("running", 1), 3: ("running", 1)} == history.chunks()

    for run in held:
        run.release()
    samples = sample_live_leases(history, [*held, *waiting])
    ends = [run.finish() for run in (*held, *waiting)]
    assert [0] * 5 == [done.exit_code for done in ends], [done.output for done in ends]
    assert set(samples) <= {0, 1, 2}, samples
    for chunk_index in range(1, 11):
        assert ["claimed", "committed"] == history.events(chunk_index)
    assert ["opened", "completed"] == history.events(None)
    history.require_loaded(10)


def test_items_started_together_over_a_full_target_leave_no_doubled_row(history: History) -> None:
    history.add_stale_rows()
    process = mapped_process(9, items=3, max_active=3)
    runs = [history.start_item(process, index) for index in (0, 1, 2, 1)]
    ends = [run.finish() for run in runs]
    assert [0] * 4 == [done.exit_code for done in ends], "\n".join(done.output for done in ends)
    assert 9 * 20 == history.value("SELECT count(*) FROM target.history WHERE day <= %s", day(9))
    history.require_loaded(9)
    # The tenth day was nobody's: its stale rows stay.
    assert 3 == history.value("SELECT count(*) FROM target.history WHERE day = %s", day(10))


def sample_live_leases(history: History, runs: list[Run]) -> Counter[int]:
    """Count live leases over and over until every run has ended."""
    samples: Counter[int] = Counter()

    def sampled_to_the_end() -> bool:
        samples[history.live_leases()] += 1
        return all(run.ended() for run in runs)

    wait_until(sampled_to_the_end, 90, "the end of every run")
    return samples
