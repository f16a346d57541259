"""The whole keyspace of uuids, cut into ranges of one size; nothing is discovered, so concurrent inserts change nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpone_contract.chunk_options import ChunkKind, ChunkOptions, NullPolicy, refuse_keys, refuse_zone
from dpone_contract.errors import PlanInvalidError

LAST_UUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

_KEYSPACE = 1 << 128
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


@dataclass(frozen=True)
class UuidChunks:
    """`buckets` adjacent ranges, in the order in which PostgreSQL compares uuids; the last one includes its upper bound."""

    column: str
    buckets: int
    nulls: NullPolicy = NullPolicy.FAIL
    timezone: str = "UTC"

    @property
    def kind(self) -> ChunkKind:
        return ChunkKind.UUID

    @property
    def cut(self) -> str:
        return f"{self.buckets} buckets"

    @property
    def last_inclusive(self) -> bool:
        return True

    def count(self) -> int:
        return self.buckets

    def bound(self, index: int) -> str:
        digits = f"{min(index * _KEYSPACE // self.buckets, _KEYSPACE - 1):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def to_document(self) -> dict[str, object]:
        return {
            "column": self.column,
            "kind": self.kind.value,
            "buckets": self.buckets,
            "nulls": self.nulls.value,
        }


def build_uuid_chunks(options: ChunkOptions) -> UuidChunks:
    """Read a number of buckets.

    Errors: PlanInvalidError.
    """
    refuse_keys(
        options,
        ("from_", "to", "step"),
        "does not fit chunks of kind uuid: they cover the whole keyspace",
        "remove it and set chunk.buckets, or write chunk.boundaries",
    )
    refuse_zone(options, ChunkKind.UUID)
    if options.buckets is None:
        raise PlanInvalidError("chunk.buckets is missing", next_step="add for example buckets: 64")
    if options.buckets < 1:
        raise PlanInvalidError(
            f"chunk.buckets {options.buckets} gives no chunk", next_step="use at least 1 bucket"
        )
    return UuidChunks(column=options.column, buckets=options.buckets, nulls=options.nulls)


def read_uuid(value: str | int, name: str) -> str:
    """Read a uuid in its canonical form of 36 characters; letters of either case.

    Errors: PlanInvalidError.
    """
    text = str(value).lower()
    if not _UUID.fullmatch(text):
        raise PlanInvalidError(
            f"chunk.{name} {value!r} is not a uuid",
            next_step='write "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"',
        )
    return text
