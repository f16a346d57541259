"""A private home for the Airflow that these tests import, set before anything imports it."""

import os
import tempfile
import warnings
from pathlib import Path

import pytest

HOME = tempfile.TemporaryDirectory(prefix="dpone-airflow-home-")
os.environ["AIRFLOW_HOME"] = HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

with warnings.catch_warnings():
    # Airflow's own deprecations, at its import and in whatever it imports on first use, are not ours to mend.
    warnings.simplefilter("ignore")
    import airflow_provider_dpone.dags
    import airflow_provider_dpone.task_group  # noqa: F401


def pytest_unconfigure() -> None:
    HOME.cleanup()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.airflow)
            # The same holds while it runs; a warning of ours is still an error.
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::UserWarning"))
