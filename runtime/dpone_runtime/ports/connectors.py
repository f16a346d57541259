"""Source and sink: where rows come from, where they go, and the one request that joins them for a chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from dpone_contract.chunk_plan import Chunk, ChunkPlan, RunKey
from dpone_runtime.domain.campaign import TableIdentity
from dpone_runtime.domain.coverage import Coverage
from dpone_runtime.domain.lease import OwnerToken
from dpone_runtime.ports.type_structure import TypeStructure


@dataclass(frozen=True)
class Column:
    """A column as its database describes it, with the structure of its type."""

    name: str
    structure: TypeStructure
    nullable: bool
    generated: bool = False
    optional: bool = False
    """Whether a load may leave it out: it may be NULL, has a default, or is computed."""
    expression: str = ""
    """What a generated column is computed by."""
    collation: str = ""
    """One that every server has, where it is not the type's own."""
    inserted_only: bool = False
    """Whether no update may set it, as an identity that is always generated."""

    @property
    def type(self) -> str:
        """The full type name with its modifiers."""
        return self.structure.full_name


@dataclass(frozen=True)
class TableShape:
    """A table's identity and columns in order."""

    identity: TableIdentity
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column | None:
        """Give a column by its exact name."""
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True)
class LoadRequest:
    """One attempt of one chunk: what the commit must prove is still its own."""

    run_key: RunKey
    chunk: Chunk
    round: int
    attempt: int
    revision: int
    owner: OwnerToken


@dataclass(frozen=True)
class SliceContent:
    """What one side holds of a chunk: its rows, and an order-independent digest of them where it was asked for."""

    rows: int
    digest: str | None = None


@dataclass(frozen=True)
class LoadReceipt:
    """The value of a committed chunk row: rows by both servers' own answers, bytes moved, the digest if contents were compared."""

    rows_extracted: int
    rows_loaded: int
    bytes_moved: int
    content_digest: str | None = None


class RowStream(Protocol):
    """One chunk's rows in the wire format of the copy, from one snapshot."""

    @property
    def content(self) -> SliceContent | None:
        """What the same snapshot holds of the chunk, where a load compares contents."""

    def blocks(self) -> Iterator[bytes]:
        """Give the rows in blocks; waits for the source without holding the interpreter."""

    @property
    def rows(self) -> int:
        """The source's own count, once the last block was taken."""


class Source(Protocol):
    """A lane's reading side."""

    def read(self, chunk: Chunk) -> AbstractContextManager[RowStream]:
        """Begin reading a chunk; returns when the first block, or the end, has arrived."""

    def close(self) -> None:
        """End the session."""


class Sink(Protocol):
    """A lane's writing side."""

    def load(self, request: LoadRequest, stream: RowStream, progress: Callable[[int], None]) -> LoadReceipt:
        """Replace the chunk's slice by the stream and complete the chunk, in one transaction.

        `progress` is told the bytes of each block.

        Errors: ChunkLeaseLostError (nothing was changed), ChunkBusyError (another data transaction holds the
        chunk), CommitUnknownError (the answer to COMMIT was lost), ChunkFailedError and its kin (rolled back).
        """

    def close(self) -> None:
        """End the session."""


class SliceReader(Protocol):
    """One side of a verification, over a session of its own."""

    def content(self, chunk: Chunk, *, digest: bool) -> SliceContent:
        """Count, and digest if asked, what this side holds of a chunk, in one snapshot.

        Errors: DatabaseFailedError and its kin.
        """

    def close(self) -> None:
        """End the session."""


class SourceReader(SliceReader, Protocol):
    """The side of a verification that says what no chunk covers."""

    def coverage(self, plan: ChunkPlan) -> Coverage:
        """Count the rows that no chunk of a plan covers.

        Errors: DatabaseFailedError and its kin.
        """


class CommitUnknownError(Exception):
    """The answer to COMMIT did not arrive: only the chunk's row can say whether it happened."""
