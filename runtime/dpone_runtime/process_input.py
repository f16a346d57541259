"""Where a run's process comes from: a manifest with overrides, a process argument, or a process of a pack."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from dpone_contract.errors import (
    ManifestInvalidError,
    NotSupportedError,
    PackInvalidError,
    UsageError,
    located,
)
from dpone_contract.manifest import Manifest
from dpone_contract.manifest_support import unsupported_keys
from dpone_contract.manifest_text import parse_manifest
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.pack import parse_pack
from dpone_contract.process import Process, build_process
from dpone_contract.yaml_tree import MAX_BYTES
from dpone_runtime.command_options import Overrides

_CHUNK_KEYS = {"column": "column", "from_": "from", "to": "to", "step": "step", "kind": "kind"}
_BACKFILL_KEYS = ("inner_mode", "parallel_workers", "max_chunks", "state_dir", "backfill_id")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest file.

    Errors: ManifestInvalidError, NotSupportedError.
    """
    try:
        if path.is_dir():
            raise ManifestInvalidError(
                f"{path} is a folder", where=str(path), next_step="name the manifest file, not its folder"
            )
        data = path.read_bytes() if path.stat().st_size <= MAX_BYTES else b"\n" * (MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ManifestInvalidError(
            f"there is no file {path}",
            where=str(path),
            next_step="check the path, or start with `dpone init`",
        ) from error
    except UnicodeDecodeError as error:
        raise ManifestInvalidError(
            f"{path} is not UTF-8 text (byte {error.start})", where=str(path), next_step="save it as UTF-8"
        ) from error
    except OSError as error:
        raise ManifestInvalidError(
            f"{path} cannot be read: {error.strerror}",
            where=str(path),
            next_step="check the path and its permissions",
        ) from error
    return parse_manifest(text, str(path))


def process_of_manifest(path: Path, overrides: Overrides) -> Process:
    """Compile a manifest for a run by hand: whole campaign, no mapping.

    Errors: ManifestInvalidError, NotSupportedError, UsageError for an override that does not fit.
    """
    manifest = read_manifest(path)
    if not overrides.empty():
        manifest = _overridden(manifest, overrides)
    return build_process(manifest, MappingPolicy())


def process_of_pack(path: Path, name: str | None, fingerprint: str | None) -> Process:
    """Take a process out of a pack file.

    Errors: PackInvalidError, also where the pack is not the one that the fingerprint names.
    """
    try:
        with located(str(path)):
            pack = parse_pack(path.read_bytes())
    except OSError as error:
        raise PackInvalidError(
            f"pack {path} cannot be read: {error.strerror}",
            where=str(path),
            next_step="check the path and its permissions",
        ) from error
    if fingerprint is not None and pack.fingerprint != fingerprint:
        raise PackInvalidError(
            f"pack {path} has fingerprint {pack.fingerprint}, not {fingerprint}",
            where=str(path),
            next_step="deliver pack and DAG of one release together",
        )
    names = {plan.process.name: plan.process for plan in pack.processes}
    if name is None and len(names) == 1:
        return next(iter(names.values()))
    if name not in names:
        raise UsageError(
            f"pack {path} has no process {name!r}",
            where=str(path),
            next_step=f"name one of: {', '.join(names)}",
        )
    return names[name]


def _overridden(manifest: Manifest, overrides: Overrides) -> Manifest:
    document = json.loads(manifest.model_dump_json(by_alias=True, exclude_none=True))
    backfill = document["sink"]["strategy"]["backfill"]
    chunk = {
        key: getattr(overrides, name)
        for name, key in _CHUNK_KEYS.items()
        if getattr(overrides, name) is not None
    }
    if chunk:
        backfill["chunk"] = {**backfill.get("chunk", {}), **chunk}
    for name in _BACKFILL_KEYS:
        if getattr(overrides, name) is not None:
            backfill[name] = getattr(overrides, name)
    try:
        changed = Manifest.model_validate_json(json.dumps(document))
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][-1]).replace("_", "-")
        raise UsageError(
            f"--{option}: {first['msg']}", where=f"--{option}", next_step="see the command's --help"
        ) from error
    for _, what, way_out in unsupported_keys(changed):
        raise NotSupportedError(f"{what} is not supported yet", where="command line", next_step=way_out)
    return changed
