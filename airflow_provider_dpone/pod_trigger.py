"""Airflow's pod trigger, made patient: it looks again while the API is busy, and sees the end of a pod that never began."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.cncf.kubernetes.triggers.pod import ContainerState, KubernetesPodTrigger

from airflow_provider_dpone.kubernetes_calls import PATIENT_WAITS

# The last line of the traceback in the trigger's event.
_BUSY = re.compile(
    r"(\S*ApiException: \((408|410|429|5\d\d)\)|aiohttp\.|\S*TimeoutError|ConnectionError|OSError)"
)


class DponePodTrigger(KubernetesPodTrigger):
    """Waits for a pod.

    Older releases of Airflow's trigger give up at the first call that fails, and wait for ever for a pod that was evicted
    before its containers had a state.
    """

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give this class and the arguments of Airflow's."""
        return f"{__name__}.{type(self).__name__}", super().serialize()[1]

    async def run(self) -> AsyncIterator[Any]:
        """Give the event of the pod's end, or of what keeps it from being seen."""
        for wait in (*PATIENT_WAITS, None):
            event = None
            async for event in super().run():  # noqa: B007  the last one counts; there is one
                pass
            if event is None or wait is None or not is_busy(event.payload):
                yield event
                return
            self.log.warning("Kubernetes could not tell of the pod, and is asked again in %s seconds", wait)
            self._fired_event = False
            await asyncio.sleep(wait)

    def define_container_state(self, pod: Any) -> ContainerState:
        """Give the state of the run's container; of a pod that ended without one, that it failed."""
        if pod.status is not None and pod.status.phase == "Failed" and not pod.status.container_statuses:
            return ContainerState.FAILED
        return super().define_container_state(pod)


def is_busy(payload: dict[str, Any]) -> bool:
    """Say whether an event tells of nothing but an API that was busy or out of reach."""
    if payload.get("status") != "error":
        return False
    lines = [line for line in str(payload.get("stack_trace") or "").splitlines() if line[:1].strip()]
    return any(_BUSY.match(line) for line in lines[1:])
