"""The judgement of a run, the same for pods and child processes: what was seen of it becomes a success or a failed task.

A retry is left to Airflow where it may help, and forbidden where the same run would be refused again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.outcomes import SAME_AGAIN, ExpectedOutcome, require_passed
from airflow_provider_dpone.version_compat import AirflowException, AirflowFailException
from dpone_contract.errors import DponeError, OutcomeInvalidError
from dpone_contract.outcome import parse_outcome

FAILED_OUTCOME_KEY = "dpone_outcome"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evidence:
    """What was seen of a run that has ended.

    `document` is what it left as its outcome, `exit_code` how it ended where that is known (a signal is negative), `reason`
    why there is no outcome, and `refusal` what a retry would meet again.
    """

    document: bytes | None
    exit_code: int | None = None
    reason: str | None = None
    refusal: DponeError | None = None


def judge_run(evidence: Evidence, env_vars: Mapping[str, str], context: Any) -> dict[str, object]:
    """Give the outcome document of a run that did its work; the failed one of a run is kept as XCom `dpone_outcome`.

    Errors: AirflowFailException where a retry cannot help (the run or its pod was refused), else AirflowException.
    """
    try:
        if evidence.refusal is not None and not evidence.document:
            raise evidence.refusal
        expected = ExpectedOutcome.of_env(env_vars)
        outcome = require_passed(evidence.document, expected, evidence.exit_code, evidence.reason)
    except DponeError as error:
        _keep_failed(evidence.document, context)
        raise task_failure(error, evidence.exit_code) from None
    return outcome.to_document()


def task_failure(error: DponeError, exit_code: int | None = None) -> Exception:
    """Give what Airflow is to be told: not to retry where the run was refused, or would find the same again."""
    if SAME_AGAIN & {exit_code, error.exit_code}:
        return AirflowFailException(str(error))
    return AirflowException(str(error))


def _keep_failed(document: bytes | None, context: Any) -> None:
    # Best effort: the task fails for the run's own reason, whatever becomes of this.
    try:
        context["ti"].xcom_push(key=FAILED_OUTCOME_KEY, value=parse_outcome(document or b"").to_document())
    except OutcomeInvalidError:
        return
    except Exception:  # noqa: BLE001  whatever Airflow's API raises
        _log.warning("the failed outcome could not be kept as XCom")
