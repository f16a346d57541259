"""The three wheels hold what they promise and nothing else."""

import configparser
import email
import os
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT, ROOT / "runtime", ROOT / "packbuilder")


class Wheel:
    """A built wheel, opened."""

    def __init__(self, path: Path) -> None:
        self.archive = zipfile.ZipFile(path)
        self.names = set(self.archive.namelist())

    def tops(self) -> set[str]:
        return {name.split("/")[0] for name in self.names if ".dist-info/" not in name}

    def info(self, name: str) -> str:
        (found,) = (each for each in self.names if each.endswith(f".dist-info/{name}"))
        return self.archive.read(found).decode()

    def metadata(self) -> Message:
        return email.message_from_string(self.info("METADATA"))

    def entry_points(self, group: str) -> dict[str, str]:
        parser = configparser.ConfigParser(delimiters=("=",))
        parser.read_string(self.info("entry_points.txt"))
        return dict(parser[group])


def build(folder: str, target: Path) -> Wheel:
    """Build without isolation, from what is installed: no network."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=ROOT / folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1577836800"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = target.glob("*.whl")
    return Wheel(path)


@pytest.fixture(scope="module")
def provider(tmp_path_factory):
    wheel = build(".", tmp_path_factory.mktemp("provider"))
    yield wheel
    wheel.archive.close()


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    wheel = build("runtime", tmp_path_factory.mktemp("runtime"))
    yield wheel
    wheel.archive.close()


@pytest.fixture(scope="module")
def packbuilder(tmp_path_factory):
    wheel = build("packbuilder", tmp_path_factory.mktemp("packbuilder"))
    yield wheel
    wheel.archive.close()


def test_provider_holds_its_package_and_the_published_import_path(provider):
    assert {"airflow_provider_dpone", "airflow"} == provider.tops()
    assert {"airflow/providers/dpone/__init__.py"} == {
        name for name in provider.names if name.startswith("airflow/")
    }


def test_published_import_path_is_the_namespace_face(provider):
    face = (ROOT / "airflow_provider_dpone/namespace_face.py").read_bytes()
    assert face == provider.archive.read("airflow/providers/dpone/__init__.py")


def test_provider_registers_with_airflow(provider):
    assert {
        "provider_info": "airflow_provider_dpone.provider_info:get_provider_info"
    } == provider.entry_points("apache_airflow_provider")


def test_runtime_holds_its_package_only(runtime):
    assert {"dpone_runtime"} == runtime.tops()


def test_runtime_brings_its_verbs(runtime):
    assert {
        "run": "dpone_runtime.cli:run_command",
        "backfill": "dpone_runtime.cli:backfill_commands",
        "state": "dpone_runtime.cli:state_commands",
    } == runtime.entry_points("dpone.commands")


def test_packbuilder_holds_the_compiler_and_the_contract(packbuilder):
    assert {"dpone_contract", "dpone_packbuilder"} == packbuilder.tops()


def test_packbuilder_owns_the_command(packbuilder):
    assert {"dpone": "dpone_packbuilder.cli:main"} == packbuilder.entry_points("console_scripts")


@pytest.mark.parametrize("name", ["provider", "runtime", "packbuilder"])
def test_wheel_is_typed_and_holds_every_file_of_its_packages(name, request):
    wheel = request.getfixturevalue(name)
    for top in wheel.tops() - {"airflow"}:
        (package,) = (folder / top for folder in FOLDERS if (folder / top).is_dir())
        expected = {
            f"{top}/{path.relative_to(package).as_posix()}"
            for path in package.rglob("*")
            if path.suffix in {".py", ".sql"} or path.name == "py.typed"
        }
        # Hatchling moves what it is forced to include: the face is at the published path only.
        expected.discard("airflow_provider_dpone/namespace_face.py")
        assert f"{top}/py.typed" in expected
        assert set() == expected - wheel.names


@pytest.mark.parametrize("name", ["provider", "runtime", "packbuilder"])
def test_wheel_states_its_licence_and_oldest_python(name, request):
    metadata = request.getfixturevalue(name).metadata()
    assert "Apache-2.0" == metadata["License-Expression"]
    assert ">=3.11" == metadata["Requires-Python"]
