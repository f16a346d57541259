"""Packs of pods are compiled to the golden bytes, and `dpone airflow preview` tells of them in the golden words."""

from pathlib import Path

import pytest

from dpone_contract.pack import dump_pack, parse_pack
from dpone_packbuilder.cli import run_command_line
from tests.golden.golden_files import assert_golden, assert_golden_text
from tests.golden.pod_packs import PROJECTS, compile_pod_pack

FOLDER = Path(__file__).with_name("pods")


@pytest.mark.parametrize("name", PROJECTS)
def test_a_workload_of_pods_compiles_to_the_golden_bytes(tmp_path, name):
    golden = FOLDER / f"{name}.pack.json"
    pack = compile_pod_pack(tmp_path, name)
    assert_golden(golden, dump_pack(pack))
    assert pack == parse_pack(golden.read_bytes())


@pytest.mark.parametrize("form", ["text", "md", "json"])
@pytest.mark.parametrize("name", PROJECTS)
def test_a_built_pack_is_previewed_in_the_golden_words(capsys, name, form):
    arguments = ["airflow", "preview", "--pack", str(FOLDER / f"{name}.pack.json"), "--format", form]
    assert run_command_line(arguments) == 0
    captured = capsys.readouterr()
    assert_golden_text(FOLDER / f"{name}.preview.{form.replace('text', 'txt')}", captured.out)
    assert captured.err == ""
