"""Whatever lanes do: counters add up, the ledger agrees with them, and a run that goes on to the end loads each chunk once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_contract.errors import DponeError
from dpone_contract.manifest import RetryPolicy
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.event import EventKind
from dpone_runtime.domain.lease import LEASE_TTL
from tests.unit.runtime.campaign_runs import Stage
from tests.unit.runtime.scripted_lanes import Act, Attempt, Opening

CHUNKS = 6

attempts = st.builds(
    Attempt,
    act=st.sampled_from(Act),
    takes=st.integers(1, 120).map(lambda number: timedelta(seconds=number)),
    rows=st.integers(0, 50),
    commits_when_ended=st.booleans(),
)
scripts = st.dictionaries(st.integers(1, CHUNKS), st.lists(attempts, max_size=3), max_size=CHUNKS)
openings = st.lists(st.sampled_from([Opening.OPENS] * 8 + [Opening.BROKEN, Opening.DIES]), max_size=5)
stops = st.none() | st.integers(0, 200).map(lambda number: timedelta(seconds=number))
ranges = st.tuples(st.integers(1, CHUNKS), st.integers(1, CHUNKS)).map(sorted)


def without_endless(script):
    """What never ends has to be stopped from outside; a run without a stop is given none."""
    return {
        index: [attempt for attempt in found if attempt.act is not Act.NEVER_END]
        for index, found in script.items()
    }


@settings(max_examples=400, deadline=None)
@given(
    script=scripts,
    openings=openings,
    stop_at=stops,
    lane_count=st.integers(1, 4),
    bounds=ranges,
    policy=st.sampled_from(RetryPolicy),
    max_active=st.none() | st.integers(1, 3),
    before=st.sets(st.integers(1, CHUNKS)),
    lapsed=st.sets(st.integers(1, CHUNKS)),
)
def test_counters_add_up_and_agree_with_the_ledger(
    script, openings, stop_at, lane_count, bounds, policy, max_active, before, lapsed
):
    stage = Stage(chunks=CHUNKS)
    stage.open()
    for index in before | lapsed:
        claim = stage.other_claims(index)
        if index in before:
            stage.ledger.complete_chunk(claim.request, 1, 1)
    stage.clock.advance(LEASE_TTL)
    stage.stop_at = None if stop_at is None else stage.clock.elapsed() + stop_at
    lanes = stage.lanes(script if stop_at is not None else without_endless(script), openings)
    first, last = bounds
    try:
        run = stage.run(
            lanes, lane_count=lane_count, first=first, last=last, policy=policy, max_active=max_active
        )
    except DponeError:
        report = None
    else:
        report = run.report
        assert report.selected == report.skipped + report.committed + len(report.failures) + report.left
        assert 0 <= report.left
    assert not lanes.alive
    statuses = stage.statuses()
    committed = {index for index, status in statuses.items() if status is ChunkStatus.COMMITTED}
    assert before <= committed
    assert committed - before == set(stage.told.chunks)
    assert Counter(stage.told.chunks.values()) == Counter(
        {1: len(committed - before)} if committed - before else {}
    )
    # No chunk committed twice, no lease left behind by a run that came to its end.
    commits = Counter(event.chunk_index for event in stage.ledger.events if event.kind is EventKind.COMMITTED)
    assert all(number == 1 for number in commits.values())
    assert ChunkStatus.RUNNING not in statuses.values()
    if report is not None:
        assert len(committed - before) == report.committed
        assert report.failures or report.interrupted or report.stopped or not report.left


@settings(max_examples=150, deadline=None)
@given(script=scripts, lane_count=st.integers(1, 4))
def test_runs_that_are_repeated_load_every_chunk_exactly_once(script, lane_count):
    stage = Stage(chunks=CHUNKS)
    script = without_endless(script)
    for _ in range(20):
        lanes = stage.lanes(script)
        try:
            run = stage.run(lanes, lane_count=lane_count)
        except DponeError:
            continue
        finally:
            # The next run sees what this one has used up.
            script = {index: list(found) for index, found in lanes._attempts.items()}
        if run.campaign.finished:
            break
    assert "complete" == run.campaign.status
    commits = Counter(event.chunk_index for event in stage.ledger.events if event.kind is EventKind.COMMITTED)
    assert dict.fromkeys(range(1, CHUNKS + 1), 1) == commits
