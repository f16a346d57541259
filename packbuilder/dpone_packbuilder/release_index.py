"""The release index: which packs one build wrote, each with its fingerprint, under a fingerprint of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from dpone_contract.canonical import Fingerprint, canonical_json_of_plain, fingerprint_of_bytes
from dpone_contract.errors import PackInvalidError
from dpone_contract.frozen import FrozenModel
from dpone_contract.mapping_plan import FingerprintText
from dpone_contract.pack import PACK_FILE_NAME, Pack, ShortText
from dpone_contract.strict_json import parse_plain_json
from dpone_packbuilder.catalog import WorkloadName

RELEASE_INDEX_FILE_NAME = "release-index.json"
_UNSEALED = "sha256:" + "0" * 64


class IndexedPack(FrozenModel):
    """One pack of a release."""

    workload: WorkloadName = Field(description="Name of the workload.")
    path: ShortText = Field(description="Path of the pack, relative to the index.")
    fingerprint: FingerprintText = Field(description="Fingerprint of the pack.")
    size_bytes: Annotated[int, Field(ge=1)] = Field(description="Size of the pack's file.")


class ReleaseIndex(FrozenModel):
    """`dpone.release-index.v1`."""

    schema_: Literal["dpone.release-index.v1"] = Field(
        default="dpone.release-index.v1", alias="schema", description="Name and version of this format."
    )
    fingerprint: FingerprintText = Field(description="Fingerprint of the index, itself left out.")
    release: ShortText = Field(description="Name of the release.")
    deployment: ShortText = Field(description="Name of the deployment.")
    packs: tuple[IndexedPack, ...] = Field(description="Packs, ordered by workload.")


def pack_path(workload: str) -> str:
    """Give the path of a workload's pack, relative to the index."""
    return f"{workload}/{PACK_FILE_NAME}"


def build_release_index(release: str, deployment: str, packs: tuple[tuple[Pack, int], ...]) -> ReleaseIndex:
    """Index packs, each given with its size in bytes."""
    indexed = tuple(
        IndexedPack(
            workload=pack.workload,
            path=pack_path(pack.workload),
            fingerprint=pack.fingerprint,
            size_bytes=size_bytes,
        )
        for pack, size_bytes in sorted(packs, key=lambda pair: pair[0].workload)
    )
    index = ReleaseIndex(fingerprint=_UNSEALED, release=release, deployment=deployment, packs=indexed)
    return index.replaced(fingerprint=_fingerprint(index))


def dump_release_index(index: ReleaseIndex) -> bytes:
    """Give an index's canonical bytes."""
    return canonical_json_of_plain(index.to_document())


def parse_release_index(data: bytes) -> ReleaseIndex:
    """Read and prove an index.

    Errors: PackInvalidError when it is malformed, was changed, or names a path that is not its workload's own.
    """
    _require_plain(data)
    try:
        index = ReleaseIndex.model_validate_json(data)
    except ValidationError as error:
        raise _invalid(f"is malformed: {error.errors()[0]['msg']}") from error
    if index.fingerprint != _fingerprint(index):
        raise _invalid("was changed after it was built")
    if any(pack.path != pack_path(pack.workload) for pack in index.packs):
        raise _invalid("names a path that is not its workload's own")
    return index


def _invalid(problem: str) -> PackInvalidError:
    return PackInvalidError(
        f"the release index {problem}",
        where=RELEASE_INDEX_FILE_NAME,
        next_step="build the packs again into an empty folder",
    )


def _fingerprint(index: ReleaseIndex) -> Fingerprint:
    document = index.to_document()
    del document["fingerprint"]
    return fingerprint_of_bytes(canonical_json_of_plain(document))


def _require_plain(data: bytes) -> None:
    """Require JSON that can be read in one way only: no name twice, no number that is none."""
    try:
        parse_plain_json(data)
    except ValueError as error:
        raise PackInvalidError(
            f"the release index is not JSON: {error}",
            where=RELEASE_INDEX_FILE_NAME,
            next_step="build the packs again into an empty folder",
        ) from error
