"""The lines of a journal: what stands in one, its checksum, and what becomes of a line that is not whole."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

from pydantic import Field, ValidationError

from dpone_contract.frozen import FrozenModel
from dpone_runtime.domain.campaign import Campaign
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.domain.event import Event

JOURNAL_FORMAT: Final = "dpone.backfill-journal.v1"
_CHECKSUM = re.compile(rb',"crc32":"([0-9a-f]{8})"\}\n')
_CHECKSUM_BYTES = len(',"crc32":"00000000"}\n')


class LineInvalidError(Exception):
    """A whole line is not what was written; the message says how, and quotes nothing of it."""


class Header(FrozenModel):
    """The first line: which campaign's journal this is."""

    format: Literal["dpone.backfill-journal.v1"]
    run_key: str


class Line(FrozenModel):
    """A row as it now stands, the event that tells of it, or both; `more` where the same change goes on in the next line.

    Sequence numbers count from one, without a gap; the number of an event's line is the event's id.
    """

    sequence: int = Field(ge=1)
    at: datetime
    more: bool = False
    event: Event | None = None
    campaign: Campaign | None = None
    chunk: ChunkRecord | None = None


def encode(model: Header | Line) -> bytes:
    """Give a line with its checksum and its end."""
    body = model.model_dump_json(exclude_defaults=True).encode()
    return b'%s,"crc32":"%08x"}\n' % (body[:-1], zlib.crc32(body))


def encode_all(lines: Iterable[Line]) -> bytes:
    """Give lines in order."""
    return b"".join(map(encode, lines))


def decode_header(text: bytes) -> Header:
    """Read the first line.

    Errors: LineInvalidError, also for the format of another release.
    """
    body = _body(text)
    try:
        return Header.model_validate_json(body)
    except ValidationError as error:
        found = json.loads(body)
        named = found.get("format") if isinstance(found, dict) else None
        if isinstance(named, str) and named.startswith("dpone."):
            raise LineInvalidError(
                f"its format is {named[:60]}, this release reads {JOURNAL_FORMAT}"
            ) from error
        raise LineInvalidError("it is not a journal of dpone") from error


def decode(text: bytes) -> Line:
    """Read a line other than the first.

    Errors: LineInvalidError.
    """
    try:
        return Line.model_validate_json(_body(text))
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"])) or "line"
        raise LineInvalidError(f"its {place} is not what this release writes") from error


def _body(text: bytes) -> bytes:
    found = _CHECKSUM.fullmatch(text, len(text) - _CHECKSUM_BYTES) if len(text) > _CHECKSUM_BYTES else None
    if found is None:
        raise LineInvalidError("it has no checksum")
    body = text[: found.start()] + b"}"
    if zlib.crc32(body) != int(found[1], 16):
        raise LineInvalidError("its checksum does not fit: it was changed after it was written")
    return body
