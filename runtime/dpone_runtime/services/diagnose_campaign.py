"""The rules of a doctor: what was looked at becomes symptoms. Pure; nothing is opened here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dpone_contract.errors import DponeError, advice_of
from dpone_runtime.domain.campaign import Campaign, CampaignStatus, Window
from dpone_runtime.domain.chunk_record import ChunkStatus
from dpone_runtime.domain.diagnosis import Diagnosis, Symptom, Urgency
from dpone_runtime.domain.event import EventKind, PastEvent
from dpone_runtime.domain.publication import publication_receipt
from dpone_runtime.domain.verification import Verdict, VerificationMethod, find_verdict
from dpone_runtime.ports.ledger import OtherCampaign, RunningChunk
from dpone_runtime.services.open_campaign import closes_when_asked, in_the_way

RUNNING_SHOWN = 10
OTHERS_SHOWN = 10
_LIFTING = re.compile(r"(`dpone backfill (?:retry-failed|resume) MANIFEST(?: --execute)?)`")
"""Commands of the catalogue that a campaign which is not open asks a reason of."""
_INFO, _ACTION, _INFRASTRUCTURE = Urgency.INFO, Urgency.ACTION, Urgency.INFRASTRUCTURE


@dataclass(frozen=True)
class FailedChunks:
    """Failed chunks of one code, and the message of the first of them."""

    code: str
    chunks: int
    first_chunk_index: int
    message: str


@dataclass(frozen=True)
class Situation:
    """What was looked at. `command` is the manifest with its options, as the next command line repeats them.

    `tables` is the error of a look at source and target that they did not pass.
    """

    command: str
    run_key: str
    ledger_exists: bool
    internal: bool
    in_a_file: bool = False
    seen: bool = True
    """Whether the ledger could be looked at, which says of a campaign that it was not begun."""
    window: Window | None = None
    campaign: Campaign | None = None
    counts: Mapping[ChunkStatus, int] = field(default_factory=dict)
    running: tuple[RunningChunk, ...] = ()
    failed: tuple[FailedChunks, ...] = ()
    history: tuple[PastEvent, ...] = ()
    others: tuple[OtherCampaign, ...] = ()
    drifts: tuple[str, ...] = ()
    tables: DponeError | None = None
    missing_rights: tuple[str, ...] = ()
    pooled: bool = False

    def backfill(self, verb: str, *options: str) -> str:
        """Give a command line."""
        return " ".join(("dpone backfill", verb, self.command, *options))


def diagnose(situation: Situation) -> Diagnosis:
    """Say what is the matter, the most pressing first, after the runbook of the backfill guide."""
    campaign = situation.campaign
    found = [*_of_the_place(situation)]
    if campaign is None:
        found += _not_begun(situation)
    found += _in_the_way(situation)
    if campaign is not None:
        found += _of_chunks(situation, campaign)
    if campaign is not None and campaign.finished:
        found += _of_the_end(situation, campaign)
    complete = campaign is not None and campaign.finished and not campaign.publishable
    return Diagnosis(tuple(found), complete=complete)


def _of_the_place(found: Situation) -> Iterator[Symptom]:
    """Rights, tables, and what connects them."""
    if found.missing_rights:
        yield Symptom(
            "ledger_unwritable",
            _INFRASTRUCTURE,
            f"the ledger cannot be written, for lack of: {'; '.join(found.missing_rights)}",
            "let this user read and write the folder, or name another with state_dir"
            if found.in_a_file
            else "grant USAGE on the ledger's schema and SELECT, INSERT, UPDATE on its tables to this user, or connect to the primary",
        )
    if found.tables is not None:
        urgency = _INFRASTRUCTURE if found.tables.exit_code.value == 5 else _ACTION
        yield Symptom(
            "tables",
            urgency,
            f"{found.tables.code.value}: {found.tables.message}",
            found.tables.next_step,
        )
    for drift in found.drifts:
        yield Symptom(
            "drift",
            _ACTION,
            f"{drift}: a run would be refused",
            "restore it, or begin a new campaign under another backfill_id",
        )
    if found.pooled:
        yield Symptom(
            "proxy",
            _ACTION if found.internal else _INFO,
            "the connection to the target runs through a transaction-pooling proxy, which cannot hold the session lock of an "
            "internal run; mapped tasks work through it",
            "connect to the server itself or through a session pool, or use a mapped mode"
            if found.internal
            else None,
        )


def _not_begun(found: Situation) -> Iterator[Symptom]:
    if found.missing_rights and not found.ledger_exists:
        return
    run = found.backfill("run", "--execute")
    if found.ledger_exists:
        yield Symptom("not_begun", _ACTION, f"the ledger has no campaign {found.run_key}", run)
        return
    told = "there is no ledger yet; a run makes its folder"
    if not found.in_a_file:
        told = (
            "there is no ledger yet; a run creates it where this user may, else a role that may runs what "
            f"`dpone state ddl {shlex.quote(shlex.split(found.command)[0])}` prints"
        )
    yield Symptom("ledger_missing", _ACTION, told, run)


def _in_the_way(found: Situation) -> Iterator[Symptom]:
    """Other campaigns on a part of the window: while this one is open there can be none, but in ledgers that it cannot see."""
    window = found.window
    if window is None:
        return
    for other in in_the_way(window, found.others)[:OTHERS_SHOWN]:
        campaign = other.campaign
        told = (
            f"campaign {campaign.run_key} of ledger {other.ledger} ({campaign.status.value}, {other.live_leases} chunks at "
            "work) covers a part of this window of the target"
        )
        if found.campaign is not None and found.campaign.over:
            yield Symptom("overlap", _INFO, f"{told}: it may load it anew")
        elif closes_when_asked(other):
            yield Symptom("overlap", _INFO, f"{told}; it is cancelled, and a run of this one closes it")
        else:
            step = f"let {campaign.run_key} finish, or stop it with `dpone backfill cancel` and its manifest"
            yield Symptom("overlap", _ACTION, f"{told}: this one cannot be opened beside it", step)


def _of_chunks(found: Situation, campaign: Campaign) -> Iterator[Symptom]:
    live = found.counts.get(ChunkStatus.RUNNING, 0)
    if live:
        yield Symptom(
            "at_work",
            _INFO,
            f"{counted(live, 'is', 'are')} at work; a dead run frees its chunk within two minutes",
            found.backfill("status"),
        )
    if campaign.finished:
        return
    reason = () if campaign.status is CampaignStatus.OPEN else ("--reason ...",)
    yield from _stopped(found, campaign)
    retry = found.backfill("retry-failed", "--execute", *reason)
    for group in found.failed:
        advice = _advice(group.code, gives_reason=bool(reason)).replace("MANIFEST", found.command)
        yield Symptom(
            "failed",
            _ACTION,
            f"{counted(group.chunks, 'failed', 'failed')} with {group.code}, the first is chunk {group.first_chunk_index}: {group.message}. "
            f"Do: {advice}",
            retry,
        )
    lapsed = found.counts.get(ChunkStatus.LEASE_EXPIRED, 0)
    if lapsed:
        told = (
            f"{counted(lapsed, 'has', 'have')} a lapsed lease: the run died, or was frozen; look at its log"
        )
        yield Symptom("lapsed", _ACTION, told, retry)
    left = campaign.chunks_total - sum(found.counts.values())
    if left:
        told = f"{left} of {campaign.chunks_total} chunks {'is' if left == 1 else 'are'} pending"
        idle = campaign.status is CampaignStatus.OPEN and not live
        yield Symptom("pending", _ACTION if idle else _INFO, told, found.backfill("resume", *reason))
    if found.counts.get(ChunkStatus.COMMITTED, 0) >= campaign.chunks_total:
        told = "every chunk is committed, and the campaign is not marked complete: its last run ended before it could"
        yield Symptom("unmarked", _ACTION, told, found.backfill("resume", *reason))


def _advice(code: str, *, gives_reason: bool) -> str:
    """Give what the catalogue advises; its commands lift a halt where they give a reason."""
    advice = advice_of(code) or ""
    return _LIFTING.sub(r"\1 --reason ...`", advice) if gives_reason else advice


def counted(count: int, one: str, several: str) -> str:
    """Give a number of chunks with its verb."""
    return f"1 chunk {one}" if count == 1 else f"{count} chunks {several}"


def _stopped(found: Situation, campaign: Campaign) -> Iterator[Symptom]:
    """Tell why no chunk begins, and by whom."""
    why = f" at {campaign.updated_at:%Y-%m-%d %H:%M:%S %Z}" if campaign.updated_at else ""
    why += f" by {campaign.requested_by}" if campaign.requested_by else ""
    why += f": {campaign.reason}" if campaign.reason else ""
    match campaign.status:
        case CampaignStatus.HALTED:
            step = found.backfill("resume", "--reason ...")
            yield Symptom("halted", _ACTION, f"halted{why}. Mend the cause of the failures first", step)
        case CampaignStatus.CANCEL_REQUESTED:
            step = found.backfill("resume", "--reason ...")
            yield Symptom("cancelled", _ACTION, f"cancelled{why}. No chunk begins; it can go on", step)
        case CampaignStatus.CLOSED:
            step = found.backfill("restart", "--reason ...", "--execute")
            told = f"closed{why}. Nothing of it can commit; another campaign has taken its window"
            yield Symptom("closed", _ACTION, told, step)


def _of_the_end(found: Situation, campaign: Campaign) -> Iterator[Symptom]:
    """Whether what is complete was compared with its source."""
    yield from _of_the_publication(found, campaign)
    verify = found.backfill("verify")
    begun, ended = _verifications(found, campaign)
    if begun is not None:
        told = f"a verification was begun at {begun.at:%Y-%m-%d %H:%M:%S %Z} and has not come to its end; it goes on where it is"
        yield Symptom("verification_unfinished", _INFO, told, verify)
    elif not ended:
        told = "every chunk is committed; contents were not compared since"
        yield Symptom("unverified", _INFO, told, verify)
    for at, verdict in ended:
        if verdict.different:
            text = f"verified at {at}, {verdict.text()}: find out which side has changed"
            yield Symptom("differs", _ACTION, text, _way_out_of_differences(found, campaign))
            return
    for at, verdict in ended[:1]:
        yield Symptom("verified", _INFO, f"every chunk is committed; verified at {at}, {verdict.text()}")


def _of_the_publication(found: Situation, campaign: Campaign) -> Iterator[Symptom]:
    """Whether what is loaded aside is what everybody reads."""
    if campaign.publishable and campaign.shadow is not None:
        told = (
            f"every chunk is committed into {campaign.shadow.name}, which is not published: the last run ended before it could, or was "
            "refused, and its log says why"
        )
        yield Symptom("unpublished", _ACTION, told, found.backfill("resume"))
    for past in found.history:
        receipt = publication_receipt(past.event)
        if receipt is not None and past.event.round == campaign.round:
            kept = f"; what was live before is {receipt.backup}" if receipt.backup else ""
            yield Symptom("published", _INFO, f"published at {past.at:%Y-%m-%d %H:%M:%S %Z}{kept}")


def _verifications(
    found: Situation, campaign: Campaign
) -> tuple[PastEvent | None, tuple[tuple[str, Verdict], ...]]:
    """Give what began a verification that goes on, and of each method what the last one came to, the deepest first.

    Counts that are equal take nothing back of contents that differ.
    """
    begun: PastEvent | None = None
    ended: dict[str, tuple[str, Verdict]] = {}
    for past in found.history:
        if past.event.round != campaign.round:
            continue
        match past.event.kind:
            case EventKind.COMPLETED:
                begun, ended = None, {}
            case EventKind.VERIFICATION_BEGUN:
                begun = past
            case EventKind.VERIFICATION_ENDED:
                begun, verdict = None, find_verdict(past.event.detail or "")
                if verdict is not None:
                    ended[verdict.method] = (f"{past.at:%Y-%m-%d %H:%M:%S %Z}", verdict)
    deepest_first = (VerificationMethod.CONTENT, VerificationMethod.COUNTS)
    return begun, tuple(ended[method] for method in deepest_first if method in ended)


def _way_out_of_differences(found: Situation, campaign: Campaign) -> str:
    if campaign.appends:
        return (
            "an append is not loaded again; partition_replace under another backfill_id replaces the window"
        )
    if campaign.status is CampaignStatus.PUBLISHED:
        return found.backfill("restart", "--reason ...", "--execute")
    return found.backfill("verify", "--repair", "--reason ...")
