"""A run whose ledger is a file, as the target's server knows it: by the locks that it holds there, and by nothing else."""

from __future__ import annotations

import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class LocalRun:
    """Which table it loads, by the object's id, and a token of its own that is never used again."""

    relation: str
    token: str


def local_data_scope(relation: str) -> tuple[str, str, str]:
    """Give purpose and scope of the lock that every data transaction of such a run of a target shares."""
    return "data", "local_file", relation


def new_local_run(relation: str) -> LocalRun:
    """Give a run of its own."""
    return LocalRun(relation, secrets.token_hex(16))
