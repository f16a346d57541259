"""Airflow's pod trigger, which also sees the end of a pod that failed before its containers had a state."""

from __future__ import annotations

from typing import Any

from airflow.providers.cncf.kubernetes.triggers.pod import ContainerState, KubernetesPodTrigger


class DponePodTrigger(KubernetesPodTrigger):
    """Waits for a pod; older releases of Airflow's trigger would wait for ever for one that was evicted early."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give this class and the arguments of Airflow's."""
        return f"{__name__}.{type(self).__name__}", super().serialize()[1]

    def define_container_state(self, pod: Any) -> ContainerState:
        """Give the state of the run's container; of a pod that ended without one, that it failed."""
        if pod.status is not None and pod.status.phase == "Failed" and not pod.status.container_statuses:
            return ContainerState.FAILED
        return super().define_container_state(pod)
