"""A plan and a campaign's state as they are read: the whole text, so that a changed word is a reviewed change."""

from __future__ import annotations

import json
import textwrap

import pytest

from dpone_contract.mapping_item import mapping_item
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import build_process, plan_campaign
from dpone_runtime.domain.campaign import CampaignStatus
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.plan_view import plan_document, plan_line, plan_text
from dpone_runtime.status_view import ledger_picture, next_step_of, status_document, status_text
from tests.campaign_factories import make_campaign, make_plan, make_record
from tests.factories import make_manifest, make_process


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def planned_of(chunks):
    process = make_process(mode="internal", chunks=chunks)
    return process, plan_campaign(process)


def test_the_text_of_a_plan():
    process, planned = planned_of(9)
    assert lines(
        f"""
            plan of flights_history
              source       public.flights
              target       public.flights
              mode         partition_replace
              column       flight_date
              window       [2013-01-01, 2013-01-10)
              chunks       9
              step         1d
              timezone     UTC
              run key      {planned.plan.run_key}
              plan hash    {planned.plan_hash}
              config hash  {planned.config_hash}

                    1  [2013-01-01, 2013-01-02)
                    2  [2013-01-02, 2013-01-03)
                    3  [2013-01-03, 2013-01-04)
                    4  [2013-01-04, 2013-01-05)
                    5  [2013-01-05, 2013-01-06)
                  ...
                    8  [2013-01-08, 2013-01-09)
                    9  [2013-01-09, 2013-01-10)
            """
    ) == plan_text(process, planned)


@pytest.mark.parametrize(
    "chunks, shown", [(1, [1]), (5, [1, 2, 3, 4, 5]), (6, range(1, 7)), (7, range(1, 8))]
)
def test_a_short_plan_is_shown_whole(chunks, shown):
    text = plan_text(*planned_of(chunks))
    assert "..." not in text
    assert [f"{index:>7}" for index in shown] == [
        line[2:9] for line in text.splitlines() if "  [" in line[7:12]
    ]


def test_a_plan_in_markdown():
    text = plan_text(*planned_of(2), markdown=True)
    assert "### Plan of flights_history" == text.splitlines()[0]
    assert "| window | `[2013-01-01, 2013-01-03)` |" in text
    assert "| 2 | `[2013-01-02, 2013-01-03)` |" == text.splitlines()[-1]


def test_the_document_of_a_plan():
    process, planned = planned_of(3)
    document = plan_document(process, planned)
    assert "dpone.backfill-plan.v1" == document["schema"]
    assert [1, 2, 3] == [chunk["index"] for chunk in document["chunks"]]
    assert {
        "index": 3,
        "lower": "2013-01-03",
        "upper": "2013-01-04",
        "window": "[2013-01-03, 2013-01-04)",
    } == (document["chunks"][-1])
    assert document == json.loads(json.dumps(document))
    assert 2 == len(plan_document(process, planned, 2)["chunks"])


@pytest.mark.parametrize(
    "window, shown, by, last",
    [
        ({"from": -5, "to": 9, "step": 5}, "[-5, 10)", "5", "[5, 10)"),
        (
            {"from": 0, "to": 2**63 - 1, "step": 2**62},
            f"[0, {2**63 - 1}]",
            f"{2**62}",
            f"[{2**62}, {2**63 - 1}]",
        ),
        (
            {"from": "2013-01-01T00:00", "to": "2013-01-02T00:00", "step": "12h"},
            "[2013-01-01T00:00:00+00:00, 2013-01-02T00:00:00+00:00)",
            "12h",
            "[2013-01-01T12:00:00+00:00, 2013-01-02T00:00:00+00:00)",
        ),
        (
            {"buckets": 2},
            "[00000000-0000-0000-0000-000000000000, ffffffff-ffff-ffff-ffff-ffffffffffff]",
            "2 buckets",
            "[80000000-0000-0000-0000-000000000000, ffffffff-ffff-ffff-ffff-ffffffffffff]",
        ),
        ({"boundaries": [1, 5, 7]}, "[1, 7)", "boundaries", "[5, 7)"),
        ({"from": 1, "to": 9, "step": 5, "nulls": "include"}, "[1, 10) and NULL", "5", "NULL"),
    ],
)
def test_every_kind_is_shown_half_open(window, shown, by, last):
    process = build_process(make_manifest(window={"column": "key", **window}), MappingPolicy())
    planned = plan_campaign(process)
    assert f" of key in {shown} by {by}; " in plan_line(process, planned, None)
    document = plan_document(process, planned)
    assert (by, last) == (document["step"], document["chunks"][-1]["window"])
    text = plan_text(process, planned)
    assert f"  window       {shown}\n" in text
    assert text.endswith(f"  {last}")
    assert plan_text(process, planned, markdown=True).endswith(f"| `{last}` |")


def test_the_line_before_data_moves():
    process = make_process(items=3)
    planned = plan_campaign(process)
    whole = plan_line(process, planned, None)
    assert whole.startswith(
        "public.flights -> public.flights, partition_replace: "
        "3 chunks of flight_date in [2013-01-01, 2013-01-04) by 1d; all chunks\n"
    )
    mapping = planned.mapping_plan(process.mapping)
    item = plan_line(process, planned, mapping_item(mapping, mapping.items[1]))
    assert "item 1: chunks 2..2" in item


COUNTS = {ChunkStatus.COMMITTED: 3, ChunkStatus.FAILED: 1, ChunkStatus.RUNNING: 1}
FAILED = make_record(
    chunk_index=4,
    status=ChunkStatus.FAILED,
    attempt=2,
    error_code="DPONE_BACKFILL_CHUNK_FAILED",
    error_message="numeric field overflow (SQLSTATE 22003)",
)


def document_of(**changes):
    process = make_process(mode="internal", chunks=7)
    planned = plan_campaign(process)
    campaign = make_campaign(
        make_plan(7), config_hash=planned.config_hash, plan_hash=planned.plan_hash, **changes
    )
    return status_document(planned, campaign, COUNTS, (FAILED,), {"dialect": "postgres"})


def test_the_document_of_a_campaign():
    document = document_of()
    assert {"pending": 2, "running": 1, "committed": 3, "failed": 1, "lease_expired": 0} == document["chunks"]
    assert (True, True) == (document["plan_matches"], document["config_matches"])
    assert document == json.loads(json.dumps(document))


def test_the_text_of_a_campaign():
    statuses = dict.fromkeys((1, 2, 3), ChunkStatus.COMMITTED) | {
        4: ChunkStatus.FAILED,
        5: ChunkStatus.RUNNING,
    }
    assert lines(
        """
            campaign flights-history: open, round 1
              2 pending, 1 running, 3 committed, 1 failed of 7 chunks
              chunk 4 [2013-01-01, 2013-01-02) failed at attempt 2:
                DPONE_BACKFILL_CHUNK_FAILED: numeric field overflow (SQLSTATE 22003)
              next: look

                  1 ###X~..
                    . pending  ~ running  # committed  X failed  ! lease_expired
            """
    ) == status_text(document_of(), ledger_picture(7, statuses), "look")


def test_a_manifest_that_has_changed_is_told():
    document = {**document_of(), "config_matches": False}
    assert "the manifest has changed" in status_text(document, "", "look")


def test_a_picture_in_markdown_is_fenced():
    text = status_text(document_of(), ledger_picture(3, {}), "look", markdown=True)
    assert 2 == text.count("```")


def test_pictures_have_one_mark_a_chunk_and_an_end():
    picture = ledger_picture(150, {150: ChunkStatus.LEASE_EXPIRED})
    rows = picture.splitlines()[:-1]
    assert ["1", "74", "147"] == [row.split()[0] for row in rows]
    assert "." * 149 + "!" == "".join(row.split()[1] for row in rows)
    assert "" == ledger_picture(2001, {})
    assert "" != ledger_picture(2000, {})


@pytest.mark.parametrize(
    "status, counts, step",
    [
        (CampaignStatus.COMPLETE, {}, "nothing; every chunk is committed"),
        (CampaignStatus.PUBLISHED, {}, "nothing; every chunk is committed"),
        (
            CampaignStatus.HALTED,
            {},
            "mend the cause of the failed chunks, then: dpone backfill resume m.yaml --reason ...",
        ),
        (CampaignStatus.CLOSED, {}, "if it may go on: dpone backfill resume m.yaml --reason ..."),
        (CampaignStatus.OPEN, {ChunkStatus.RUNNING: 1}, "chunks are at work; look again"),
        (
            CampaignStatus.OPEN,
            {ChunkStatus.FAILED: 1},
            "mend the cause of the failed chunks, then: dpone backfill retry-failed m.yaml --execute",
        ),
        (
            CampaignStatus.OPEN,
            {ChunkStatus.LEASE_EXPIRED: 1},
            "look why their run ended, then: dpone backfill retry-failed m.yaml --execute",
        ),
        (CampaignStatus.OPEN, {}, "dpone backfill resume m.yaml"),
    ],
)
def test_the_next_step(status, counts, step):
    assert next_step_of(make_campaign(status=status), counts, "m.yaml").startswith(step)
