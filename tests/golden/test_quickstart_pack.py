"""The quickstart compiles to these bytes: whatever is hashed, named or written differently shows here.

A changed byte is a reviewed change. To accept it: `DPONE_UPDATE_GOLDEN=1 python -m pytest tests/golden`, then explain the
difference in the commit.
"""

from pathlib import Path

from dpone_contract.pack import dump_pack, parse_pack
from tests.golden.golden_files import assert_golden
from tests.golden.quickstart_pack import compile_quickstart

GOLDEN = Path(__file__).with_name("flights_history.pack.json")


def test_the_quickstart_compiles_to_the_golden_bytes():
    assert_golden(GOLDEN, dump_pack(compile_quickstart()))


def test_the_golden_pack_can_be_read():
    assert parse_pack(GOLDEN.read_bytes()) == compile_quickstart()
