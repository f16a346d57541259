"""The three distributions and the provider metadata are released under one version."""

import tomllib
from pathlib import Path

import pytest

from airflow_provider_dpone.provider_info import get_provider_info

ROOT = Path(__file__).parents[2]
PROJECTS = ("pyproject.toml", "runtime/pyproject.toml", "packbuilder/pyproject.toml")


def project_table(path: str) -> dict[str, object]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]


VERSION = str(project_table("pyproject.toml")["version"])


@pytest.mark.parametrize("path", PROJECTS)
def test_every_project_has_the_version_of_the_provider(path):
    assert VERSION == project_table(path)["version"]


@pytest.mark.parametrize("path", ["pyproject.toml", "runtime/pyproject.toml"])
def test_the_pack_builder_is_required_at_exactly_this_version(path):
    assert f"dpone-packbuilder == {VERSION}" in project_table(path)["dependencies"]


def test_provider_info_states_the_version_first():
    assert VERSION == get_provider_info()["versions"][0]


def test_provider_info_is_named_as_the_distribution():
    assert project_table("pyproject.toml")["name"] == get_provider_info()["package-name"]
