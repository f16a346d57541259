"""Errors of connections, servers, tables and columns."""

from __future__ import annotations

from dpone_contract.errors.codes import ErrorCode, ExitCode
from dpone_contract.errors.root import DponeError


class ConnectionMissingError(DponeError):
    """No connection of this name is configured where the run looks for it.

    Raised: before either end is opened.

    Retry: no. Do: set DPONE_CONN_<NAME> or AIRFLOW_CONN_<NAME>, or put a file of that name under DPONE_CONNECTIONS_DIR.
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
    """The ledger's tables do not exist and could not be created, or were dropped meanwhile.

    Raised: by a run that would create its ledger, or that finds it gone.

    Retry: no. Do: let a role that may create them run what `dpone state ddl MANIFEST` prints.
    """

    code = ErrorCode.LEDGER_MISSING


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
