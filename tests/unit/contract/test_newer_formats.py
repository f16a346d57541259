"""A document of a newer format is refused by every reader, whatever else stands in it, with the way out."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from dpone_contract.errors import DponeError
from dpone_contract.mapping_item import dump_item, mapping_item, parse_item
from dpone_contract.outcome import parse_outcome
from dpone_contract.pack import dump_pack, pack_fingerprint, parse_pack
from dpone_contract.process import decode_process, plan_campaign
from dpone_contract.run_identity import RunIdentity, dump_run_identity, parse_run_identity
from tests.factories import DIGEST, make_outcome, make_pack, make_process

PROCESS = make_process()
MAPPING = plan_campaign(PROCESS).mapping_plan(PROCESS.mapping)
IDENTITY = RunIdentity(
    release="r", deployment="d", workload="w", process="p", pack_fingerprint=DIGEST, process_digest=DIGEST
)


def argument(document: Any) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(document).encode())).decode()


def sealed(document: Any) -> bytes:
    return json.dumps({**document, "fingerprint": pack_fingerprint(document)}).encode()


READERS: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "pack": (json.loads(dump_pack(make_pack())), lambda found: parse_pack(sealed(found))),
    "item": (
        json.loads(dump_item(mapping_item(MAPPING, MAPPING.items[0]))),
        lambda found: parse_item(json.dumps(found)),
    ),
    "outcome": (make_outcome(PROCESS).to_document(), lambda found: parse_outcome(json.dumps(found).encode())),
    "process": (PROCESS.to_document(), lambda found: decode_process(argument(found))),
    "run identity": (
        json.loads(dump_run_identity(IDENTITY)),
        lambda found: parse_run_identity(json.dumps(found)),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_newer_format_is_refused(name):
    document, read = READERS[name]
    read(document)
    version = str(document["schema"])
    assert version.endswith(".v1")
    for other in (
        version.replace(".v1", ".v2"),
        version.replace(".v1", ".v10"),
        version.upper(),
        "",
        None,
        1,
    ):
        with pytest.raises(DponeError) as caught:
            read({**document, "schema": other})
        assert caught.value.next_step


@pytest.mark.parametrize("name", READERS)
def test_a_field_of_a_newer_format_is_refused_under_the_old_name(name):
    document, read = READERS[name]
    with pytest.raises(DponeError) as caught:
        read({**document, "colour": "blue"})
    assert caught.value.next_step


@pytest.mark.parametrize("part", ["process", "mapping"])
def test_a_newer_part_of_a_pack_is_refused_too(part):
    document = json.loads(dump_pack(make_pack()))
    found = document["processes"][0][part]
    found["schema"] = found["schema"].replace(".v1", ".v2")
    with pytest.raises(DponeError) as caught:
        parse_pack(sealed(document))
    assert caught.value.next_step
