"""Errors of connections, servers, ledgers, tables and columns."""

from __future__ import annotations

from dpone_contract.errors.codes import ErrorCode, ExitCode
from dpone_contract.errors.root import DponeError


class ConnectionMissingError(DponeError):
    """No connection of this name is configured where the run looks for it.

    Raised: before either end is opened; by `check`, where the catalog names no secret for a connection of a pod.

    Retry: no. Do: set DPONE_CONN_<NAME> or AIRFLOW_CONN_<NAME>, or put a file of that name under DPONE_CONNECTIONS_DIR; for
    a pod, name the secret under `connections` in the catalog.
    """

    code = ErrorCode.CONNECTION_MISSING


class ConnectionInvalidError(DponeError):
    """A connection's value cannot be read or is of another kind than the manifest says.

    Raised: before either end is opened.

    Retry: no. Do: give a URI such as postgresql://user:password@host:5432/database.
    """

    code = ErrorCode.CONNECTION_INVALID


class ConnectionFailedError(DponeError):
    """A database could not be reached or refused the login.

    Raised: when a run, a lane or a look at the ledger connects.

    Retry: helps if the server was away. Do: check host, port, database, user and password of the named connection.
    """

    code = ErrorCode.CONNECTION_FAILED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class SessionUnsafeError(DponeError):
    """The connection runs through a transaction-pooling proxy, which cannot hold the session lock of an internal run.

    Raised: by a run of mode internal, before its campaign is opened.

    Retry: no. Do: connect to the server itself or through a session pool, or use a mapped mode.
    """

    code = ErrorCode.BACKFILL_SESSION_UNSAFE


class DatabaseFailedError(DponeError):
    """A database refused or broke off a statement, or this user lacks a privilege.

    Raised: wherever a statement is sent to a server.

    Retry: depends on the SQLSTATE given. Do: read the server's message; committed chunks are safe.
    """

    code = ErrorCode.DATABASE_FAILED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class LedgerMissingError(DponeError):
    """The ledger's tables, or its folder, do not exist and could not be created, or some of its tables are missing.

    Raised: by a run that would create its ledger, or that finds it gone; by a look at one of which a part is missing, as of a
    ledger of an earlier version.

    Retry: no. Do: let a role that may create the tables run what `dpone state ddl MANIFEST` prints, or name a folder that may be
    written.
    """

    code = ErrorCode.LEDGER_MISSING


class LedgerFileInvalidError(DponeError):
    """A file of a local ledger is damaged, cut short, missing beside the other one, or not this campaign's.

    Raised: before a campaign of a `local_file` ledger is opened, read or changed; nothing was moved.

    Retry: no. Do: restore the campaign's files from a copy; where its chunks may be loaded again, move all of them away.
    """

    code = ErrorCode.LEDGER_FILE_INVALID


class LedgerFileFailedError(DponeError):
    """A file of a local ledger could not be read, written or locked: no right, no space, or the disk failed.

    Raised: wherever a `local_file` ledger is read or changed.

    Retry: helps once the cause is mended. Do: read the cause; what is committed and not recorded is loaded again.
    """

    code = ErrorCode.LEDGER_FILE_FAILED
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE


class TableMissingError(DponeError):
    """A table named by the manifest does not exist or cannot be seen by this user.

    Raised: before a campaign begins, and by `plan --connect`.

    Retry: no. Do: check schema, name (case matters) and privileges.
    """

    code = ErrorCode.TABLE_MISSING


class TableUnsuitableError(DponeError):
    """The target is of a kind in which exactly-once cannot be promised (unlogged, temporary, foreign, a view, row security).

    Raised: before a campaign begins, and by `plan --connect`.

    Retry: no. Do: load into an ordinary or partitioned, logged table.
    """

    code = ErrorCode.TABLE_UNSUITABLE


class ColumnsDifferError(DponeError):
    """Source and target columns do not fit without loss, or columns that a campaign needs are not among those that are loaded.

    Raised: before a campaign begins, by `plan --connect`, and, for what the manifest alone tells, by `dpone check`.

    Retry: no. Do: alter the target as the message says, or load from a view that casts.
    """

    code = ErrorCode.COLUMNS_DIFFER
