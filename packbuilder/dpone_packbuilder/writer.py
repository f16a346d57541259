"""Packs and the release index to files, each written whole or not at all. No other module of the builder writes a pack.

Nothing is removed but packs that an earlier build of the same folder wrote and nobody has changed since.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpone_contract.errors import PackInvalidError, UsageError
from dpone_contract.pack import Pack, dump_pack, parse_pack
from dpone_packbuilder.release_index import (
    RELEASE_INDEX_FILE_NAME,
    ReleaseIndex,
    build_release_index,
    dump_release_index,
    pack_path,
    parse_release_index,
)


@dataclass(frozen=True)
class WrittenRelease:
    """What a build left behind: its index, and which files it wrote, found unchanged, or removed."""

    index: ReleaseIndex
    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    removed: tuple[Path, ...]


def write_pack(pack: Pack, path: Path) -> bool:
    """Write a pack's canonical bytes; give False where the file holds them already.

    Errors: PackTooLargeError before anything is written; UsageError when the file cannot be written.
    """
    return write_whole(path, dump_pack(pack))


def write_release(folder: Path, packs: tuple[Pack, ...], *, release: str, deployment: str) -> WrittenRelease:
    """Write every pack as `<workload>/airflow-pack.json`, then the index, then remove what the release has dropped.

    Errors: PackTooLargeError before anything is written; UsageError when a file cannot be written.
    """
    files = {folder / pack_path(pack.workload): dump_pack(pack) for pack in packs}
    sized = tuple((pack, len(files[folder / pack_path(pack.workload)])) for pack in packs)
    index = build_release_index(release, deployment, sized)
    dropped = [path for path in _packs_of_earlier_index(folder) if path not in files]
    files[folder / RELEASE_INDEX_FILE_NAME] = dump_release_index(index)
    outcome = {path: write_whole(path, data) for path, data in files.items()}
    with _told_as_usage(folder):
        for path in dropped:
            path.unlink()
            with contextlib.suppress(OSError):  # somebody keeps other files there
                path.parent.rmdir()
    return WrittenRelease(
        index,
        written=tuple(path for path, changed in outcome.items() if changed),
        unchanged=tuple(path for path, changed in outcome.items() if not changed),
        removed=tuple(dropped),
    )


def write_whole(path: Path, data: bytes) -> bool:
    """Replace a file by a complete one that is on disk; give False where it holds these bytes already.

    Errors: UsageError when the file cannot be written.
    """
    with _told_as_usage(path):
        if path.is_file() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        # The rename itself is durable only once the folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return True


def _packs_of_earlier_index(folder: Path) -> Iterator[Path]:
    """Give the packs that an earlier build wrote here and that are still exactly what it wrote."""
    try:
        index = parse_release_index((folder / RELEASE_INDEX_FILE_NAME).read_bytes())
    except (OSError, PackInvalidError):
        return
    for pack in index.packs:
        path = folder / pack.path
        with contextlib.suppress(OSError, PackInvalidError):
            if parse_pack(path.read_bytes()).fingerprint == pack.fingerprint:
                yield path


@contextmanager
def _told_as_usage(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", next_step="name another folder with --out"
        ) from error
