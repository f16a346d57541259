"""Publishing a campaign: every run that finds it complete and not published does so, and one of them does it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from dpone_contract.errors import (
    CampaignBusyError,
    CampaignDriftError,
    CampaignLeaseLostError,
    ConnectionFailedError,
    DatabaseFailedError,
    DponeError,
    PublicationMismatchError,
)
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, published, require_open
from dpone_runtime.domain.event import Event, EventKind
from dpone_runtime.domain.publication import CANCEL_AND_BEGIN_ANOTHER, PublicationReceipt, Swap
from dpone_runtime.ports.ledger import CampaignLedger, Change, Fence, PublicationView, StaleRevisionError

OTHERS_WAIT = timedelta(minutes=10)
"""How long a run waits for another one that is publishing: it counts a table as large as the target."""

_TRIES = 3
_INSPECT = f"find out who writes to it; then {CANCEL_AND_BEGIN_ANOTHER}"


@dataclass(frozen=True)
class Publication:
    """What is to be published, and who is told of it: `told` gets lines before the swap, and one after."""

    swap: Swap
    told: Callable[[str], None]


@dataclass(frozen=True)
class PublicationTools:
    """What a publication works with: the run's clock, whether it was told to stop, and its fence, where it has one."""

    ledger: CampaignLedger
    clock: Callable[[], timedelta]
    stop_requested: Callable[[], bool]
    fence: Fence | None


def publish_campaign(tools: PublicationTools, campaign: Campaign, publication: Publication) -> Campaign:
    """Publish a campaign that is complete and not published; give it as it stands then.

    Whether it has happened is read from the ledger, never remembered: an answer that was lost, or another run that was faster,
    are found published. A campaign whose next round has begun meanwhile is given as it is.

    Errors: PublicationRefusedError, PublicationMismatchError, PublicationBusyError; CampaignStoppedError where it was cancelled
    meanwhile; CampaignLeaseLostError, CampaignDriftError; CampaignBusyError where another run holds it for ten minutes;
    those of the ledger. In each case nothing was exchanged.
    Source: the design, publication by shadow swap.
    """
    swap, waits_until, tries, waiting = publication.swap, tools.clock() + OTHERS_WAIT, 0, False
    publication.told(f"publishing: {swap.shadow} is counted, and becomes {swap.live}")
    publication.told(
        f"  what is live now is kept as {swap.backup}, with what others have written to it since the load began"
        if swap.retain_backup
        else "  what is live now is dropped, with what others have written to it since the load began"
    )
    while True:
        refusal, found = _refusal(lambda: _publish(tools, campaign, publication)), campaign
        try:
            found = tools.ledger.read_campaign(campaign.run_key) or campaign
        except (DatabaseFailedError, ConnectionFailedError) as error:
            refusal = refusal or error
        # Whatever was refused: another run may have been faster, whose swap has left no shadow, or only the answer was lost.
        if found.status is CampaignStatus.PUBLISHED:
            publication.told(f"published: {swap.live} is what was loaded")
            return found
        if found.round != campaign.round:
            return found
        busy = isinstance(refusal, CampaignBusyError)
        tries += not busy
        waits = tools.clock() < waits_until and not tools.stop_requested()
        if refusal is not None and not _goes_again(refusal, waits=waits, fails=tries >= _TRIES):
            raise refusal
        if not found.publishable:
            return found
        if refusal is not None and busy and not waiting:
            waiting = True
            publication.told(f"  waiting: {refusal.message}")


def _refusal(step: Callable[[], None]) -> DponeError | None:
    """Give what a step was refused for; a row that has moved meanwhile is read again."""
    try:
        step()
    except StaleRevisionError:
        return None
    except DponeError as error:
        return error
    return None


def _goes_again(refusal: DponeError, *, waits: bool, fails: bool) -> bool:
    """Whether it is tried again: while another run holds the campaign, and after what may pass by itself."""
    if isinstance(refusal, CampaignBusyError):
        return waits
    passing = isinstance(refusal, (DatabaseFailedError, ConnectionFailedError)) and refusal.transient
    return passing and not fails


def _publish(tools: PublicationTools, campaign: Campaign, publication: Publication) -> None:
    swap = publication.swap

    def decide(view: PublicationView) -> Change | None:
        current = view.campaign
        if current is None or current.round != campaign.round:
            return None
        require_open(current)
        if not current.publishable:
            return None
        if tools.fence is not None and not tools.fence.held():
            raise CampaignLeaseLostError(
                f"the session lock of campaign {campaign.run_key} is gone",
                where=f"campaign {campaign.run_key}",
                next_step="run it again; if it repeats, look for a proxy or a timeout that ends idle sessions",
            )
        _require_same_tables(current, swap)
        _require_whole(current, view, swap)
        receipt = PublicationReceipt(
            backup=str(swap.backup) if swap.retain_backup else None,
            live_relation=swap.shadow_relation,
            object_contract=swap.contract,
            replaced_relation=swap.live_relation,
            rows=view.content.rows,
        )
        after = published(current)
        event = Event(
            current.run_key, EventKind.PUBLISHED, current.round, after.revision, detail=receipt.to_text()
        )
        return Change(event=event, campaign=after)

    fenced = tools.fence is not None
    tools.ledger.publish(campaign.run_key, swap, decide, fenced=fenced, told=publication.told)


def _require_same_tables(current: Campaign, swap: Swap) -> None:
    shadow = current.shadow
    found = (current.target.relation, shadow and shadow.relation, shadow and shadow.contract)
    if found != (swap.live_relation, swap.shadow_relation, swap.contract):
        raise CampaignDriftError(
            f"the tables of campaign {current.run_key} are not those that this run has looked at",
            where=f"campaign {current.run_key}",
            next_step="run it again",
            run_key=current.run_key,
        )


def _require_whole(current: Campaign, view: PublicationView, swap: Swap) -> None:
    """Require every chunk's receipt, exactly their rows in the shadow, and no key twice."""
    where = f"table {swap.shadow}"
    if view.receipts.chunks != current.chunks_total:
        raise PublicationMismatchError(
            f"campaign {current.run_key} is recorded as complete with {view.receipts.chunks} of {current.chunks_total} chunks "
            "committed; the live table is untouched",
            where=f"campaign {current.run_key}",
            next_step=f"find out who changed the ledger; then {CANCEL_AND_BEGIN_ANOTHER}",
        )
    if view.content.rows != view.receipts.rows:
        raise PublicationMismatchError(
            f"the shadow of campaign {current.run_key} holds {view.content.rows} rows, and {view.receipts.rows} were committed into "
            "it; the live table is untouched",
            where=where,
            next_step=_INSPECT,
        )
    if view.content.duplicate_keys:
        key = ", ".join(swap.unique_key)
        raise PublicationMismatchError(
            f"{view.content.duplicate_keys} values of the unique key ({key}) stand more than once in the shadow of campaign "
            f"{current.run_key}; the live table is untouched",
            where=where,
            next_step="mend the source's keys, or name the columns that tell its rows apart under unique_key; then "
            f"{CANCEL_AND_BEGIN_ANOTHER}",
        )
