"""The conditions of the ledger's queries, each under its SQL text: what the simulation asks of a row before it changes it.

A test splits `ledger.sql` into the same texts, so that neither side changes alone; a mutation takes one away by its text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

Row = Mapping[str, Any]
Condition = Callable[[Row, Mapping[str, Any], datetime], bool]


def _equal(column: str) -> Condition:
    return lambda row, values, _now: row[column] == values[column]


def _has(column: str, value: str) -> Condition:
    return lambda row, _values, _now: row[column] == value


def _revision_expected(row: Row, values: Mapping[str, Any], _now: datetime) -> bool:
    return bool(row["revision"] == values["revision"] - 1)


def _live(row: Row, _values: Mapping[str, Any], now: datetime) -> bool:
    return row["lease_expires_at"] is not None and row["lease_expires_at"] > now


def _between(row: Row, values: Mapping[str, Any], _now: datetime) -> bool:
    return bool(values["first"] <= row["chunk_index"] <= values["last"])


CONDITIONS: dict[str, dict[str, Condition]] = {
    "count_live": {
        "run_key = :run_key": _equal("run_key"),
        "status = 'running'": _has("status", "running"),
        "lease_expires_at > clock_timestamp()": _live,
    },
    "update_campaign": {
        "run_key = :run_key": _equal("run_key"),
        "revision = :revision - 1": _revision_expected,
    },
    "claim_chunk": {
        "run_key = :run_key": _equal("run_key"),
        "chunk_index = :chunk_index": _equal("chunk_index"),
        "revision = :revision - 1": _revision_expected,
    },
    "end_chunk": {
        "run_key = :run_key": _equal("run_key"),
        "chunk_index = :chunk_index": _equal("chunk_index"),
        "revision = :revision - 1": _revision_expected,
    },
    "carry_chunks": {
        "run_key = :run_key": _equal("run_key"),
        "status = 'committed'": _has("status", "committed"),
        "round = :round - 1": lambda row, values, _now: row["round"] == values["round"] - 1,
        "chunk_index NOT IN (SELECT value::integer FROM json_array_elements_text(:reloaded::json))": (
            lambda row, values, _now: row["chunk_index"] not in json.loads(values["reloaded"])
        ),
    },
    "guard_chunk": {
        "run_key = :run_key": _equal("run_key"),
        "chunk_index = :chunk_index": _equal("chunk_index"),
        "status = 'running'": _has("status", "running"),
        "revision = :revision": _equal("revision"),
        "owner = :owner": _equal("owner"),
        "round = :round": _equal("round"),
    },
    "complete_chunk": {
        "c.run_key = :run_key": _equal("run_key"),
        "c.chunk_index = :chunk_index": _equal("chunk_index"),
        "c.status = 'running'": _has("status", "running"),
        "c.revision = :revision": _equal("revision"),
        "c.owner = :owner": _equal("owner"),
        "c.round = :round": _equal("round"),
    },
    "complete_chunk: campaign": {
        "g.run_key = :run_key": _equal("run_key"),
        "g.status <> 'closed'": lambda row, _values, _now: row["status"] != "closed",
        "g.round = :round": _equal("round"),
    },
    "renew_chunk": {
        "run_key = :run_key": _equal("run_key"),
        "chunk_index = :chunk_index": _equal("chunk_index"),
        "status = 'running'": _has("status", "running"),
        "revision = :revision": _equal("revision"),
        "owner = :owner": _equal("owner"),
        "lease_expires_at > clock_timestamp()": _live,
    },
    "committed_chunks": {
        "run_key = :run_key": _equal("run_key"),
        "chunk_index BETWEEN :first AND :last": _between,
        "status = 'committed'": _has("status", "committed"),
        "round = :round": _equal("round"),
    },
    "receipts": {
        "run_key = :run_key": _equal("run_key"),
        "status = 'committed'": _has("status", "committed"),
        "round = (SELECT round FROM {campaigns} WHERE run_key = :run_key)": (
            lambda row, values, _now: row["round"] == values["campaign_round"]
        ),
    },
    "read_chunks": {
        "run_key = :run_key": _equal("run_key"),
        "chunk_index BETWEEN :first AND :last": _between,
    },
    "claimed_chunks": {
        "run_key = :run_key": _equal("run_key"),
        "status = 'running'": _has("status", "running"),
    },
    "list_failures": {
        "run_key = :run_key": _equal("run_key"),
        "status = 'failed'": _has("status", "failed"),
        "round = (SELECT round FROM {campaigns} WHERE run_key = :run_key)": (
            lambda row, values, _now: row["round"] == values["campaign_round"]
        ),
    },
    "list_running": {
        "run_key = :run_key": _equal("run_key"),
        "status = 'running'": _has("status", "running"),
    },
}


def conditions_without(
    dropped: frozenset[tuple[str, str]],
) -> dict[str, tuple[Condition, ...]]:
    """Give each query's conditions but the dropped ones.

    Errors: KeyError for one that does not exist, so that no mutation is empty.
    """
    for query, text in dropped:
        CONDITIONS[query][text]
    return {
        query: tuple(condition for text, condition in found.items() if (query, text) not in dropped)
        for query, found in CONDITIONS.items()
    }
