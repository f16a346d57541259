"""Pack files: found, read and proved. Nothing else of a deployment is opened while DAGs are parsed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from airflow_provider_dpone.provider_info import VERSION
from dpone_contract.errors import DponeError, PackInvalidError
from dpone_contract.pack import PACK_FILE_NAME, PACK_SIZE_LIMIT_BYTES, Pack, parse_pack

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")


def find_packs(folder: Path) -> tuple[Path, ...]:
    """Give every pack file under a folder, sorted by path.

    Errors: PackInvalidError when the folder does not exist.
    """
    if not folder.is_dir():
        raise PackInvalidError(
            "there is no folder of packs",
            where=str(folder),
            next_step="write packs there with `dpone pack build`",
        )
    return tuple(sorted(folder.rglob(PACK_FILE_NAME)))


def read_pack_bytes(path: Path) -> bytes:
    """Read a pack file, no more of it than a pack may have.

    Errors: PackInvalidError when it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(PACK_SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        raise PackInvalidError(
            f"the pack cannot be read: {error.strerror}",
            where=str(path),
            next_step="check the path and its mode",
        ) from error


def read_pack(path: Path) -> Pack:
    """Read a pack and prove it: schema, fingerprint, plans, digests, and that this provider is new enough for it.

    Errors: PackInvalidError, MappingPlanMismatchError; each names the file.
    """
    return parse_pack_of(path, read_pack_bytes(path))


def parse_pack_of(path: Path, data: bytes) -> Pack:
    """Prove the bytes of the pack at `path`; errors as in `read_pack`."""
    try:
        pack = parse_pack(data)
        require_provider_version(pack.minimum_provider_version)
    except DponeError as error:
        newer = _newer_version_of(data)
        if newer is not None:
            raise _too_new(newer, path) from error
        error.where = error.where or str(path)
        raise
    return pack


def require_provider_version(minimum: str) -> None:
    """Require this provider to be at least as new as a pack asks for.

    Errors: PackInvalidError.
    """
    wanted = _VERSION.fullmatch(minimum)
    if wanted is None:
        raise PackInvalidError(
            f"the pack's minimum provider version {minimum!r} is no version",
            next_step="build it again with `dpone pack build`",
        )
    if _numbers(minimum) > _numbers(VERSION):
        raise _too_new(minimum, None)


def _newer_version_of(data: bytes) -> str | None:
    # A pack of a later release may hold what this one cannot read. Then its version is the answer, not the first
    # field that is unknown here.
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    minimum = document.get("minimum_provider_version") if isinstance(document, dict) else None
    if not isinstance(minimum, str) or _VERSION.fullmatch(minimum) is None:
        return None
    return minimum if _numbers(minimum) > _numbers(VERSION) else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _too_new(minimum: str, path: Path | None) -> PackInvalidError:
    return PackInvalidError(
        f"the pack needs airflow-provider-dpone {minimum} or newer, this is {VERSION}",
        where=None if path is None else str(path),
        next_step=f"upgrade airflow-provider-dpone to {minimum}, or build the pack with its release {VERSION}",
    )
