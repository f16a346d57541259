"""One window of each kind, from manifest to pack bytes, chunks, keys and hashes.

A changed byte makes running campaigns other ones. To accept it: `DPONE_UPDATE_GOLDEN=1 python -m pytest tests/golden`, then
explain the difference in the commit.
"""

import json
from pathlib import Path

import pytest

from dpone_contract.mapping_item import dump_item, mapping_item
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.pack import dump_pack, parse_pack
from dpone_contract.process import plan_campaign, process_digest
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.compiler import compile_pack
from dpone_packbuilder.project import load_project
from tests.golden.golden_files import assert_golden
from tests.unit.packbuilder.project_files import SUMMARY, manifest, workload, write_project

FOLDER = Path(__file__).with_name("kinds")
BERLIN = "Europe/Berlin"
WINDOWS = {
    "date": {"from": "2013-01-31", "to": "2013-06-30", "step": "1mo", "timezone": BERLIN},
    "timestamp": {
        "from": "2013-03-30T02:30:00",
        "to": "2013-04-01T00:00:00.000001",
        "step": "1d",
        "timezone": BERLIN,
    },
    "hours": {
        "from": "2013-10-27T00:00:00+02:00",
        "to": "2013-10-27T04:00:00+01:00",
        "step": "1h",
        "timezone": BERLIN,
    },
    "integer": {"from": -10, "to": 9223372036854775807, "step": 4611686018427387904},
    "uuid": {"kind": "uuid", "buckets": 7},
    "boundaries": {"boundaries": [-5, 0, 1000]},
    "nulls": {"from": 1, "to": 10, "step": 5, "nulls": "include"},
}


def compile_kind(folder, name):
    """Compile a project whose only workload cuts its window in this way."""
    document = manifest(backfill__chunk={"column": "key", **WINDOWS[name]})
    catalog = {"orders": workload(mapping={**SUMMARY, "max_items": 2})}
    review = review_project(
        load_project(write_project(folder, workloads=catalog, manifests={"orders.yaml": document}))
    )
    assert review.findings == ()
    (planned,) = review.planned
    return compile_pack(planned, release="golden", deployment="golden")


def identities_of(pack):
    """Give what names a pack's campaign and its chunks."""
    (task,) = pack.processes
    assert isinstance(task.mapping, MappingPlan)
    campaign = plan_campaign(task.process)
    return {
        "pack_fingerprint": pack.fingerprint,
        "process_digest": process_digest(task.process),
        "run_key": campaign.plan.run_key,
        "plan_hash": campaign.plan_hash,
        "config_hash": campaign.config_hash,
        "mapping_plan_fingerprint": task.mapping.plan_fingerprint,
        "last_mapping_item": dump_item(mapping_item(task.mapping, task.mapping.items[-1])),
        "labels": task.labels,
        "chunks": [[chunk.window, chunk.idempotency_key] for chunk in campaign.plan.chunks()],
    }


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_of_each_kind_compiles_to_the_golden_bytes(tmp_path, name):
    golden = FOLDER / f"{name}.pack.json"
    pack = compile_kind(tmp_path, name)
    assert_golden(golden, dump_pack(pack))
    assert pack == parse_pack(golden.read_bytes())


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_of_each_kind_has_the_golden_identities(tmp_path, name):
    found = json.dumps(identities_of(compile_kind(tmp_path, name)), indent=2)
    assert_golden(FOLDER / f"{name}.identities.json", found.encode() + b"\n")
