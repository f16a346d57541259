"""Rows of the simulated tables as the queries give them: which columns, in which order."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.simulation.tables import Row

CAMPAIGN_COLUMNS = (
    *("run_key", "status", "revision", "round", "plan_hash", "config_hash", "chunks_total", "dataset"),
    *("inner_mode", "templated", "window_column", "window_kind", "window_lower", "window_upper"),
    *("window_everything", "source_server", "source_database", "source_relation", "source_name"),
    *("target_server", "target_database", "target_relation", "target_name"),
    *("reason", "requested_by", "created_at", "updated_at", "loaded_columns"),
    *("shadow_relation", "shadow_name", "object_contract"),
)
CHUNK_COLUMNS = (
    *("run_key", "chunk_index", "status", "revision", "round", "attempt", "owner", "lease_expires_at"),
    *("idempotency_key", "lower_bound", "upper_bound", "rows_extracted", "rows_loaded", "content_digest"),
    *("error_code", "error_message", "dag_run_id", "started_at", "finished_at"),
)
EVENT_COLUMNS = (
    *("event_id", "at", "run_key", "kind", "round", "revision", "chunk_index", "attempt", "owner", "detail"),
)


def event_columns(event: Row) -> tuple[Any, ...]:
    """Give the columns of `campaign_events` and `verdicts`."""
    return tuple(event[name] for name in EVENT_COLUMNS)


def campaign_columns(row: Row) -> tuple[Any, ...]:
    """Give the columns of `read_campaign`."""
    return tuple(row[name] for name in CAMPAIGN_COLUMNS)


def chunk_columns(row: Row) -> tuple[Any, ...]:
    """Give the columns of `read_chunk`."""
    return tuple(row[name] for name in CHUNK_COLUMNS)


def shown_status(row: Row, round_number: int, now: datetime) -> str:
    """Give the status that a person should see."""
    if row["status"] in ("committed", "failed") and row["round"] != round_number:
        return "pending"
    if row["status"] == "running" and row["lease_expires_at"] <= now:
        return "lease_expired"
    return str(row["status"])


def is_over(row: Row) -> bool:
    """Whether a campaign can no longer write; one that is complete and not published can."""
    waits = row["status"] == "complete" and row["shadow_relation"] is not None
    return row["status"] in ("complete", "published", "closed") and not waits
