"""Errors of publication by shadow swap."""

from __future__ import annotations

from dpone_contract.errors.codes import ErrorCode, ExitCode
from dpone_contract.errors.root import DponeError


class PublicationRefusedError(DponeError):
    """The live table has something that its shadow cannot have too, or one of both tables is not what it was.

    Raised: before anything is loaded, while a shadow is made or found again; and before the swap, which is then not made.

    Retry: no. Do: what the message names: take the surface away, restore what changed, or load with publication `direct`.
    """

    code = ErrorCode.BACKFILL_PUBLICATION_REFUSED


class PublicationMismatchError(DponeError):
    """The shadow does not hold what was committed, holds a key twice, or rows that an index does not take; nothing was swapped.

    Raised: before the swap, which is not made.

    Retry: no. Do: find out who wrote to the shadow, or mend the source's rows; then load it again, as the message says.
    """

    code = ErrorCode.BACKFILL_PUBLICATION_MISMATCH
    exit_code = ExitCode.VERIFICATION_MISMATCH


class PublicationBusyError(DponeError):
    """Others held the live table or its shadow for longer than it is useful to wait; everything is loaded, nothing was swapped.

    Raised: by whatever run finds the campaign complete and not published.

    Retry: yes. Do: end the sessions that the message names, or wait for them, then run it again; no row is moved for it.
    """

    code = ErrorCode.BACKFILL_PUBLICATION_BUSY
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
