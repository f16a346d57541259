"""The judgement of a whole campaign by what the tasks of one DAG run have left: one of them has to say that it is complete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpone_contract.errors import OutcomeInvalidError, OutcomeNotPassedError, located
from dpone_contract.outcome import BackfillOutcome, OutcomeStatus, RunOutcome, parse_outcome

LOADED = frozenset({"complete", "published"})
SWAPPED = frozenset({"published"})
_ITEMS_NAMED = 5


@dataclass(frozen=True)
class ExpectedCampaign:
    """What the tasks of one DAG run were asked for; `item_labels` has one entry an item, none for a single task.

    `swaps`: its rows are in its target only once it is published.
    """

    process_digest: str
    dag_id: str
    dag_run_id: str
    mapping_plan_fingerprint: str | None = None
    item_labels: Sequence[str] = ()
    swaps: bool = False

    @property
    def end(self) -> frozenset[str]:
        """The states of a campaign whose rows are all in its target."""
        return SWAPPED if self.swaps else LOADED


def require_complete(documents: Iterable[object], expected: ExpectedCampaign) -> RunOutcome:
    """Require an outcome that says the campaign is complete, or published where it has to be, and none that contradicts; give it.

    An item without an outcome does no harm: whoever saw the campaign complete saw that item's chunks committed too. Nor does
    one of another process or plan, which an earlier pack has left in the same DAG run: Airflow keeps those of items that
    there are no more.

    Errors: OutcomeInvalidError for a damaged, foreign or contradictory document, OutcomeNotPassedError where none says so.
    """
    with located(f"DAG {expected.dag_id}, run {expected.dag_run_id}"):
        outcomes = [_of_this_run(document, expected) for document in documents]
        own = [
            (outcome, outcome.backfill)
            for outcome in outcomes
            if outcome.backfill is not None and _is_of_plan(outcome, outcome.backfill, expected)
        ]
        found = [backfill for _, backfill in own]
        _require_one_campaign(found)
        latest = max((backfill.round for backfill in found), default=0)
        for outcome, backfill in own:
            if backfill.round == latest and backfill.campaign_status in expected.end:
                return outcome
        raise _incomplete(found, len(outcomes) - len(own), expected)


def _of_this_run(document: object, expected: ExpectedCampaign) -> RunOutcome:
    outcome = parse_outcome(json.dumps(document).encode())
    for what, wanted, got in (
        ("DAG", expected.dag_id, outcome.attempt.dag_id),
        ("DAG run", expected.dag_run_id, outcome.attempt.dag_run_id),
        ("status", OutcomeStatus.PASSED, outcome.status),
    ):
        if wanted != got:
            raise _contradiction(f"an outcome is of another {what}: {got} instead of {wanted}")
    return outcome


def _is_of_plan(outcome: RunOutcome, backfill: BackfillOutcome, expected: ExpectedCampaign) -> bool:
    plan = None if backfill.mapping is None else backfill.mapping.plan_fingerprint
    return (outcome.process_digest, plan) == (expected.process_digest, expected.mapping_plan_fingerprint)


def _require_one_campaign(found: Sequence[BackfillOutcome]) -> None:
    if len({(backfill.run_key, backfill.plan_hash) for backfill in found}) > 1:
        raise _contradiction("the outcomes are of different campaigns")


def _contradiction(message: str) -> OutcomeInvalidError:
    return OutcomeInvalidError(
        message,
        next_step="clear the task before this one with all its items; committed chunks will be skipped",
    )


def _incomplete(
    found: Sequence[BackfillOutcome], others: int, expected: ExpectedCampaign
) -> OutcomeNotPassedError:
    seen = {backfill.mapping.item_index for backfill in found if backfill.mapping is not None}
    missing = [label for index, label in enumerate(expected.item_labels) if index not in seen]
    if found:
        last = max(found, key=lambda backfill: (backfill.round, backfill.campaign_chunks_committed))
        counted = f"{last.campaign_chunks_committed} of {last.chunks_total} chunks were committed"
        said = f"campaign {last.run_key} is {last.campaign_status}, {counted} when it was last seen"
    else:
        said = "no task has left an outcome"
    if others:
        said += f"; {others} left one of another process or plan, as before the pack was changed"
    if missing:
        named = ", ".join(missing[:_ITEMS_NAMED])
        more = f" and {len(missing) - _ITEMS_NAMED} more" if len(missing) > _ITEMS_NAMED else ""
        said += f"; without an outcome, as after being marked successful by hand: {named}{more}"
    return OutcomeNotPassedError(
        f"nothing says that the campaign is {'published' if expected.swaps else 'complete'}: {said}",
        next_step=("clear these items" if missing else "clear the task before this one")
        + ", and then this task; committed chunks will be skipped",
    )
