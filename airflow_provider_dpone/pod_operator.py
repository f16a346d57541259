"""`DponePodOperator`: one `dpone run` in a pod, waited for by a worker or the triggerer, judged by its own outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from airflow_provider_dpone.judgement import Evidence, judge_run
from airflow_provider_dpone.kubernetes_calls import told
from airflow_provider_dpone.pod_manager import SIDECAR
from airflow_provider_dpone.pod_security import literal
from airflow_provider_dpone.pod_status import has_ended, why_not_running
from airflow_provider_dpone.pod_task import PodTask


class DponePodOperator(PodTask):
    """Runs `dpone run` in a pod and fails unless its outcome says that the work is done.

    `settings` are the pod's, plain JSON of `PodArguments`; `arguments` those of `dpone`; `env_vars` (templated) the whole
    environment; `item_labels` names the items of a mapped task in their order.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, Any],
        arguments: Sequence[str],
        env_vars: dict[str, str],
        item_labels: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(
            settings=settings,
            env_vars=env_vars,
            **{
                **kwargs,
                "cmds": ["dpone"],
                "arguments": [literal(argument) for argument in arguments],
                "do_xcom_push": True,
            },
        )
        self.item_labels = item_labels
        self._document: bytes | None = None
        self._missing: str | None = None
        self._unread: Exception | None = None

    def extract_xcom(self, pod: k8s.V1Pod) -> None:
        """Keep what the run left as evidence, and let the pod end.

        Airflow's operator gets nothing, since some of its releases would publish also the outcome of a failed run.
        """
        try:
            self.seen_pod = self.pod_manager.await_run(pod, self.base_container_name)
            if not has_ended(self.seen_pod, self.base_container_name):
                return
            self._missing = why_not_running(self.seen_pod, SIDECAR)
            if self._missing is not None:
                return
            try:
                self._document = self.pod_manager.read_outcome(pod)
            finally:
                self._end_sidecar(pod)
        except (ApiException, HTTPError, OSError) as error:
            self._unread = error
            self.log.warning("the outcome could not be read: %s", told(error))

    def judge(self, context: Any, failure: Exception | None) -> dict[str, object]:
        """Give the outcome document, which Airflow keeps as XCom `return_value`; errors as in `judge_run`."""
        unread = None if self._unread is None else told(self._unread)
        evidence = Evidence(
            document=self._document,
            exit_code=self.exit_code(),
            reason=self.why_ended(self._missing or unread),
            refusal=self.find_refusal(self._unread or failure),
        )
        return judge_run(evidence, self.env_vars, context)

    def _end_sidecar(self, pod: k8s.V1Pod) -> None:
        try:
            self.pod_manager.end_sidecar(pod)
        except (ApiException, HTTPError, OSError) as error:
            self.log.warning("the sidecar could not be asked to end, so the pod is: %s", told(error))
            self.pod_manager.delete_pod(pod)
