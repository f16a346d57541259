"""The gate behind a runtime task: what stands behind it, and its outlets, wait for a campaign that is complete by evidence.

Airflow's task states are no evidence: somebody may have marked an item successful that has never run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from airflow_provider_dpone.campaign_evidence import ExpectedCampaign, require_complete
from airflow_provider_dpone.judgement import task_failure
from airflow_provider_dpone.version_compat import AirflowFailException, Asset, BaseOperator
from dpone_contract.errors import DponeError

# Also behind items that were skipped; not behind one that failed.
TRIGGER_RULE = "none_failed_min_one_success"


def build_outlets(uris: Iterable[str]) -> list[Asset]:
    """Give one asset a URI, in order: Assets on Airflow 3, Datasets on Airflow 2."""
    return [Asset(uri) for uri in uris]


class DponeOutcomeGate(BaseOperator):
    """Passes once the outcomes of the task before it say that the campaign is complete, and published where it has to be.

    Its outlets are updated then, once.
    """

    ui_color = "#e8f3dc"

    def __init__(
        self,
        *,
        runtime_task_id: str,
        process_digest: str,
        mapping_plan_fingerprint: str | None = None,
        item_labels: Sequence[str] = (),
        swaps: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "trigger_rule": TRIGGER_RULE})
        self.runtime_task_id = runtime_task_id
        self.process_digest = process_digest
        self.mapping_plan_fingerprint = mapping_plan_fingerprint
        self.item_labels = item_labels
        self.swaps = swaps

    def execute(self, context: Any) -> dict[str, object]:
        """Give run key, state and counts of the campaign; Errors: AirflowFailException unless its rows are all there."""
        ti = context["ti"]
        expected = ExpectedCampaign(
            self.process_digest,
            ti.dag_id,
            context["run_id"],
            self.mapping_plan_fingerprint,
            self.item_labels,
            swaps=self.swaps,
        )
        # Asked by a list, every Airflow gives those of all items, and nothing where there is none.
        documents = [found for found in ti.xcom_pull(task_ids=[self.runtime_task_id]) if found is not None]
        try:
            complete = require_complete(documents, expected).backfill
        except DponeError as error:
            raise AirflowFailException(str(task_failure(error))) from None
        assert complete is not None
        self.log.info("campaign %s is %s", complete.run_key, complete.campaign_status)
        return {
            "run_key": complete.run_key,
            "campaign_status": complete.campaign_status,
            "chunks_total": complete.chunks_total,
            "outcomes": len(documents),
        }
