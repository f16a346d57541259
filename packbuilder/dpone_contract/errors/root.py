"""The root of the hierarchy, and the error that stands for what dpone does not know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from dpone_contract.errors.codes import ErrorCode, ExitCode


class DponeError(Exception):
    """The root of the hierarchy.

    `message` says what happened, `where` the place (file:line:column, a chunk, a table), `next_step` what to do now. `fields` are
    further values that are safe to show. `transient` says that the same attempt, made again a little later, may succeed without anybody
    having mended anything.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    exit_code: ExitCode = ExitCode.REFUSED
    """That of its class, unless it stands for a run, whose own this is then."""

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        next_step: str | None = None,
        transient: bool = False,
        **fields: str | int,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.next_step = next_step
        self.transient = transient
        self.fields = fields

    def __str__(self) -> str:
        parts = [f"{self.code.value}: {self.message}"]
        if self.where:
            parts.append(f"at {self.where}")
        if self.next_step:
            parts.append(f"next: {self.next_step}")
        return " | ".join(parts)

    def to_payload(self) -> dict[str, object]:
        """Give the `dpone.error.v1` document, plain values only."""
        return {
            "schema": "dpone.error.v1",
            "code": self.code.value,
            "message": self.message,
            "where": self.where,
            "next_step": self.next_step,
            "fields": dict(self.fields),
        }


@contextmanager
def located(where: str) -> Iterator[None]:
    """Give the errors that leave the block a place, unless they name a closer one themselves.

    For a boundary that knows the file or table which the code inside it was never told.
    """
    try:
        yield
    except DponeError as error:
        error.where = error.where or where
        raise


class InternalError(DponeError):
    """dpone itself failed in a way it does not know.

    Raised: at the end of a command, with a traceback, for whatever nobody has foreseen.

    Retry: safe for data; the ledger decides. Do: report it with the log.
    """

    code = ErrorCode.INTERNAL
    exit_code = ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
