"""Rules of how a workload's rows become visible: one small function a rule."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.manifest import Manifest
from dpone_contract.swap_refusals import swap_refusals
from dpone_packbuilder.project import Workload
from dpone_packbuilder.rule import in_campaign, raised_at, warning_at

_OF_A_SWAP = ("retain_backup", "artifact_scope")


def check_publication(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """Apply every rule of this module."""
    yield from refuse_what_cannot_be_swapped(workload, manifest)
    yield from report_keys_without_a_swap(workload, manifest)
    yield from report_a_loss_without_verification(workload, manifest)


def refuse_what_cannot_be_swapped(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """A swap needs a whole table in one campaign, rows that can be counted, and a ledger that commits with it."""
    for refusal in swap_refusals(manifest.backfill):
        yield raised_at(in_campaign(workload, *str(refusal.fields["key"]).split(".")), refusal)


def report_keys_without_a_swap(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """Without a swap there is no backup to keep and no shadow to name."""
    publication = manifest.backfill.publication
    for key in _OF_A_SWAP:
        if not publication.swaps and key in publication.model_fields_set:
            yield warning_at(
                in_campaign(workload, "publication", key),
                ErrorCode.MANIFEST_INVALID,
                f"{key} has no effect: publication.mode is direct, and no table is exchanged",
                "set publication.mode: shadow_swap, or remove it",
            )


def report_a_loss_without_verification(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """Where what was live is dropped, a chunk whose counts differ should not be published with a mere warning."""
    publication, verify = manifest.backfill.publication, manifest.backfill.verify
    if publication.swaps and not publication.retain_backup and verify == "counts":
        yield warning_at(
            in_campaign(workload, "publication", "retain_backup"),
            ErrorCode.MANIFEST_INVALID,
            "retain_backup: false drops what was live, and with verify: counts a chunk that wrote another number of rows than it read "
            "is published all the same, with a warning",
            "set verify: strict or checksum, which fail such a chunk, or keep the backup",
        )
