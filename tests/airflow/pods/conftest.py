"""A Kubernetes API to test against, one for all tests, empty at the start of each."""

from collections.abc import Iterator

import pytest
from kubernetes import client, config

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
