"""Every error a user can meet: one class a stable code, each saying what happened, whether a retry helps and what to do.

The docstring of a class is its entry in the error catalogue. No error holds a predicate, a row value, a credential or a
connection string.
"""

from __future__ import annotations

from dpone_contract.errors.authoring import (
    ManifestInvalidError,
    NotSupportedError,
    PlanInvalidError,
    PlanMovedError,
    UsageError,
)
from dpone_contract.errors.campaign import (
    CampaignBusyError,
    CampaignDriftError,
    CampaignLeaseLostError,
    CampaignMissingError,
    CampaignStoppedError,
    ChunkBusyError,
    ChunkFailedError,
    ChunkLeaseLostError,
    ContentDiffersError,
    InterruptedRunError,
    LaneLostError,
    NullsFoundError,
    OverlapError,
    RowsDifferError,
    StateUnsupportedError,
    VerificationIncompleteError,
    VerificationMismatchError,
)
from dpone_contract.errors.codes import ErrorCode, ExitCode
from dpone_contract.errors.database import (
    ColumnsDifferError,
    ConnectionFailedError,
    ConnectionInvalidError,
    ConnectionMissingError,
    DatabaseFailedError,
    LedgerFileFailedError,
    LedgerFileInvalidError,
    LedgerMissingError,
    SessionUnsafeError,
    TableMissingError,
    TableUnsuitableError,
)
from dpone_contract.errors.handover import (
    HookFailedError,
    OutcomeInvalidError,
    OutcomeNotPassedError,
    PackInvalidError,
    PackTooLargeError,
    PodRefusedError,
    RetryAuthorityExceededError,
    RunContextInvalidError,
)
from dpone_contract.errors.mapping import (
    MappingCampaignBusyError,
    MappingItemInvalidError,
    MappingParallelismMultiplierError,
    MappingPlanMismatchError,
    MappingPolicyInvalidError,
    MappingPoolRequiredError,
    MappingRequiresChunkedBackfillError,
    MappingStateUnsupportedError,
    MappingTaskLimitExceededError,
    MappingUnsupportedError,
)
from dpone_contract.errors.publication import (
    PublicationBusyError,
    PublicationMismatchError,
    PublicationRefusedError,
)
from dpone_contract.errors.root import DponeError, InternalError, located

__all__ = [
    "CampaignBusyError",
    "CampaignDriftError",
    "CampaignLeaseLostError",
    "CampaignMissingError",
    "CampaignStoppedError",
    "ChunkBusyError",
    "ChunkFailedError",
    "ChunkLeaseLostError",
    "ColumnsDifferError",
    "ConnectionFailedError",
    "ConnectionInvalidError",
    "ConnectionMissingError",
    "ContentDiffersError",
    "DatabaseFailedError",
    "DponeError",
    "ErrorCode",
    "ExitCode",
    "HookFailedError",
    "InternalError",
    "InterruptedRunError",
    "LaneLostError",
    "LedgerFileFailedError",
    "LedgerFileInvalidError",
    "LedgerMissingError",
    "ManifestInvalidError",
    "MappingCampaignBusyError",
    "MappingItemInvalidError",
    "MappingParallelismMultiplierError",
    "MappingPlanMismatchError",
    "MappingPolicyInvalidError",
    "MappingPoolRequiredError",
    "MappingRequiresChunkedBackfillError",
    "MappingStateUnsupportedError",
    "MappingTaskLimitExceededError",
    "MappingUnsupportedError",
    "NotSupportedError",
    "NullsFoundError",
    "OutcomeInvalidError",
    "OutcomeNotPassedError",
    "OverlapError",
    "PackInvalidError",
    "PackTooLargeError",
    "PlanInvalidError",
    "PlanMovedError",
    "PodRefusedError",
    "PublicationBusyError",
    "PublicationMismatchError",
    "PublicationRefusedError",
    "RetryAuthorityExceededError",
    "RowsDifferError",
    "RunContextInvalidError",
    "SessionUnsafeError",
    "StateUnsupportedError",
    "TableMissingError",
    "TableUnsuitableError",
    "UsageError",
    "VerificationIncompleteError",
    "VerificationMismatchError",
    "advice_of",
    "error_class",
    "located",
]


def error_class(code: str) -> type[DponeError]:
    """Give the class of a code, InternalError for one that this release does not know."""
    classes = {kind.code.value: kind for kind in _subclasses(DponeError)}
    return classes.get(code, InternalError)


def advice_of(code: str) -> str | None:
    """Give what the catalogue says is to be done about a code; None where Python was told to keep no docstrings."""
    told = " ".join((error_class(code).__doc__ or "").split())
    _, found, advice = told.rpartition(" Do: ")
    return advice if found else None


def _subclasses(kind: type[DponeError]) -> list[type[DponeError]]:
    return [found for child in kind.__subclasses__() for found in (child, *_subclasses(child))]
