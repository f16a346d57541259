"""The DAG file of the quickstart loads packs from where it says."""

import shutil
from pathlib import Path

from tests.airflow.airflow_stand_ins import dag_bag
from tests.factories import make_pack, write_pack_file

DAG_FILE = Path(__file__).parents[2] / "example_dags/quickstart/dags/flights_history.py"


def test_packs_come_from_the_folder_that_the_variable_names(tmp_path, monkeypatch):
    write_pack_file(tmp_path / "elsewhere", make_pack("one"))
    monkeypatch.setenv("DPONE_PACKS_DIR", str(tmp_path / "elsewhere"))
    bag = dag_bag(DAG_FILE)
    assert (set(bag.dags), bag.import_errors) == ({"one"}, {})


def test_packs_come_from_beside_the_file_otherwise(tmp_path, monkeypatch):
    monkeypatch.delenv("DPONE_PACKS_DIR", raising=False)
    write_pack_file(tmp_path / "packs", make_pack("two"))
    shutil.copy(DAG_FILE, tmp_path)
    bag = dag_bag(tmp_path)
    assert (set(bag.dags), bag.import_errors) == ({"two"}, {})
