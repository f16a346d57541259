"""Publication by shadow swap: the names of the tables beside the live one, what the swap is, and what is seen before it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from dpone_contract.canonical import canonical_json
from dpone_contract.chunk_plan import RunKey
from dpone_contract.manifest import TableName
from dpone_runtime.domain.event import Event, EventKind

_DIGEST_LENGTH = 12

CANCEL_AND_BEGIN_ANOTHER = "cancel this campaign (dpone backfill cancel MANIFEST --reason ...) and begin another under another backfill_id"
"""The way out of a campaign that cannot be published: until it is cancelled it keeps every other one from the table."""


@dataclass(frozen=True)
class Swap:
    """What a publication exchanges: `shadow` becomes `live`, and what was live is `backup`, kept or dropped.

    The relations are object ids: tables of these names that are others are never touched. `contract` is the fingerprint that both
    tables must still have.
    """

    live: TableName
    shadow: TableName
    backup: TableName
    live_relation: str
    shadow_relation: str
    contract: str
    retain_backup: bool
    unique_key: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShadowContent:
    """What a shadow holds while nobody can write to it; `duplicate_keys` counts values of the unique key that stand there twice."""

    rows: int
    duplicate_keys: int


@dataclass(frozen=True)
class Receipts:
    """What the ledger says of a round: how many chunks are committed, with how many rows."""

    chunks: int
    rows: int


@dataclass(frozen=True)
class PublicationReceipt:
    """What the transaction of a swap has written of itself; relations are object ids, `backup` is None where it was dropped."""

    backup: str | None
    live_relation: str
    object_contract: str
    replaced_relation: str
    rows: int

    def to_text(self) -> str:
        """Give it as an event keeps it: canonical JSON."""
        return canonical_json(asdict(self)).decode()


def publication_receipt(event: Event) -> PublicationReceipt | None:
    """Read the receipt of a publication's event; None of any other event, and where it says something else."""
    if event.kind is not EventKind.PUBLISHED:
        return None
    try:
        return PublicationReceipt(**json.loads(event.detail or ""))
    except (ValueError, TypeError):
        return None


def shadow_name(live: TableName, run_key: RunKey, longest: int) -> TableName:
    """Give the table that a campaign loads: one name for all its runs. `longest` is what the database keeps of a name, in bytes."""
    return _beside(live, "shadow", (run_key,), longest)


def backup_name(live: TableName, run_key: RunKey, round_number: int, longest: int) -> TableName:
    """Give the name under which what was live is kept; each round that is published has its own."""
    scope = (run_key,) if round_number == 1 else (run_key, str(round_number))
    return _beside(live, "backup", scope, longest)


def name_beside(name: str, what: str, scope: tuple[str, ...], longest: int) -> str:
    """Give a name that begins like another, says what it is, and ends with a digest of both."""
    digest = hashlib.sha256("\x1f".join((name, *scope)).encode()).hexdigest()[:_DIGEST_LENGTH]
    end = f"__dpone_{what}_{digest}"
    kept = name.encode()[: longest - len(end)].decode(errors="ignore")
    return kept + end


def _beside(live: TableName, what: str, scope: tuple[str, ...], longest: int) -> TableName:
    return live.replaced(name=name_beside(live.name, what, scope, longest))
