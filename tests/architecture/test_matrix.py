"""compat-matrix/matrix.toml, tox.ini, the constraints files and the CI workflow name the same cells."""

import configparser
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / "compat-matrix"
CELLS = tomllib.loads((MATRIX / "matrix.toml").read_text(encoding="utf-8"))["cell"]


def environment_name(cell: dict[str, str]) -> str:
    return f"airflow-{cell['airflow']}-py{cell['python']}"


def read_tox() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini", encoding="utf-8")
    return parser


NAMES = {environment_name(cell) for cell in CELLS}
each_cell = pytest.mark.parametrize("cell", CELLS, ids=environment_name)


def test_tox_has_one_environment_for_every_cell_and_no_other():
    sections = {name.removeprefix("testenv:") for name in read_tox().sections()}
    assert NAMES == {name for name in sections if name.startswith("airflow-")}


def test_tox_runs_every_cell_by_default():
    listed = re.split(r"[,\s]+", read_tox()["tox"]["env_list"].strip())
    assert NAMES == {name for name in listed if name.startswith("airflow-")}


def test_ci_runs_every_environment_that_tox_runs_by_default():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^\s+environment: \[(.*)\]$", workflow, re.MULTILINE)
    assert re.split(r",\s*", read_tox()["tox"]["env_list"]) == re.split(r",\s*", listed)


@each_cell
def test_environment_uses_the_cells_python_and_constraints(cell):
    section = read_tox()[f"testenv:{environment_name(cell)}"]
    deps = section["deps"].replace("{/}", "/")
    assert f"python{cell['python']}" == section["base_python"]
    assert f"-c {{tox_root}}/compat-matrix/{cell['constraints']}" in deps


@each_cell
def test_every_cell_can_be_measured(cell):
    name = environment_name(cell)
    section = read_tox()[f"testenv:{name.replace('airflow', 'bench')}"]
    assert (f"{{[testenv:{name}]deps}}", f"python{cell['python']}") == (
        section["deps"],
        section["base_python"],
    )


@each_cell
def test_constraints_pin_the_cells_airflow(cell):
    lines = (MATRIX / cell["constraints"]).read_text(encoding="utf-8").splitlines()
    assert f"apache-airflow=={cell['airflow']}" in lines


@each_cell
def test_constraints_pin_everything_exactly(cell):
    lines = (MATRIX / cell["constraints"]).read_text(encoding="utf-8").splitlines()
    assert [] == [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+-]+( ;.*)?", line)]


def test_no_constraints_file_is_left_over():
    found = {path.relative_to(MATRIX).as_posix() for path in (MATRIX / "constraints").iterdir()}
    assert {cell["constraints"] for cell in CELLS} == found
