"""Errors of what people write: manifests, catalogs, commands and windows."""

from __future__ import annotations

from dpone_contract.errors.codes import ErrorCode
from dpone_contract.errors.root import DponeError


class ManifestInvalidError(DponeError):
    """A manifest or catalog is malformed: bad YAML, an unknown, duplicate or misplaced key, a value of the wrong kind.

    Retry: no. Do: mend the file at the place given.
    """

    code = ErrorCode.MANIFEST_INVALID


class NotSupportedError(DponeError):
    """The file asks for something that is part of the contract but that this release cannot do yet.

    Retry: no. Do: remove the key, or use a release that supports it. Such a key is never ignored.
    """

    code = ErrorCode.NOT_SUPPORTED


class UsageError(DponeError):
    """A command was called with arguments that do not fit together.

    Retry: no. Do: see the command's --help.
    """

    code = ErrorCode.USAGE


class PlanInvalidError(DponeError):
    """A chunk window cannot be planned: empty, reversed, too many chunks, or a kind or step that does not fit.

    Retry: no. Do: mend `backfill.chunk` as the message says.
    """

    code = ErrorCode.BACKFILL_PLAN_INVALID


class PlanMovedError(DponeError):
    """The plan is not the one that was reviewed.

    Retry: no. Do: review `dpone backfill plan` again and pass its new hash.
    """

    code = ErrorCode.BACKFILL_PLAN_MOVED
