"""What a verification asks and what it finds; light, since the command line names its methods."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

DIFFERENCES_SHOWN = 20
_ENDED = re.compile(r"(?P<method>\w+): (?P<compared>\d+) chunks compared, (?P<different>\d+) differ")


class VerificationMethod(StrEnum):
    """How deep both sides of a campaign are compared."""

    COUNTS = "counts"
    CONTENT = "content"


@dataclass(frozen=True)
class Difference:
    """A chunk whose sides are not the same, and how they differ; it holds no row."""

    chunk_index: int
    text: str


@dataclass
class VerificationReport:
    """What a verification has come to. `compared_before` counts chunks of an earlier, interrupted part of it.

    `different` has the index of every chunk that differs, `differences` tells of the first of them; `missing` counts chunks
    that are not committed, so that nothing can be said of them.
    """

    method: VerificationMethod
    chunks_total: int
    continued_from: datetime | None = None
    compared: int = 0
    compared_before: int = 0
    missing: int = 0
    rows: int = 0
    different: list[int] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    interrupted: bool = False

    @property
    def compared_total(self) -> int:
        """Chunks that have a verdict."""
        return self.compared + self.compared_before

    @property
    def whole(self) -> bool:
        """Whether every chunk of the campaign has a verdict: nothing is passed on a part."""
        return self.compared_total == self.chunks_total


@dataclass(frozen=True)
class Verdict:
    """What a whole verification came to, as the ledger keeps it in one line of history."""

    method: str
    compared: int
    different: int

    def text(self) -> str:
        """Give the line."""
        return f"{self.method}: {self.compared} chunks compared, {self.different} differ"


def find_verdict(text: str) -> Verdict | None:
    """Read such a line; None for the words of another release."""
    found = _ENDED.fullmatch(text)
    if found is None:
        return None
    return Verdict(found["method"], int(found["compared"]), int(found["different"]))
