"""`DponePodOperator`: one `dpone run` in a pod, waited for by a worker or the triggerer, judged by its own outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from airflow_provider_dpone.judgement import Evidence, judge_run
from airflow_provider_dpone.kubernetes_calls import told
from airflow_provider_dpone.pod_manager import SIDECAR
from airflow_provider_dpone.pod_status import exit_code_of, is_running
from airflow_provider_dpone.pod_task import PodTask
from airflow_provider_dpone.version_compat import TaskDeferred


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
            **{**kwargs, "cmds": ["dpone"], "arguments": list(arguments), "do_xcom_push": True},
        )
        self.item_labels = item_labels
        self._document: bytes | None = None
        self._unread: Exception | None = None
        self._judged: dict[str, object] | Exception | None = None

    def execute(self, context: Any) -> Any:
        """Run the pod and give its outcome document, which Airflow keeps as XCom `return_value`.

        Deferred, the worker is free while the pod runs. Errors: as in `judge_run`.
        """
        return self._watch(context, lambda: self.run_pod(context))

    def trigger_reentry(self, context: Any, event: dict[str, Any]) -> Any:
        """Judge the pod once the triggerer has seen its end; what the triggerer says of it is no evidence."""
        self.own_pod = k8s.V1Pod(metadata=k8s.V1ObjectMeta(name=event["name"], namespace=event["namespace"]))
        if event.get("status") == "timeout":
            self.end_running_pod()
        return self._watch(context, lambda: super(DponePodOperator, self).trigger_reentry(context, event))

    def extract_xcom(self, pod: k8s.V1Pod) -> None:
        """Keep what the run left as evidence, and let the pod end.

        Airflow's operator gets nothing, since some of its releases would publish also the outcome of a failed run.
        """
        try:
            self.seen_pod = self.pod_manager.await_run(pod, self.base_container_name)
            if not is_running(self.seen_pod, SIDECAR):
                return
            try:
                self._document = self.pod_manager.read_outcome(pod)
            finally:
                self._end_sidecar(pod)
        except (ApiException, HTTPError, OSError) as error:
            self._unread = error
            self.log.warning("the outcome could not be read: %s", told(error))

    def _end_sidecar(self, pod: k8s.V1Pod) -> None:
        if exit_code_of(self.seen_pod, self.base_container_name) is None:
            return
        try:
            self.pod_manager.end_sidecar(pod)
        except (ApiException, HTTPError, OSError) as error:
            self.log.warning("the sidecar could not be asked to end, so the pod is: %s", told(error))
            self.pod_manager.delete_pod(pod)

    def _watch(self, context: Any, run: Callable[[], Any]) -> Any:
        failure: Exception | None = None
        try:
            run()
        except TaskDeferred:
            raise
        except Exception as error:  # noqa: BLE001  the boundary to Airflow's operator, whose word is not the judgement
            failure = error
        if self._judged is None:
            self._judged = self._judge(context, failure)
        if isinstance(self._judged, Exception):
            raise self._judged from None
        return self._judged

    def _judge(self, context: Any, failure: Exception | None) -> dict[str, object] | Exception:
        error = self._unread or failure
        if self._document is None:
            self.look_at_own_pod()
        if failure is not None:
            self.log.info("Airflow's pod operator ended with %s", told(failure))
        evidence = Evidence(
            document=self._document,
            exit_code=self.exit_code(),
            reason=self.why_ended(error),
            refusal=self.find_refusal(error),
        )
        try:
            return judge_run(evidence, self.env_vars, context)
        except Exception as judged:  # noqa: BLE001  Airflow's own classes; kept, since a deferral may come here twice
            return judged
