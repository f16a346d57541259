"""Campaigns: which windows meet, what a state allows, what counts as drift."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_contract.errors import CampaignDriftError, CampaignStoppedError
from dpone_runtime.domain.campaign import (
    CampaignStatus,
    Window,
    moved,
    new_round,
    published,
    require_open,
    require_same_campaign,
)
from tests.campaign_factories import SHADOW, TARGET, make_campaign


def window(lower: str, upper: str, **changes) -> Window:
    return replace(Window("flight_date", "date", lower, upper), **changes)


JANUARY = window("2013-01-01", "2013-02-01")


@pytest.mark.parametrize(
    "other, expected",
    [
        (JANUARY, True),
        (window("2013-01-31", "2013-03-01"), True),
        (window("2012-12-01", "2013-01-02"), True),
        (window("2013-01-10", "2013-01-11"), True),
        (window("2012-01-01", "2014-01-01"), True),
        (window("2013-02-01", "2013-03-01"), False),
        (window("2012-12-01", "2013-01-01"), False),
        (window("2014-01-01", "2014-02-01", everything=True), True),
        (window("2014-01-01", "2014-02-01", column="Flight_Date"), True),
        (window("2014-01-01", "2014-02-01", kind="timestamp"), True),
    ],
)
def test_which_windows_may_write_one_row(other, expected):
    assert (expected, expected) == (JANUARY.overlaps(other), other.overlaps(JANUARY))


days = st.dates(date(1900, 1, 1), date(2100, 1, 1))
spans = st.tuples(days, st.integers(1, 400)).map(lambda span: (span[0], span[0] + timedelta(days=span[1])))


@given(one=spans, other=spans)
def test_windows_overlap_exactly_where_they_share_a_day(one, other):
    shared = max(one[0], other[0]) < min(one[1], other[1])
    first, second = (window(lower.isoformat(), upper.isoformat()) for lower, upper in (one, other))
    assert (shared, shared) == (first.overlaps(second), second.overlaps(first))


BERLIN_DAY = ("2013-01-01T00:00:00+01:00", "2013-01-02T00:00:00+01:00")
LAST_UUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"


@pytest.mark.parametrize(
    "kind, one, other, expected",
    [
        # As text 9 would come after 100.
        ("integer", ("9", "10"), ("10", "100"), False),
        ("integer", ("9", "11"), ("10", "100"), True),
        ("integer", ("-100", "-9"), ("-9", "0"), False),
        ("integer", ("-100", "-8"), ("-9", "0"), True),
        ("integer", ("0", "9223372036854775808"), ("9223372036854775807", "9223372036854775808"), True),
        ("integer", ("0", "9223372036854775807"), ("9223372036854775807", "9223372036854775808"), False),
        # One instant has many texts.
        ("timestamp", BERLIN_DAY, ("2013-01-01T23:00:00+00:00", "2013-01-02T23:00:00+00:00"), True),
        ("timestamp", BERLIN_DAY, ("2013-01-02T00:00:00+01:00", "2013-01-03T00:00:00+01:00"), False),
        ("timestamp", BERLIN_DAY, ("2013-01-02T00:30:00+01:00", "2013-01-02T23:30:00+00:00"), False),
        ("timestamp", BERLIN_DAY, ("2013-01-01T22:59:59.999999+00:00", "2013-01-02T00:00:00+00:00"), True),
        # Adjacent as instants, but one column without a zone holds both as wall clocks.
        ("timestamp", BERLIN_DAY, ("2013-01-01T18:00:00-05:00", "2013-01-02T18:00:00-05:00"), True),
        (
            "uuid",
            ("00000000-0000-0000-0000-000000000000", LAST_UUID),
            (LAST_UUID[:-1] + "e", LAST_UUID),
            True,
        ),
        (
            "uuid",
            ("00000000-0000-0000-0000-000000000000", "1" + LAST_UUID[1:]),
            ("1" + LAST_UUID[1:], LAST_UUID),
            False,
        ),
        ("uuid", (LAST_UUID[:-1] + "d", LAST_UUID[:-1] + "e"), (LAST_UUID[:-1] + "e", LAST_UUID), False),
        # What another release wrote is not understood, so it is not passed over.
        ("date", ("2013-01-01", "2013-01-02"), ("20130105", "the end"), True),
        ("text", ("a", "b"), ("c", "d"), True),
    ],
)
def test_bounds_compare_as_what_they_are(kind, one, other, expected):
    first, second = (window(*bounds, kind=kind) for bounds in (one, other))
    assert (expected, expected) == (first.overlaps(second), second.overlaps(first))


@pytest.mark.parametrize(
    "status, finished, over",
    [
        (CampaignStatus.OPEN, False, False),
        (CampaignStatus.CANCEL_REQUESTED, False, False),
        (CampaignStatus.HALTED, False, False),
        (CampaignStatus.CLOSED, False, True),
        (CampaignStatus.COMPLETE, True, True),
        (CampaignStatus.PUBLISHED, True, True),
    ],
)
def test_what_a_state_means(status, finished, over):
    campaign = make_campaign(status=status)
    assert (finished, over) == (campaign.finished, campaign.over)


@pytest.mark.parametrize(
    "status", [CampaignStatus.CANCEL_REQUESTED, CampaignStatus.HALTED, CampaignStatus.CLOSED]
)
def test_no_chunk_begins_in_a_stopped_campaign(status):
    with pytest.raises(CampaignStoppedError, match="wrong day") as refusal:
        require_open(make_campaign(status=status, reason="wrong day"))
    assert "resume" in refusal.value.next_step


@pytest.mark.parametrize("status", [CampaignStatus.OPEN, CampaignStatus.COMPLETE, CampaignStatus.PUBLISHED])
def test_other_campaigns_are_not_stopped(status):
    require_open(make_campaign(status=status))


def test_a_move_counts_the_revision_and_replaces_the_reason():
    before = make_campaign(reason="old", requested_by="me", revision=4)
    after = moved(before, CampaignStatus.HALTED)
    assert replace(before, status=CampaignStatus.HALTED, revision=5, reason=None, requested_by=None) == after


def test_a_new_round_opens_the_campaign_again():
    before = make_campaign(status=CampaignStatus.COMPLETE, revision=4, round=3)
    after = new_round(before, make_campaign(columns=("day",), shadow=SHADOW), reason="again")
    assert ("open", 5, 4, "again") == (after.status, after.revision, after.round, after.reason)
    assert (("day",), SHADOW) == (after.columns, after.shadow)


def test_what_is_complete_and_loaded_aside_is_not_over_and_reaches_the_whole_table():
    waiting = make_campaign(status=CampaignStatus.COMPLETE, shadow=SHADOW)
    assert (True, True, False) == (waiting.publishable, waiting.finished, waiting.over)
    assert waiting.reach.everything
    assert not waiting.window.everything


def test_what_is_published_has_its_shadow_as_its_target():
    waiting = make_campaign(status=CampaignStatus.COMPLETE, shadow=SHADOW, revision=7)
    after = published(waiting)
    assert ("published", 8, None) == (after.status, after.revision, after.shadow)
    assert replace(waiting.target, relation="16600") == after.target
    assert (False, True, waiting.window) == (after.publishable, after.over, after.reach)


@pytest.mark.parametrize("wanted", [None, replace(SHADOW, relation="16601")])
def test_another_shadow_is_a_drift(wanted):
    with pytest.raises(
        CampaignDriftError, match="flights_shadow that campaign flights-history loads is gone"
    ):
        require_same_campaign(make_campaign(shadow=SHADOW), make_campaign(shadow=wanted))


def test_a_shadow_of_a_new_round_is_no_drift():
    found = make_campaign(status=CampaignStatus.PUBLISHED)
    require_same_campaign(found, make_campaign(shadow=SHADOW))


def test_what_was_published_after_a_run_had_looked_is_no_drift():
    waiting = make_campaign(status=CampaignStatus.COMPLETE, shadow=SHADOW)
    require_same_campaign(published(waiting), make_campaign(shadow=SHADOW))
    with pytest.raises(CampaignDriftError, match="target table"):
        require_same_campaign(published(waiting), make_campaign(shadow=replace(SHADOW, relation="16601")))


@pytest.mark.parametrize("round_number, unseen", [(1, True), (2, False)])
def test_nothing_of_a_first_round_that_is_loaded_aside_has_ever_been_seen(round_number, unseen):
    assert unseen is make_campaign(shadow=SHADOW, round=round_number).unseen
    assert not make_campaign(round=round_number).unseen


@pytest.mark.parametrize(
    "change, named",
    [
        ({"plan_hash": "sha256:x"}, "plan"),
        ({"config_hash": "sha256:x"}, "configuration"),
        ({"chunks_total": 9}, "number of chunks"),
        ({"source": TARGET}, "source table"),
        ({"target": replace(TARGET, server="x")}, "target table"),
    ],
)
def test_drift_is_named_with_the_way_out(change, named):
    with pytest.raises(CampaignDriftError, match=named) as refusal:
        require_same_campaign(make_campaign(), make_campaign(**change))
    assert "backfill_id" in refusal.value.next_step


@pytest.mark.parametrize(
    "change",
    [
        {"target": replace(TARGET, name="renamed")},
        {"status": CampaignStatus.HALTED, "revision": 9, "round": 3, "reason": "x"},
        {"dataset": "public.renamed"},
    ],
)
def test_what_does_not_change_the_data_is_no_drift(change):
    require_same_campaign(make_campaign(**change), make_campaign())
