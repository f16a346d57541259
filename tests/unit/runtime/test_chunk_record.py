"""A chunk's row: what may follow what, and what a new attempt keeps."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest

from dpone_contract.errors import MappingStateUnsupportedError
from dpone_runtime.domain.capabilities import StateCapabilities, require_mapped_execution
from dpone_runtime.domain.chunk_record import TRANSITIONS, ChunkStatus, claimed, failed, released
from dpone_runtime.domain.lease import BUSY_WAIT, LEASE_TTL, RENEW_EVERY, new_owner
from tests.campaign_factories import NOON, RUN_KEY, make_plan, make_record

A_SECOND = timedelta(seconds=1)


def claim(record, **changes):
    values = {
        "run_key": RUN_KEY,
        "owner": "owner-2",
        "round_number": 2,
        "now": NOON,
        "expires_at": NOON + LEASE_TTL,
        "dag_run_id": "manual__2",
    }
    return claimed(record, make_plan().chunk(1), **{**values, **changes})


def test_a_first_claim_begins_at_one():
    record = claim(None)
    assert (1, 1, 2, ChunkStatus.RUNNING, "owner-2") == (
        record.revision,
        record.attempt,
        record.round,
        record.status,
        record.owner,
    )


def test_a_later_claim_counts_and_forgets():
    record = claim(failed(make_record(revision=6, attempt=3), "DPONE_INTERNAL", "no", NOON))
    assert (8, 4) == (record.revision, record.attempt)
    assert (None, None, None, None) == (
        record.error_code,
        record.error_message,
        record.finished_at,
        record.rows_loaded,
    )


def test_a_failure_keeps_its_owner_and_bounds_its_message():
    record = failed(make_record(), "DPONE_INTERNAL", "x" * 5000, NOON)
    assert ("owner-1", None, 2, 2000) == (
        record.owner,
        record.lease_expires_at,
        record.revision,
        len(record.error_message),
    )


def test_a_release_forgets_its_owner():
    record = released(make_record())
    assert (ChunkStatus.PENDING, None, None, 2, 1) == (
        record.status,
        record.owner,
        record.lease_expires_at,
        record.revision,
        record.attempt,
    )


@pytest.mark.parametrize(
    "lease, live, shown",
    [
        (NOON + A_SECOND, True, ChunkStatus.RUNNING),
        (NOON, False, ChunkStatus.LEASE_EXPIRED),
        (NOON - A_SECOND, False, ChunkStatus.LEASE_EXPIRED),
        (None, False, ChunkStatus.LEASE_EXPIRED),
    ],
)
def test_a_lease_is_live_until_its_expiry(lease, live, shown):
    record = make_record(lease_expires_at=lease)
    assert (live, shown) == (record.lease_live(NOON), record.shown_status(NOON))


@pytest.mark.parametrize("status", [ChunkStatus.PENDING, ChunkStatus.COMMITTED, ChunkStatus.FAILED])
def test_only_a_running_chunk_has_a_lease(status):
    record = make_record(status=status, lease_expires_at=NOON + A_SECOND)
    assert (False, status) == (record.lease_live(NOON), record.shown_status(NOON))


@pytest.mark.parametrize("status, round_number", list(product(ChunkStatus, (1, 2))))
def test_committed_is_of_one_round(status, round_number):
    record = make_record(status=status, round=1)
    expected = status is ChunkStatus.COMMITTED and round_number == 1
    assert expected is record.committed_in(round_number)


def test_the_transitions():
    running = ChunkStatus.RUNNING
    assert set(ChunkStatus) == set(TRANSITIONS)
    assert {running} == set.union(
        *(set(after) for before, after in TRANSITIONS.items() if before is not running)
    )
    assert {running, ChunkStatus.COMMITTED, ChunkStatus.FAILED, ChunkStatus.PENDING} == TRANSITIONS[running]


def test_owners_are_fresh_and_say_nothing():
    owners = {new_owner() for _ in range(1000)}
    assert 1000 == len(owners)
    assert {32} == {len(owner) for owner in owners}


def test_a_killed_process_is_replaceable_within_two_minutes():
    assert timedelta(minutes=2) >= BUSY_WAIT > LEASE_TTL > 2 * RENEW_EVERY


NEEDED = ("distributed_lock", "distributed_chunk_lease", "compare_and_set_completion")


@pytest.mark.parametrize("missing", [(), *((name,) for name in NEEDED), NEEDED])
def test_a_mapped_run_needs_three_capabilities(missing):
    have = {name: name not in missing for name in NEEDED}
    capabilities = StateCapabilities(
        backend="local_file",
        dialect="local",
        durable_read=True,
        durable_write=True,
        lock_scope="process",
        continuous_campaign_session_fence=False,
        **have,
    )
    if not missing:
        require_mapped_execution(capabilities)
        return
    with pytest.raises(MappingStateUnsupportedError, match=", ".join(missing)):
        require_mapped_execution(capabilities)
