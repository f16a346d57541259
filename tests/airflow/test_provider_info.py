"""How Airflow and a DAG author find the provider."""

import subprocess
import sys
from importlib.metadata import entry_points, version

import pytest

import airflow_provider_dpone
from airflow_provider_dpone.provider_info import get_provider_info

PUBLIC = (
    "DponeDag",
    "DponePodOperator",
    "DponeProcessOperator",
    "DponeTaskGroup",
    "__version__",
    "load_dpone_dags",
)


def run(program):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_provider_info_has_the_keys_that_airflow_requires():
    info = get_provider_info()
    assert {"package-name", "name", "description", "versions"} <= set(info)
    assert info["package-name"] == "airflow-provider-dpone"
    assert info["versions"][0] == airflow_provider_dpone.__version__


def test_distribution_registers_its_info_under_its_own_name():
    (found,) = (
        point
        for point in entry_points(group="apache_airflow_provider")
        if point.dist is not None and point.dist.name == "airflow-provider-dpone"
    )
    assert found.load()()["package-name"] == found.dist.name
    assert version("airflow-provider-dpone") == airflow_provider_dpone.__version__


def test_airflow_lists_the_provider():
    program = (
        "from airflow.providers_manager import ProvidersManager\n"
        "found = ProvidersManager().providers['airflow-provider-dpone']\n"
        "print(found.version, found.data['name'])"
    )
    assert run(program) == f"{airflow_provider_dpone.__version__} dpone"


@pytest.mark.parametrize("name", PUBLIC)
def test_both_import_paths_give_the_same_names(name):
    from airflow.providers import dpone

    assert name in dpone.__all__
    assert getattr(dpone, name) is getattr(airflow_provider_dpone, name)


def test_public_names_are_these():
    assert sorted(airflow_provider_dpone.__all__) == sorted(PUBLIC)
    assert set(PUBLIC) <= set(dir(airflow_provider_dpone))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = airflow_provider_dpone.nothing


@pytest.mark.parametrize("module", ["airflow_provider_dpone", "airflow_provider_dpone.provider_info"])
def test_discovery_imports_nothing_of_airflow(module):
    program = (
        f"import sys, {module}\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('airflow', 'pydantic')))"
    )
    assert run(program) == "[]"
