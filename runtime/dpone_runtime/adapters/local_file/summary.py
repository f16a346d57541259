"""`<run_key>.json`: how a campaign stands, for people; and a mark in its journal, by which a cut is noticed."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from dpone_contract.frozen import FrozenModel
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkRecord

SUMMARY_FORMAT: Final = "dpone.backfill-ledger.v1"


class SummaryInvalidError(Exception):
    """The file is not what was written; the message says how."""


class JournalMark(FrozenModel):
    """The journal's length when the summary was written, and the number of its last line."""

    file: str
    bytes: int = Field(ge=0)
    lines: int = Field(ge=0)


class Summary(FrozenModel):
    """What the file holds."""

    format: Literal["dpone.backfill-ledger.v1"]
    run_key: str
    written_at: datetime
    campaign: Campaign
    chunks: dict[str, int]
    running: tuple[ChunkRecord, ...] = ()
    failures: tuple[ChunkRecord, ...] = ()
    journal: JournalMark


def parse_summary(data: bytes) -> Summary:
    """Read a summary.

    Errors: SummaryInvalidError.
    """
    try:
        return Summary.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        if place == "format":
            raise SummaryInvalidError(
                f"its format is not {SUMMARY_FORMAT}, which this release reads"
            ) from error
        if first["type"] == "json_invalid":
            raise SummaryInvalidError("it is not JSON: it was cut or changed") from error
        raise SummaryInvalidError(f"its {place or 'content'} is not what dpone writes") from error


def write_durably(path: Path, data: bytes) -> None:
    """Put a file in the place of another in one piece, and on the disk.

    Errors: OSError; then the former file stands.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put a folder's names on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
