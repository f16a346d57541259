"""What a change makes of the row that is stored: the rules of the SQL ledger's queries, for ledgers that have no SQL.

Every function gives None where the change may not be written; then nothing of it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from dpone_runtime.domain.campaign import Campaign, CampaignStatus, Window
from dpone_runtime.domain.chunk_record import ChunkRecord, ChunkStatus
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.lease import OwnerToken

_ENDED = (ChunkStatus.COMMITTED, ChunkStatus.FAILED)


def stored_campaign(found: Campaign | None, wanted: Campaign, now: datetime) -> Campaign | None:
    """Give the campaign's next row, None where its revision has moved. What names a campaign never changes."""
    if found is None:
        return replace(wanted, created_at=now, updated_at=now)
    if found.revision != wanted.revision - 1:
        return None
    return replace(
        found,
        status=wanted.status,
        revision=wanted.revision,
        round=wanted.round,
        reason=wanted.reason,
        columns=wanted.columns,
        target=wanted.target,
        shadow=wanted.shadow,
        requested_by=wanted.requested_by,
        updated_at=now,
    )


def stored_chunk(
    found: ChunkRecord | None, wanted: ChunkRecord, now: datetime, lease_ttl: timedelta
) -> ChunkRecord | None:
    """Give the next row of a chunk that is claimed, released or failed; None where its revision has moved.

    A new attempt forgets what the last one reported.
    """
    if found is not None and found.revision != wanted.revision - 1:
        return None
    if wanted.status is ChunkStatus.RUNNING:
        return replace(
            wanted,
            lease_expires_at=now + lease_ttl,
            rows_extracted=None,
            rows_loaded=None,
            content_digest=None,
            error_code=None,
            error_message=None,
            started_at=now,
            finished_at=None,
        )
    if found is None:
        return None
    return replace(
        found,
        status=wanted.status,
        revision=wanted.revision,
        owner=wanted.owner,
        lease_expires_at=None,
        error_code=wanted.error_code,
        error_message=wanted.error_message,
        finished_at=now if wanted.status is ChunkStatus.FAILED else None,
    )


def renewed_chunk(
    found: ChunkRecord | None, record: ChunkRecord, now: datetime, lease_ttl: timedelta
) -> ChunkRecord | None:
    """Give the row with a later expiry, None where the lease is lapsed or no longer this attempt's."""
    if found is None or not _is_attempt(found, record.owner, record.revision) or not found.lease_live(now):
        return None
    return replace(found, lease_expires_at=now + lease_ttl)


def may_complete(
    found: ChunkRecord | None,
    campaign: Campaign | None,
    *,
    owner: OwnerToken,
    revision: int,
    round_number: int,
) -> bool:
    """Whether the chunk is still this attempt's, and its campaign neither closed nor in another round."""
    return (
        found is not None
        and campaign is not None
        and _is_attempt(found, owner, revision)
        and found.round == campaign.round == round_number
        and campaign.status is not CampaignStatus.CLOSED
    )


def completed_chunk(
    found: ChunkRecord, rows_extracted: int, rows_loaded: int, now: datetime, digest: str | None = None
) -> tuple[ChunkRecord, Event]:
    """Give the row of a chunk that has committed, and its event."""
    row = replace(
        found,
        status=ChunkStatus.COMMITTED,
        revision=found.revision + 1,
        lease_expires_at=None,
        rows_extracted=rows_extracted,
        rows_loaded=rows_loaded,
        content_digest=digest,
        error_code=None,
        error_message=None,
        finished_at=now,
    )
    event = Event(row.run_key, EventKind.COMMITTED, row.round, row.revision, detail=f"{rows_loaded} rows")
    return row, event_of_chunk(event, row, row.owner)


def carried_chunk(
    found: ChunkRecord, round_number: int, reloaded: frozenset[int]
) -> tuple[ChunkRecord, Event] | None:
    """Give the row of a chunk that is taken over into a round as it is, and its event; None where it is not."""
    if not found.committed_in(round_number - 1) or found.chunk_index in reloaded:
        return None
    row = replace(found, round=round_number, revision=found.revision + 1)
    return row, event_of_chunk(Event(row.run_key, EventKind.CARRIED, row.round, row.revision), row, row.owner)


def event_of_campaign(event: Event, campaign: Campaign) -> Event:
    """Give the event with the values of the campaign's row that was written."""
    return replace(
        event, round=campaign.round, revision=campaign.revision, chunk_index=None, attempt=None, owner=None
    )


def event_of_change(event: Event, record: ChunkRecord) -> Event:
    """Give the event of a claim, or of an end, which keeps the owner that the row may have lost."""
    return event_of_chunk(
        event, record, record.owner if record.status is ChunkStatus.RUNNING else event.owner
    )


def event_of_chunk(event: Event, record: ChunkRecord, owner: str | None) -> Event:
    """Give the event with the values of the chunk's row that was written."""
    return replace(
        event,
        round=record.round,
        revision=record.revision,
        chunk_index=record.chunk_index,
        attempt=record.attempt,
        owner=owner,
    )


def shown_in_round(record: ChunkRecord, round_number: int, now: datetime) -> ChunkStatus:
    """Give the status that a person should see: what an earlier round has committed or failed is pending."""
    if record.status in _ENDED and record.round != round_number:
        return ChunkStatus.PENDING
    return record.shown_status(now)


def failed_since_opened(record: ChunkRecord, campaign: Campaign) -> bool:
    """Whether a chunk failed in the campaign's round after it was last opened; while it is open its row changes no more."""
    return (
        record.status is ChunkStatus.FAILED
        and record.round == campaign.round
        and record.finished_at is not None
        and campaign.updated_at is not None
        and record.finished_at >= campaign.updated_at
    )


def committed_windows(campaign: Campaign, records: Iterable[ChunkRecord]) -> tuple[Window, ...]:
    """Give the window of each run of adjacent chunks of which some round was committed; `records` come by index.

    A later round leaves the rows of the one before in place where it does not come so far; what it has claimed may have been
    committed before.
    """
    if campaign.unseen:
        return ()
    if campaign.finished:
        return (campaign.window,)
    found: list[tuple[int, Window]] = []
    for record in records:
        if record.status is not ChunkStatus.COMMITTED and record.round == 1:
            continue
        window = replace(campaign.window, lower=record.lower, upper=record.upper)
        if found and found[-1][0] == record.chunk_index - 1:
            window = replace(window, lower=found.pop()[1].lower)
        found.append((record.chunk_index, window))
    return tuple(window for _, window in found)


def _is_attempt(found: ChunkRecord, owner: OwnerToken | None, revision: int) -> bool:
    return found.status is ChunkStatus.RUNNING and (found.owner, found.revision) == (owner, revision)
