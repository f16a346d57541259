"""A finding: what a static check has to say about a place in a file. Checks collect findings; they do not raise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpone_contract.errors import ErrorCode


class Severity(StrEnum):
    """An error blocks publication, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, order=True)
class Finding:
    """Lines and columns count from one; `line` 0 means the whole file."""

    path: str
    line: int
    column: int
    code: ErrorCode
    message: str
    next_step: str = ""
    severity: Severity = Severity.ERROR

    @property
    def where(self) -> str:
        """The place as `file:line:column`, as editors read it."""
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path
