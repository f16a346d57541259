"""The trigger that waits for a pod is patient with a busy API, and sees every end."""

import asyncio
import copy
from datetime import UTC, datetime

import pytest
from kubernetes_asyncio.client import models as k8s
from kubernetes_asyncio.client.exceptions import ApiException

from airflow_provider_dpone import pod_trigger
from airflow_provider_dpone.kubernetes_calls import PATIENT_WAITS
from airflow_provider_dpone.pod_trigger import DponePodTrigger


def make_pod(phase, exit_code=None):
    state = None
    if exit_code is not None:
        state = k8s.V1ContainerState(terminated=k8s.V1ContainerStateTerminated(exit_code=exit_code))
    statuses = None
    if state is not None:
        statuses = [
            k8s.V1ContainerStatus(
                name="base", image="i", image_id="", ready=False, restart_count=0, state=state
            )
        ]
    return k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name="mine", namespace="loads"),
        status=k8s.V1PodStatus(phase=phase, container_statuses=statuses),
    )


class HookStandIn:
    """Gives the answers in turn, the last one for ever; a failure is raised."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def get_pod(self, *_args, **_named):
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise copy.copy(answer)
        return answer

    async def watch_pod_events(self, *_args, **_named):
        await asyncio.sleep(0)
        for event in ():
            yield event


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    pause = asyncio.sleep

    async def no_pause(_seconds, *_):
        await pause(0)

    monkeypatch.setattr(asyncio, "sleep", no_pause)


def event_of(*answers):
    trigger = DponePodTrigger(
        pod_name="mine",
        pod_namespace="loads",
        trigger_start_time=datetime.now(UTC),
        base_container_name="base",
        startup_check_interval=0,
    )
    trigger.hook = hook = HookStandIn(*answers)

    async def first():
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(first())
    return event.payload, hook


@pytest.mark.parametrize("exit_code, status", [(0, "success"), (1, "failed")])
def test_it_tells_how_the_run_ended(exit_code, status):
    payload, _ = event_of(make_pod("Running", exit_code))
    assert (payload["status"], payload["name"], payload["namespace"]) == (status, "mine", "loads")


@pytest.mark.parametrize("status", [410, 429, 500, 503])
def test_a_busy_api_is_asked_again(status):
    payload, _ = event_of(ApiException(status=status), ApiException(status=status), make_pod("Running", 0))
    assert payload["status"] == "success"


def test_an_api_that_stays_busy_ends_the_asking():
    payload, hook = event_of(ApiException(status=500))
    assert payload["status"] == "error"
    # Newer releases ask three times each.
    assert hook.asked in (len(PATIENT_WAITS) + 1, 3 * (len(PATIENT_WAITS) + 1))


@pytest.mark.parametrize("status", [403, 404])
def test_another_answer_is_told_at_once(status):
    payload, hook = event_of(ApiException(status=status))
    assert payload["status"] == "error"
    assert hook.asked <= 3


def test_a_pod_that_was_evicted_before_it_began_has_failed():
    payload, _ = event_of(make_pod("Failed"))
    assert payload["status"] in ("failed", "error")


def test_a_pod_that_is_evicted_while_it_is_waited_for_has_failed():
    payload, _ = event_of(make_pod("Running"), make_pod("Running"), make_pod("Failed"))
    assert payload["status"] == "failed"


@pytest.mark.parametrize(
    "payload, busy",
    [
        ({"status": "success"}, False),
        ({"status": "timeout", "stack_trace": "T\naiohttp.ClientError: x"}, False),
        ({"status": "error", "message": "m"}, False),
        (
            {
                "status": "error",
                "stack_trace": "T\n  File x\naiohttp.client_exceptions.ServerDisconnectedError: gone",
            },
            True,
        ),
        (
            {
                "status": "error",
                "stack_trace": "T\nkubernetes_asyncio.client.exceptions.ApiException: (500)\nReason: x",
            },
            True,
        ),
        (
            {
                "status": "error",
                "stack_trace": "T\nkubernetes_asyncio.client.exceptions.ApiException: (404)\nReason: x",
            },
            False,
        ),
        ({"status": "error", "stack_trace": "T\nValueError: aiohttp."}, False),
    ],
)
def test_what_counts_as_busy(payload, busy):
    assert pod_trigger.is_busy(payload) is busy
