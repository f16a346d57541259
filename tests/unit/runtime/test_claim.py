"""The claim decision: every cell of campaign state x chunk state x lease x room."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest

from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.claim import ClaimVerdict, LedgerView, decide_claim
from tests.campaign_factories import NOON, make_campaign, make_record

CLAIM, COMMITTED, BUSY, LAPSED, NOT_NOW, STOPPED = (
    ClaimVerdict.CLAIM,
    ClaimVerdict.COMMITTED,
    ClaimVerdict.BUSY,
    ClaimVerdict.LAPSED,
    ClaimVerdict.NOT_NOW,
    ClaimVerdict.STOPPED,
)
ROUND = 2
A_SECOND = timedelta(seconds=1)

CHUNKS = {
    "never claimed": None,
    "pending": make_record(status=ChunkStatus.PENDING, round=ROUND, owner=None, lease_expires_at=None),
    "failed": make_record(status=ChunkStatus.FAILED, round=ROUND, lease_expires_at=None),
    "live": make_record(round=ROUND, lease_expires_at=NOON + A_SECOND),
    "live of an earlier round": make_record(round=1, lease_expires_at=NOON + A_SECOND),
    "lapsed this instant": make_record(round=ROUND, lease_expires_at=NOON),
    "lapsed": make_record(round=ROUND, lease_expires_at=NOON - A_SECOND),
    "running without a lease": make_record(round=ROUND, lease_expires_at=None),
    "committed": make_record(status=ChunkStatus.COMMITTED, round=ROUND, lease_expires_at=None),
    "committed in an earlier round": make_record(
        status=ChunkStatus.COMMITTED, round=1, lease_expires_at=None
    ),
}

# What an open campaign gives: with room, and with as many live leases as may be.
OPEN_TABLE = {
    "never claimed": (CLAIM, NOT_NOW),
    "pending": (CLAIM, NOT_NOW),
    "failed": (CLAIM, NOT_NOW),
    "live": (BUSY, BUSY),
    "live of an earlier round": (BUSY, BUSY),
    "lapsed this instant": (LAPSED, LAPSED),
    "lapsed": (LAPSED, LAPSED),
    "running without a lease": (LAPSED, LAPSED),
    "committed": (COMMITTED, COMMITTED),
    "committed in an earlier round": (CLAIM, NOT_NOW),
}

# max_active and live leases that leave room, and that do not.
ROOM = [(None, 99), (1, 0), (3, 2)]
NO_ROOM = [(1, 1), (3, 3), (2, 5)]


def verdict(chunk, *, status=CampaignStatus.OPEN, max_active=None, live_leases=0, ended=False):
    campaign = make_campaign(status=status, round=ROUND)
    view = LedgerView(campaign, CHUNKS[chunk], live_leases, NOON)
    return decide_claim(view, max_active=max_active, lapsed_holder_ended=ended)


def test_the_table_has_every_chunk():
    assert set(CHUNKS) == set(OPEN_TABLE)
    assert set(ChunkStatus) - {ChunkStatus.LEASE_EXPIRED} == {row.status for row in CHUNKS.values() if row}


@pytest.mark.parametrize("chunk, limits", list(product(CHUNKS, ROOM)))
def test_an_open_campaign_with_room(chunk, limits):
    assert OPEN_TABLE[chunk][0] is verdict(chunk, max_active=limits[0], live_leases=limits[1])


@pytest.mark.parametrize("chunk, limits", list(product(CHUNKS, NO_ROOM)))
def test_an_open_campaign_without_room(chunk, limits):
    assert OPEN_TABLE[chunk][1] is verdict(chunk, max_active=limits[0], live_leases=limits[1])


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("full", [False, True])
def test_a_lapsed_chunk_is_claimed_once_its_holder_was_ended(chunk, full):
    expected = OPEN_TABLE[chunk][full]
    if expected is LAPSED:
        expected = NOT_NOW if full else CLAIM
    assert expected is verdict(chunk, max_active=1, live_leases=int(full), ended=True)


@pytest.mark.parametrize("status", set(CampaignStatus) - {CampaignStatus.OPEN})
@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("ended", [False, True])
def test_a_campaign_that_is_not_open(status, chunk, ended):
    expected = COMMITTED if chunk == "committed" else STOPPED
    for max_active, live_leases in (*ROOM, *NO_ROOM):
        found = verdict(chunk, status=status, max_active=max_active, live_leases=live_leases, ended=ended)
        assert expected is found


@pytest.mark.parametrize("chunk", CHUNKS)
def test_no_campaign_is_never_done(chunk):
    assert STOPPED is decide_claim(LedgerView(None, CHUNKS[chunk], 0, NOON), max_active=None)
