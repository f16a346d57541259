"""A campaign's row: metadata only, whatever the number of its chunks; what may become of it; whom it must not meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import CampaignDriftError, CampaignStoppedError
from dpone_contract.manifest import InnerMode
from dpone_runtime.domain.publication import CANCEL_AND_BEGIN_ANOTHER

GO_ON = "dpone backfill resume MANIFEST --reason ..."
"""What lifts a cancellation or a halt."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST_UUID = 2**128 - 1


class CampaignStatus(StrEnum):
    """States of a campaign."""

    OPEN = "open"
    CANCEL_REQUESTED = "cancel_requested"
    HALTED = "halted"
    CLOSED = "closed"
    COMPLETE = "complete"
    PUBLISHED = "published"


@dataclass(frozen=True)
class TableIdentity:
    """Which table, beyond its name: server, database and object id, all as text."""

    server: str
    database: str
    relation: str
    name: str

    def same_object(self, other: TableIdentity) -> bool:
        """Whether both are one table, whatever it is called now."""
        return (self.server, self.database, self.relation) == (other.server, other.database, other.relation)


def _spans(kind: str, lower: str, upper: str) -> tuple[tuple[int, int], ...]:
    """Give where a window lies among the values of its kind; two windows overlap where they do so in one of these ways.

    Errors: ValueError for a kind or bound that is not understood.
    """
    match kind:
        case "date":
            return ((date.fromisoformat(lower).toordinal(), date.fromisoformat(upper).toordinal()),)
        case "integer":
            return ((int(lower), int(upper)),)
        case "uuid":
            first, end = (int(text.replace("-", ""), 16) for text in (lower, upper))
            # Nothing comes after the last uuid, so that a window which ends with it includes it.
            return ((first, end + (end == _LAST_UUID)),)
        case "timestamp":
            bounds = [datetime.fromisoformat(text) for text in (lower, upper)]
            instants = [(bound - _EPOCH) // _MICROSECOND for bound in bounds]
            # A column without a zone holds wall clocks, and those of two zones may meet where instants do not.
            clocks = [(bound.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND for bound in bounds]
            return ((instants[0], instants[1]), (clocks[0], clocks[1]))
        case _:
            raise ValueError(kind)


@dataclass(frozen=True)
class Window:
    """Which slice of a target a campaign writes: `[lower, upper)` of a column, or everything.

    Bounds are text, as in the plan; they compare as what they are.
    """

    column: str
    kind: str
    lower: str
    upper: str
    everything: bool = False

    def overlaps(self, other: Window) -> bool:
        """Whether both may write one row; windows over different columns or kinds may always."""
        if self.everything or other.everything:
            return True
        if (self.column, self.kind) != (other.column, other.kind):
            return True
        try:
            pairs = zip(
                _spans(self.kind, self.lower, self.upper),
                _spans(other.kind, other.lower, other.upper),
                strict=True,
            )
        except (ValueError, TypeError):
            # Another release's kind or form, or a day without its zone: what cannot be compared may overlap.
            return True
        return any(one[0] < two[1] and two[0] < one[1] for one, two in pairs)


@dataclass(frozen=True)
class Shadow:
    """The table that a campaign loads in place of its target, until a swap puts it there.

    `relation` is its object id, `name` its schema and name, `contract` the fingerprint of everything that makes up the live table,
    as it was when the shadow was made like it.
    """

    relation: str
    name: str
    contract: str


@dataclass(frozen=True)
class Campaign:
    """The current row of one campaign."""

    run_key: RunKey
    status: CampaignStatus
    revision: int
    round: int
    plan_hash: str
    config_hash: str
    chunks_total: int
    dataset: str
    inner_mode: str
    templated: bool
    window: Window
    source: TableIdentity
    target: TableIdentity
    reason: str | None = None
    requested_by: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    columns: tuple[str, ...] = ()
    """Those that its chunks are loaded with, in this round."""

    shadow: Shadow | None = None
    """Where its rows are until it is published; None where they are loaded into the target itself, and once they are there."""

    @property
    def reach(self) -> Window:
        """What of its target it may change until it is over: its window, or everything where the table is exchanged."""
        return self.window if self.shadow is None else replace(self.window, everything=True)

    @property
    def publishable(self) -> bool:
        """Whether everything is loaded and all that is left is to exchange the tables."""
        return self.status is CampaignStatus.COMPLETE and self.shadow is not None

    @property
    def unseen(self) -> bool:
        """Whether nothing of it has ever been in its target."""
        return self.shadow is not None and self.round == 1

    @property
    def appends(self) -> bool:
        """Whether its rows are added to what is there, so that the same window must not be loaded twice."""
        return self.inner_mode == InnerMode.INCREMENTAL_APPEND

    @property
    def repeatable(self) -> bool:
        """Whether a run after completion begins a new round: each run of a templated window does, unless it would append."""
        return self.templated and not self.appends

    @property
    def finished(self) -> bool:
        """Whether every chunk of the current round is committed and recorded as such."""
        return self.status in (CampaignStatus.COMPLETE, CampaignStatus.PUBLISHED)

    @property
    def over(self) -> bool:
        """Whether it can no longer write to its target as it stands."""
        return (self.finished and not self.publishable) or self.status is CampaignStatus.CLOSED


def moved(
    campaign: Campaign, status: CampaignStatus, *, reason: str | None = None, by: str | None = None
) -> Campaign:
    """Give the campaign's next revision in another state."""
    return replace(campaign, status=status, revision=campaign.revision + 1, reason=reason, requested_by=by)


def new_round(campaign: Campaign, wanted: Campaign, *, reason: str | None = None) -> Campaign:
    """Give the campaign opened for its next round: every chunk is pending again, and loaded as `wanted` says from now on."""
    again = moved(campaign, CampaignStatus.OPEN, reason=reason)
    return replace(again, round=campaign.round + 1, columns=wanted.columns, shadow=wanted.shadow)


def published(campaign: Campaign) -> Campaign:
    """Give the campaign whose shadow has become its target."""
    if campaign.shadow is None:
        raise ValueError(f"campaign {campaign.run_key} has no shadow")
    target = replace(campaign.target, relation=campaign.shadow.relation)
    return replace(moved(campaign, CampaignStatus.PUBLISHED), target=target, shadow=None)


def halted_after(campaign: Campaign, failed_chunks: int, limit: int) -> Campaign:
    """Give the campaign halted because so many of its chunks have failed."""
    chunks = "1 chunk" if failed_chunks == 1 else f"{failed_chunks} chunks"
    reason = f"{chunks} failed, and stop_after_failures is {limit}"
    return moved(campaign, CampaignStatus.HALTED, reason=reason)


def drifts(found: Campaign, wanted: Campaign) -> tuple[str, ...]:
    """Say in words what has moved since a campaign began, everything at once."""
    told = tuple(error.message for error in _drifts(found, wanted))
    columns = () if found.finished else _column_changes(found, wanted)
    return (*told, f"the columns have changed: {'; '.join(columns)}") if columns else told


def require_same_campaign(found: Campaign, wanted: Campaign) -> None:
    """Require that a stored campaign is the one that this run plans.

    Errors: CampaignDriftError naming the first that moved and the way out.
    """
    for error in _drifts(found, wanted):
        raise error


def _published_since(found: Campaign, wanted: Campaign) -> bool:
    """Whether what this run wants to load aside has become the target since it looked."""
    return (
        found.status is CampaignStatus.PUBLISHED
        and wanted.shadow is not None
        and wanted.shadow.relation == found.target.relation
    )


def _drifts(found: Campaign, wanted: Campaign) -> Iterator[CampaignDriftError]:
    out = "restore it, or begin a new campaign under another backfill_id"
    moves = {
        "plan": (found.plan_hash, wanted.plan_hash),
        "configuration": (found.config_hash, wanted.config_hash),
        "number of chunks": (str(found.chunks_total), str(wanted.chunks_total)),
    }
    for what, (stored, planned) in moves.items():
        if stored != planned:
            yield CampaignDriftError(
                f"the {what} of campaign {found.run_key} has changed since it began",
                where=f"campaign {found.run_key}",
                next_step=out,
                run_key=found.run_key,
                stored=stored,
                planned=planned,
            )
    for side, stored_table, table in (
        ("source", found.source, wanted.source),
        ("target", found.target, wanted.target),
    ):
        if side == "target" and _published_since(found, wanted):
            continue
        if not stored_table.same_object(table):
            yield CampaignDriftError(
                f"the {side} table {table.name} is not the one that campaign {found.run_key} began with "
                "(it was recreated, or the connection leads elsewhere)",
                where=f"{side}.table {table.name}",
                next_step=out,
                run_key=found.run_key,
            )
    if found.shadow is not None and (
        wanted.shadow is None or wanted.shadow.relation != found.shadow.relation
    ):
        yield CampaignDriftError(
            f"the table {found.shadow.name} that campaign {found.run_key} loads is gone or was replaced, with what was loaded into it",
            where=f"table {found.shadow.name}",
            next_step=f"restore it, or {CANCEL_AND_BEGIN_ANOTHER}",
            run_key=found.run_key,
        )


def require_same_columns(found: Campaign, wanted: Campaign) -> None:
    """Require that the chunks which are still to come are loaded with the columns of those that are committed.

    Errors: CampaignDriftError naming the columns.
    """
    told = _column_changes(found, wanted)
    if told:
        raise CampaignDriftError(
            f"the columns of campaign {found.run_key} have changed: {'; '.join(told)}",
            where=f"source.table {wanted.source.name}",
            next_step="restore them; or go on without them in the committed chunks: dpone backfill resume MANIFEST --reason ...; "
            "or begin a new campaign under another backfill_id",
            run_key=found.run_key,
        )


def require_columns_as_loaded(found: Campaign, wanted: Campaign) -> None:
    """Require that what is committed can be compared column by column: all that were loaded, and no other.

    Errors: CampaignDriftError naming the columns.
    """
    told = _column_changes(found, wanted)
    if told:
        raise CampaignDriftError(
            f"the columns of campaign {found.run_key} have changed since they were loaded: {'; '.join(told)}",
            where=f"source.table {wanted.source.name}",
            next_step="restore them; or load the window with the columns of now, if it may be loaded again: "
            "dpone backfill restart MANIFEST --reason ... --execute",
            run_key=found.run_key,
        )


def _column_changes(found: Campaign, wanted: Campaign) -> tuple[str, ...]:
    gone = [name for name in found.columns if name not in wanted.columns]
    new = [name for name in wanted.columns if name not in found.columns]
    return (
        *(f"{name} was loaded when it began and is not now" for name in gone),
        *(f"{name} is loaded now and was not when it began" for name in new),
    )


def require_open(campaign: Campaign) -> None:
    """Require that chunks may begin.

    Errors: CampaignStoppedError for a cancelled, halted or closed campaign.
    """
    if campaign.status in (CampaignStatus.CANCEL_REQUESTED, CampaignStatus.HALTED, CampaignStatus.CLOSED):
        why = f" ({campaign.reason})" if campaign.reason else ""
        raise CampaignStoppedError(
            f"campaign {campaign.run_key} is {campaign.status.value}{why}: no chunk begins",
            where=f"campaign {campaign.run_key}",
            next_step=f"if it may go on: {GO_ON}",
            run_key=campaign.run_key,
        )
