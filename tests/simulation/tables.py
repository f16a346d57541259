"""What the simulated database keeps and gives: committed tables, a transaction's changes, answers, and what may go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

Row = dict[str, Any]
BY_HAND = "somebody"
"""The run key of rows that no campaign has written."""


class StatementError(Exception):
    """A statement failed; its transaction is rolled back."""


class LockNotAvailableError(StatementError):
    """A lock was not free within `lock_timeout`."""


class UndefinedTableError(StatementError):
    """No table has this name."""


class NotNullViolationError(StatementError):
    """An event without a run key: the completion's guard matched no row."""


class ConnectionLostError(Exception):
    """No clear answer: the session has ended, or its answer was lost on the way."""


class TargetRow(NamedTuple):
    """A row of a table: the day that it is of, and the attempt that wrote it; an attempt writes two of a day."""

    relation: str
    day: int
    part: int
    run_key: str
    chunk_index: int
    round: int
    revision: int
    owner: str


@dataclass(frozen=True)
class Tables:
    """A committed state. It is never changed; a commit puts another in its place."""

    campaigns: Mapping[str, Row]
    chunks: Mapping[tuple[str, int], Row]
    rows: Mapping[int, TargetRow]
    tallies: Mapping[tuple[str, int, int], int]
    """By run key, round and slot."""
    names: Mapping[str, str]
    """Which relation each table's name stands for."""


@dataclass
class Transaction:
    """What a session has changed and not committed."""

    campaigns: dict[str, Row] = field(default_factory=dict)
    chunks: dict[tuple[str, int], Row] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    inserted: dict[int, TargetRow] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    tallies: dict[tuple[str, int, int], int] = field(default_factory=dict)
    names: dict[str, str | None] = field(default_factory=dict)
    """Names that stand for another table now, or for none."""
    by_hand: bool = False
    """Somebody has put another table in the place of one."""
    loads: tuple[str, int] | None = None
    """Run key and chunk of the slice that it has begun to change."""


@dataclass(frozen=True)
class Commit:
    """One commit: the states on both sides of it, and what it wrote."""

    before: Tables
    after: Tables
    wrote: Transaction
    now: datetime


@dataclass(frozen=True)
class Answer:
    """Each statement's rows, or why there are none."""

    rows: tuple[list[tuple[Any, ...]], ...] = ()
    error: Exception | None = None


def changed(row: Row, **values: Any) -> Row:
    """Give a row's next version."""
    return {**row, **values}
