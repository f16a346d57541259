"""A Kubernetes API to test against, one for all tests, empty at the start of each."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from tests.airflow.pods.airflow_process import AirflowProcess, migrated_database
from tests.airflow.pods.pod_runs import PodRuns
from tests.integration.campaigns import opened_history
from tests.kubernetes_api.image import Isolation, find_isolation
from tests.kubernetes_api.kubernetes_api import KubernetesApi

# Where a machine allows no namespaces, the other way is the only one.
ISOLATIONS = [each.value for each in ({find_isolation(), Isolation.PROCESSES})]


@pytest.fixture(scope="session")
def running_api() -> Iterator[KubernetesApi]:
    """A started API, as far apart from the machine as it allows."""
    with KubernetesApi() as started:
        yield started


@pytest.fixture
def api(running_api: KubernetesApi) -> Iterator[KubernetesApi]:
    """An API without pods, orders, secrets and calls."""
    yield running_api
    running_api.reset()


@pytest.fixture(scope="session", params=sorted(ISOLATIONS))
def running_either_api(request: pytest.FixtureRequest, running_api: KubernetesApi) -> Iterator[KubernetesApi]:
    """An API of each isolation that this machine has."""
    if request.param == running_api.isolation:
        yield running_api
        return
    with KubernetesApi(isolation=request.param) as started:
        yield started


@pytest.fixture
def either_api(running_either_api: KubernetesApi) -> Iterator[KubernetesApi]:
    """The same, empty."""
    yield running_either_api
    running_either_api.reset()


@pytest.fixture
def core(either_api: KubernetesApi) -> Iterator[client.CoreV1Api]:
    """Kubernetes' own client of the API."""
    with config.new_client_from_config(str(either_api.kubeconfig)) as connected:
        yield client.CoreV1Api(connected)


@pytest.fixture(scope="session")
def airflow_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's database as it is after its creation."""
    return migrated_database(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="session")
def running_airflow(
    tmp_path_factory: pytest.TempPathFactory, airflow_template: Path, running_api: KubernetesApi
) -> Iterator[AirflowProcess]:
    """One Airflow for all tests, since its start is what takes longest; every test has DAG runs of its own."""
    environ = {"KUBECONFIG": str(running_api.kubeconfig)}
    process = AirflowProcess(tmp_path_factory.mktemp("airflow"), airflow_template, environ)
    yield process
    process.stop()


@pytest.fixture(scope="session")
def running_other_airflow(
    tmp_path_factory: pytest.TempPathFactory, airflow_template: Path, running_api: KubernetesApi
) -> Iterator[AirflowProcess]:
    """A second one, beside the first or to be killed."""
    environ = {"KUBECONFIG": str(running_api.kubeconfig)}
    process = AirflowProcess(tmp_path_factory.mktemp("other"), airflow_template, environ)
    yield process
    process.stop()


@pytest.fixture
def other(running_other_airflow: AirflowProcess) -> Iterator[AirflowProcess]:
    """That one."""
    yield running_other_airflow
    sys.stdout.write(running_other_airflow.log())
    running_other_airflow.drop_run()


@pytest.fixture
def pods(
    database: str, tmp_path: Path, api: KubernetesApi, running_airflow: AirflowProcess
) -> Iterator[PodRuns]:
    """Ten days of rows, an empty target, a cluster and an Airflow."""
    with opened_history(database, tmp_path) as history:
        yield PodRuns(history, api, running_airflow)
        # Shown beside a test that has failed.
        sys.stdout.write(running_airflow.log())
        running_airflow.drop_run()
        api.reset()
