"""Opening a campaign: create it, find it as it was left, begin a new round, or find nothing to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from dpone_contract.errors import CampaignBusyError, CampaignMissingError, CampaignStoppedError, OverlapError
from dpone_runtime.domain.campaign import (
    Campaign,
    CampaignStatus,
    Window,
    moved,
    new_round,
    require_open,
    require_same_campaign,
    require_same_columns,
)
from dpone_runtime.domain.claim import LedgerView
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.ports.ledger import (
    CampaignLedger,
    Change,
    OpeningView,
    OtherCampaign,
    StaleRevisionError,
)

_TRIES = 5


class Opening(StrEnum):
    """How a campaign came to be open, or that it has nothing to do."""

    CREATED = "created"
    FOUND = "found"
    RESUMED = "resumed"
    NEW_ROUND = "new_round"
    COMPLETE = "complete"


@dataclass(frozen=True)
class OpenedCampaign:
    """A campaign that chunks may be claimed in, unless `how` says that it is complete."""

    campaign: Campaign
    how: Opening


def open_campaign(
    ledger: CampaignLedger, wanted: Campaign, *, reason: str | None = None, begin_rounds: bool = True
) -> OpenedCampaign:
    """Open the campaign that a run plans. `reason` lifts a cancellation or a halt, and takes in columns that changed.

    A campaign that is open already is only compared, without a lock: items do not wait for one another; where its ledger
    is not seen by others, it is looked whether one of them has been opened since. A complete one begins a new round where
    its window is templated, unless the run must not (`begin_rounds`), else there is nothing to do; one that appends never
    does. Where it appends, nothing of its window may be committed on the target by any other campaign, unless `reason`
    allows it when it is created; a resumption's reason says nothing of what others have loaded since.

    Errors: CampaignDriftError, CampaignStoppedError, OverlapError; CampaignBusyError where the locks are not free, or
    others change the campaign all the time.
    Source: the design, ledger (campaigns, rounds).
    """
    found = ledger.read_campaign(wanted.run_key)
    repeats = begin_rounds and wanted.repeatable
    if found is not None:
        require_same_campaign(found, wanted)
        if _goes_on(found, wanted, reason) and ledger.capabilities().distributed_lock:
            return OpenedCampaign(found, Opening.FOUND)
        if found.finished and not repeats:
            return OpenedCampaign(found, Opening.COMPLETE)
        if reason is None:
            require_open(found)
    for _ in range(_TRIES):
        _close_cancelled(ledger, wanted)
        try:
            return _open(ledger, wanted, reason, repeats=repeats)
        except StaleRevisionError:
            continue
    raise _keeps_changing(wanted)


def _open(ledger: CampaignLedger, wanted: Campaign, reason: str | None, *, repeats: bool) -> OpenedCampaign:
    how = Opening.FOUND
    current: Campaign | None = None

    def decide(view: OpeningView) -> Change | None:
        nonlocal how, current
        current = view.campaign
        if current is not None:
            require_same_campaign(current, wanted)
            if _goes_on(current, wanted, reason):
                # Those of other ledgers may not have seen it when they were opened.
                _require_no_overlap(wanted, tuple(other for other in view.others if other.foreign))
                return None
            if current.finished and not repeats:
                how = Opening.COMPLETE
                return None
            if not current.finished and reason is None:
                require_open(current)
        _require_no_overlap(wanted, view.others)
        if wanted.appends and not wanted.unseen:
            _require_nothing_committed(
                wanted, _met(view.others, current, reason), resumed=current is not None
            )
        if current is None:
            how, current = Opening.CREATED, wanted
            return _change(current, EventKind.OPENED, reason)
        if current.finished:
            how, current = Opening.NEW_ROUND, new_round(current, wanted, reason=reason)
            return _change(current, EventKind.ROUND_BEGUN, reason)
        resumed = moved(current, CampaignStatus.OPEN, reason=reason)
        how, current = Opening.RESUMED, replace(resumed, columns=wanted.columns)
        return _change(current, EventKind.RESUMED, reason)

    ledger.open_campaign(wanted.run_key, wanted.target, decide, with_committed=wanted.appends)
    if current is None:
        raise StaleRevisionError
    return OpenedCampaign(current, how)


def begin_round(
    ledger: CampaignLedger, wanted: Campaign, *, reason: str, only: frozenset[int] | None = None
) -> Campaign:
    """Begin a campaign's next round deliberately: its chunks are loaded again, or `only` some of them.

    Attempts that are still at work lose their lease. What appends has one round alone: its rows would be there twice.

    Errors: CampaignDriftError, OverlapError, CampaignMissingError, CampaignStoppedError for one that appends;
    CampaignBusyError where the locks are not free.
    Source: the design, ledger (rounds).
    """
    begun: Campaign | None = None

    def decide(view: OpeningView) -> Change:
        nonlocal begun
        current = view.campaign
        if current is None:
            raise CampaignMissingError(
                f"the ledger has no campaign {wanted.run_key}",
                where=f"campaign {wanted.run_key}",
                next_step="begin it with `dpone backfill run MANIFEST --execute`",
            )
        require_same_campaign(current, wanted)
        require_another_round(current, view.others, whole=only is None)
        if only is not None:
            require_same_columns(current, wanted)
        begun = new_round(current, wanted, reason=reason)
        event = Event(begun.run_key, EventKind.ROUND_BEGUN, begun.round, begun.revision, detail=reason)
        return Change(event=event, campaign=begun, reloaded=only)

    for _ in range(_TRIES):
        _close_cancelled(ledger, wanted)
        try:
            ledger.open_campaign(wanted.run_key, wanted.target, decide)
        except StaleRevisionError:
            continue
        if begun is not None:
            return begun
    raise _keeps_changing(wanted)


def _goes_on(found: Campaign, wanted: Campaign, reason: str | None) -> bool:
    """Whether a campaign is open as it stands; one whose columns changed is opened anew, for a reason.

    Errors: CampaignDriftError for columns that changed, where it is not finished and no reason is given.
    """
    if found.finished:
        return False
    if reason is None:
        require_same_columns(found, wanted)
    same = set(found.columns) == set(wanted.columns)
    return found.status is CampaignStatus.OPEN and same


def require_another_round(
    campaign: Campaign, others: tuple[OtherCampaign, ...], *, whole: bool = True
) -> None:
    """Require that a campaign's chunks, all or some, may be loaded again beside the other campaigns on its target.

    Errors: CampaignStoppedError for one that appends, and for some chunks of one that is published; OverlapError.
    """
    if campaign.appends:
        aside = campaign.shadow is not None or campaign.status is CampaignStatus.PUBLISHED
        raise CampaignStoppedError(
            f"campaign {campaign.run_key} appends: loading its chunks again would leave their rows there twice",
            where=f"campaign {campaign.run_key}",
            next_step="load it anew under another backfill_id, with a shadow of its own"
            if aside
            else "load the window with partition_replace under another backfill_id",
        )
    if campaign.status is CampaignStatus.PUBLISHED and not whole:
        raise CampaignStoppedError(
            f"campaign {campaign.run_key} is published: its chunks are loaded again all together, into a new shadow, or not at all",
            where=f"campaign {campaign.run_key}",
            next_step="load it anew with `dpone backfill restart MANIFEST --reason ... --execute`, or mend these chunks by a campaign "
            "of publication direct under another backfill_id",
        )
    _require_no_overlap(campaign, others)


def _keeps_changing(wanted: Campaign) -> CampaignBusyError:
    return CampaignBusyError(
        f"campaign {wanted.run_key} keeps changing while it is being opened",
        where=f"campaign {wanted.run_key}",
        next_step="run it again",
        run_key=wanted.run_key,
    )


def _change(campaign: Campaign, kind: EventKind, detail: str | None) -> Change:
    event = Event(campaign.run_key, kind, campaign.round, campaign.revision, detail=detail)
    return Change(event=event, campaign=campaign)


def in_the_way(wanted: Window, others: tuple[OtherCampaign, ...]) -> tuple[OtherCampaign, ...]:
    """Give the other campaigns that are not over and may change what a window covers."""
    return tuple(
        other for other in others if not other.campaign.over and other.campaign.reach.overlaps(wanted)
    )


def closes_when_asked(other: OtherCampaign) -> bool:
    """Whether whoever opens a campaign in its way closes it first: it is cancelled, and nothing of it is at work."""
    cancelled = other.campaign.status is CampaignStatus.CANCEL_REQUESTED
    return cancelled and other.live_leases == 0 and not other.foreign


def _require_no_overlap(wanted: Campaign, others: tuple[OtherCampaign, ...]) -> None:
    for other in in_the_way(wanted.reach, others):
        window = other.campaign.reach
        shown = "everything" if window.everything else f"[{window.lower}, {window.upper}) of {window.column}"
        raise OverlapError(
            f"campaign {other.campaign.run_key} ({other.campaign.status.value}, {other.live_leases} chunks at work) "
            f"covers {shown} of the same target {other.campaign.dataset}",
            where=f"ledger {other.ledger}",
            next_step="let it finish, or stop it with `dpone backfill cancel` and its manifest, then run this again",
            run_key=other.campaign.run_key,
        )


def _met(
    others: tuple[OtherCampaign, ...], current: Campaign | None, reason: str | None
) -> tuple[OtherCampaign, ...]:
    """Give the campaigns whose rows an append must not meet: all, or those that no reason can have been about."""
    if current is None:
        return others if reason is None else ()
    return tuple(other for other in others if _has_moved_since(other.campaign, current))


def _has_moved_since(other: Campaign, campaign: Campaign) -> bool:
    """Whether another campaign may have loaded anything since one began. It was over then, and commits nothing unless it moves.

    When the other began does not tell: an older one may have been closed, and resumed since.
    """
    began, moved_at = campaign.created_at, other.updated_at
    return began is None or moved_at is None or moved_at >= began


def _require_nothing_committed(wanted: Campaign, others: tuple[OtherCampaign, ...], *, resumed: bool) -> None:
    """Refuse to append to what is loaded: the rows would be there twice."""
    way_out = (
        "append what is left of the window under another backfill_id"
        if resumed
        else "load a window that adjoins, or use partition_replace; if those rows are gone or shall stand twice: "
        "dpone backfill run MANIFEST --execute --reason ..."
    )
    for other in others:
        window = next((window for window in other.committed if window.overlaps(wanted.window)), None)
        if window is None:
            continue
        shown = "everything" if window.everything else f"[{window.lower}, {window.upper}) of {window.column}"
        raise OverlapError(
            f"campaign {other.campaign.run_key} ({other.campaign.status.value}) has committed rows within {shown} of the "
            f"same target {other.campaign.dataset}: appending the window would load them twice",
            where=f"ledger {other.ledger}",
            next_step=way_out,
            run_key=other.campaign.run_key,
        )


def _close_cancelled(ledger: CampaignLedger, wanted: Campaign) -> None:
    """Close overlapping cancelled campaigns of the same ledger that have no chunk at work any more."""
    closable: list[Campaign] = []

    def look(view: OpeningView) -> None:
        closable.extend(
            other.campaign for other in in_the_way(wanted.reach, view.others) if closes_when_asked(other)
        )

    ledger.open_campaign(wanted.run_key, wanted.target, look)
    for campaign in closable:
        close_cancelled(ledger, campaign, f"closed by the opening of {wanted.run_key}")


def close_cancelled(ledger: CampaignLedger, campaign: Campaign, reason: str) -> None:
    """Close a cancelled campaign that has no live lease, so that nothing of it can commit any more."""

    def decide(view: LedgerView) -> Change | None:
        current = view.campaign
        if current is None or current.status is not CampaignStatus.CANCEL_REQUESTED or view.live_leases:
            return None
        return _change(moved(current, CampaignStatus.CLOSED, reason=reason), EventKind.CLOSED, reason)

    ledger.close_campaign(campaign.run_key, decide)


def complete_campaign(ledger: CampaignLedger, campaign: Campaign, committed_count: int) -> Campaign:
    """Record that every chunk of a round is committed, where it is so; give the campaign as it now stands."""

    def decide(view: LedgerView) -> Change | None:
        current = view.campaign
        if current is None or current.round != campaign.round or current.over or current.finished:
            return None
        if current.shadow is not None and current.status is not CampaignStatus.OPEN:
            return None  # it was told to stop, and what is complete is published
        return _change(moved(current, CampaignStatus.COMPLETE), EventKind.COMPLETED, None)

    if committed_count >= campaign.chunks_total:
        ledger.transition(campaign.run_key, None, decide)
    return ledger.read_campaign(campaign.run_key) or campaign


def cancel_campaign(ledger: CampaignLedger, campaign: Campaign, *, reason: str, by: str | None) -> Campaign:
    """Ask a campaign to begin no further chunk, and not to be published; chunks at work may finish.

    Errors: CampaignStoppedError when it is over already: complete, or published where a shadow has to be, or closed.
    """

    def decide(view: LedgerView) -> Change | None:
        current = view.campaign
        if current is None or current.over:
            state = current.status.value if current else "missing"
            raise CampaignStoppedError(
                f"campaign {campaign.run_key} is {state}; there is nothing to cancel",
                where=f"campaign {campaign.run_key}",
                next_step="nothing; `dpone backfill status MANIFEST` shows how it ended",
            )
        if current.status is CampaignStatus.CANCEL_REQUESTED:
            return None
        asked = moved(current, CampaignStatus.CANCEL_REQUESTED, reason=reason, by=by)
        return _change(asked, EventKind.CANCEL_REQUESTED, reason)

    ledger.transition(campaign.run_key, None, decide)
    return ledger.read_campaign(campaign.run_key) or replace(campaign, status=CampaignStatus.CANCEL_REQUESTED)
