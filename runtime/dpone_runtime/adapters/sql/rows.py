"""Rows to records and back; the column order is that of the named queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from dpone_contract.chunk_plan import RunKey
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, Shadow, TableIdentity, Window
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.event import Event, EventKind, PastEvent
from dpone_runtime.domain.lease import OwnerToken

Row = Sequence[Any]


def campaign_from_row(row: Row) -> Campaign:
    """Read the columns of `read_campaign`."""
    return Campaign(
        run_key=RunKey(row[0]),
        status=CampaignStatus(row[1]),
        revision=row[2],
        round=row[3],
        plan_hash=row[4],
        config_hash=row[5],
        chunks_total=row[6],
        dataset=row[7],
        inner_mode=row[8],
        templated=bool(row[9]),
        window=Window(row[10], row[11], row[12], row[13], bool(row[14])),
        source=TableIdentity(*row[15:19]),
        target=TableIdentity(*row[19:23]),
        reason=row[23],
        requested_by=row[24],
        created_at=row[25],
        updated_at=row[26],
        columns=tuple(row[27]),
        shadow=None if row[28] is None else Shadow(*row[28:31]),
    )


def values_of_campaign(campaign: Campaign, event: Event) -> dict[str, object]:
    """Give the parameters of `insert_campaign` and `update_campaign`."""
    window, source, target, shadow = campaign.window, campaign.source, campaign.target, campaign.shadow
    return {
        "run_key": campaign.run_key,
        "status": campaign.status.value,
        "revision": campaign.revision,
        "round": campaign.round,
        "plan_hash": campaign.plan_hash,
        "config_hash": campaign.config_hash,
        "chunks_total": campaign.chunks_total,
        "dataset": campaign.dataset,
        "inner_mode": campaign.inner_mode,
        "templated": campaign.templated,
        "window_column": window.column,
        "window_kind": window.kind,
        "window_lower": window.lower,
        "window_upper": window.upper,
        "window_everything": window.everything,
        "source_server": source.server,
        "source_database": source.database,
        "source_relation": source.relation,
        "source_name": source.name,
        "target_server": target.server,
        "target_database": target.database,
        "target_relation": target.relation,
        "target_name": target.name,
        "loaded_columns": list(campaign.columns),
        "shadow_relation": shadow and shadow.relation,
        "shadow_name": shadow and shadow.name,
        "object_contract": shadow and shadow.contract,
        "reason": campaign.reason,
        "requested_by": campaign.requested_by,
        "event_kind": event.kind.value,
        "event_detail": event.detail,
    }


def record_from_row(row: Row) -> ChunkRecord:
    """Read the columns of `read_chunk`."""
    return ChunkRecord(
        run_key=RunKey(row[0]),
        chunk_index=row[1],
        status=ChunkStatus(row[2]),
        revision=row[3],
        round=row[4],
        attempt=row[5],
        owner=cast("OwnerToken | None", row[6]),
        lease_expires_at=row[7],
        idempotency_key=row[8],
        lower=row[9],
        upper=row[10],
        rows_extracted=row[11],
        rows_loaded=row[12],
        content_digest=row[13],
        error_code=row[14],
        error_message=row[15],
        dag_run_id=row[16],
        started_at=row[17],
        finished_at=row[18],
    )


def values_of_record(record: ChunkRecord, event: Event) -> dict[str, object]:
    """Give the parameters of `insert_chunk`, `claim_chunk` and `end_chunk`."""
    return {
        "run_key": record.run_key,
        "chunk_index": record.chunk_index,
        "status": record.status.value,
        "revision": record.revision,
        "round": record.round,
        "attempt": record.attempt,
        "owner": record.owner,
        "idempotency_key": record.idempotency_key,
        "lower_bound": record.lower,
        "upper_bound": record.upper,
        "dag_run_id": record.dag_run_id,
        "error_code": record.error_code,
        "error_message": record.error_message,
        "has_finished": record.status is ChunkStatus.FAILED,
        "event_kind": event.kind.value,
        "event_owner": event.owner,
        "event_detail": event.detail,
    }


def event_from_row(row: Row) -> PastEvent:
    """Read the columns of `campaign_events` and `verdicts`."""
    run_key, kind, round_number, revision, chunk_index, attempt, owner, detail = row[2:10]
    event = Event(
        RunKey(run_key), EventKind(kind), round_number, revision, chunk_index, attempt, owner, detail
    )
    return PastEvent(row[0], row[1], event)


def values_of_event(event: Event) -> dict[str, object]:
    """Give the parameters of `insert_event`."""
    return {
        "run_key": event.run_key,
        "kind": event.kind.value,
        "round": event.round,
        "revision": event.revision,
        "chunk_index": event.chunk_index,
        "attempt": event.attempt,
        "owner": event.owner,
        "detail": event.detail,
    }
