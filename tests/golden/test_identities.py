"""The identities of the quickstart: a ledger that one release wrote is found again by the next only while these stand.

A changed value makes every running campaign another one. To accept it:
`DPONE_UPDATE_GOLDEN=1 python -m pytest tests/golden`, then say in the commit what happens to campaigns that were begun before.
"""

import json
from pathlib import Path

from dpone_contract.mapping_item import dump_item, mapping_item, parse_item, require_item_of_plan
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.process import plan_campaign, process_digest
from dpone_contract.run_identity import RunIdentity, dump_run_identity, parse_run_identity
from tests.golden.golden_files import assert_golden
from tests.golden.quickstart_pack import compile_quickstart

GOLDEN = Path(__file__).with_name("identities.json")


def test_the_quickstart_has_the_golden_identities():
    pack = compile_quickstart()
    (task,) = pack.processes
    campaign = plan_campaign(task.process)
    mapping = campaign.mapping_plan(task.process.mapping)
    assert mapping == task.mapping
    identity = RunIdentity(
        release=pack.release,
        deployment=pack.deployment,
        workload=pack.workload,
        process=task.process.name,
        pack_fingerprint=pack.fingerprint,
        process_digest=process_digest(task.process),
    )
    identities = {
        "run_key": campaign.plan.run_key,
        "plan_hash": campaign.plan_hash,
        "config_hash": campaign.config_hash,
        "process_digest": process_digest(task.process),
        "mapping_plan_fingerprint": mapping.plan_fingerprint,
        "first_idempotency_key": campaign.plan.chunk(1).idempotency_key,
        "last_idempotency_key": campaign.plan.chunk(campaign.plan.chunks_total).idempotency_key,
        # As text, since their bytes are what travels.
        "first_mapping_item": dump_item(mapping_item(mapping, mapping.items[0])),
        "run_identity": dump_run_identity(identity),
    }
    assert_golden(GOLDEN, json.dumps(identities, indent=2).encode() + b"\n")


def test_the_golden_texts_can_be_read():
    golden = json.loads(GOLDEN.read_bytes())
    (task,) = compile_quickstart().processes
    assert isinstance(task.mapping, MappingPlan)
    require_item_of_plan(parse_item(golden["first_mapping_item"]), task.mapping)
    assert golden["process_digest"] == parse_run_identity(golden["run_identity"]).process_digest
