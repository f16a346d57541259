"""Which of a server's refusals are tried again, and what is said of those that are not."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from dpone_contract.errors import ChunkFailedError, DatabaseFailedError
from dpone_runtime.adapters.postgres.connect import translate
from dpone_runtime.adapters.postgres.sqlstates import is_transient

PASSES = {
    "40001": errors.SerializationFailure,
    "40P01": errors.DeadlockDetected,
    "55P03": errors.LockNotAvailable,
    "53300": errors.TooManyConnections,
    "57P01": errors.AdminShutdown,
    "57P02": errors.CrashShutdown,
    "57P03": errors.CannotConnectNow,
    "08000": errors.ConnectionException,
    "08003": errors.ConnectionDoesNotExist,
    "08006": errors.ConnectionFailure,
    "no answer": psycopg.OperationalError,
}
STAYS = {
    "53100": errors.DiskFull,
    "53200": errors.OutOfMemory,
    "53400": errors.ConfigurationLimitExceeded,
    "54000": errors.ProgramLimitExceeded,
    "57014": errors.QueryCanceled,
    "57P04": errors.DatabaseDropped,
    "08P01": errors.ProtocolViolation,
    "42501": errors.InsufficientPrivilege,
    "42703": errors.UndefinedColumn,
    "23505": errors.UniqueViolation,
    "22P03": errors.InvalidBinaryRepresentation,
    "25P03": errors.IdleInTransactionSessionTimeout,
    "XX000": errors.InternalError_,
    "a value that cannot be sent": psycopg.DataError,
    "a mistake of ours": psycopg.ProgrammingError,
}
ADVICE = {
    errors.DiskFull: "free space",
    errors.OutOfMemory: "memory",
    errors.LockNotAvailable: "pg_locks",
    errors.DeadlockDetected: "another order",
    errors.TooManyConnections: "max_connections",
    errors.ProgramLimitExceeded: "compare by counts",
    errors.AdminShutdown: "run it again",
}


@pytest.mark.parametrize("error", PASSES.values(), ids=PASSES)
def test_what_may_pass_by_itself(error: type[psycopg.Error]):
    assert is_transient(error())
    assert translate(error(), "loading").transient


@pytest.mark.parametrize("error", STAYS.values(), ids=STAYS)
def test_what_somebody_has_to_mend(error: type[psycopg.Error]):
    assert not is_transient(error())
    assert not translate(error(), "loading").transient


@pytest.mark.parametrize("error, words", ADVICE.items(), ids=[error.__name__ for error in ADVICE])
def test_what_is_to_be_done_is_said(error: type[psycopg.Error], words: str):
    told = translate(error(), "loading", "chunk 1")
    assert isinstance(told, DatabaseFailedError)
    assert error.sqlstate in told.message
    assert words in (told.next_step or "")
    assert (told.next_step or "").endswith("committed chunks are skipped")


def test_a_refused_row_is_no_matter_of_waiting():
    told = translate(errors.CheckViolation(), "loading")
    assert isinstance(told, ChunkFailedError)
    assert not told.transient
