"""Packs of pods are compiled to the golden bytes, which is what the provider's tests begin with."""

from pathlib import Path

import pytest

from dpone_contract.pack import dump_pack, parse_pack
from tests.golden.golden_files import assert_golden
from tests.golden.pod_packs import PROJECTS, compile_pod_pack

FOLDER = Path(__file__).with_name("pods")


@pytest.mark.parametrize("name", PROJECTS)
def test_a_workload_of_pods_compiles_to_the_golden_bytes(tmp_path, name):
    golden = FOLDER / f"{name}.pack.json"
    pack = compile_pod_pack(tmp_path, name)
    assert_golden(golden, dump_pack(pack))
    assert pack == parse_pack(golden.read_bytes())
