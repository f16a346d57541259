"""Errors of what people write: manifests, catalogs, commands and windows."""

from __future__ import annotations

from dpone_contract.errors.codes import ErrorCode
from dpone_contract.errors.root import DponeError


class ManifestInvalidError(DponeError):
    """A manifest or catalog is malformed: bad YAML, an unknown, duplicate or misplaced key, a value of the wrong kind.

    Raised: whenever a manifest or catalog is read, before anything is opened.

    Retry: no. Do: mend the file at the place given.
    """

    code = ErrorCode.MANIFEST_INVALID


class NotSupportedError(DponeError):
    """The file asks for something that is part of the contract but that this release cannot do yet.

    Raised: whenever a manifest, catalog or pack is read, and for an override on the command line.

    Retry: no. Do: remove the key, or use a release that supports it. Such a key is never ignored.
    """

    code = ErrorCode.NOT_SUPPORTED


class UsageError(DponeError):
    """A command was called with arguments that do not fit together.

    Raised: before a command does anything.

    Retry: no. Do: see the command's --help.
    """

    code = ErrorCode.USAGE


class PlanInvalidError(DponeError):
    """A campaign cannot be planned: the window is empty or too long, or kind, step, zone, token or name do not fit.

    Raised: by `check`, by `pack build`, and by every run before it connects.

    Retry: no. Do: mend `backfill.chunk`, or `backfill_id`, as the message says.
    """

    code = ErrorCode.BACKFILL_PLAN_INVALID


class PlanMovedError(DponeError):
    """The plan is not the one that was reviewed.

    Raised: by a run with `--plan-hash`, before it connects.

    Retry: no. Do: review `dpone backfill plan` again and pass its new hash.
    """

    code = ErrorCode.BACKFILL_PLAN_MOVED
