"""The quickstart compiles to these bytes: whatever is hashed, named or written differently shows here.

A changed byte is a reviewed change. To accept it: `DPONE_UPDATE_GOLDEN=1 python -m pytest tests/golden`, then explain the
difference in the commit.
"""

import json
import os
from pathlib import Path

from dpone_contract.pack import dump_pack, parse_pack
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.compiler import compile_pack
from dpone_packbuilder.project import load_project

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("flights_history.pack.json")


def compile_quickstart():
    review = review_project(load_project(ROOT / "example_dags" / "quickstart" / "project"))
    assert review.findings == ()
    (planned,) = review.planned
    return compile_pack(planned, release="golden", deployment="golden")


def test_the_quickstart_compiles_to_the_golden_bytes():
    data = dump_pack(compile_quickstart())
    if os.environ.get("DPONE_UPDATE_GOLDEN") == "1":
        GOLDEN.write_bytes(data)
    golden = GOLDEN.read_bytes()
    # First as values, so that a difference is readable.
    assert json.loads(golden) == json.loads(data)
    assert golden == data


def test_the_golden_pack_can_be_read():
    assert parse_pack(GOLDEN.read_bytes()) == compile_quickstart()
