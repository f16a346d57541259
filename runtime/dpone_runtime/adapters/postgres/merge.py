"""The merge of a chunk: its rows staged in a temporary table, then inserted or updated by their unique key, in key order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from dpone_contract.errors import ChunkFailedError, ContentDiffersError
from dpone_runtime.adapters.postgres.batches import run_batch
from dpone_runtime.adapters.postgres.connect import PgConnection
from dpone_runtime.adapters.postgres.content import content_query, read_content, row_text
from dpone_runtime.adapters.postgres.identifiers import quoted
from dpone_runtime.adapters.postgres.predicate import ChunkedTable
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.ports.connectors import LoadRequest, SliceContent


@dataclass(frozen=True)
class MergeKey:
    """What identifies a row, and what tells the newer of two rows of one key; empty and None where a mode has none."""

    columns: tuple[str, ...] = ()
    version: str | None = None


@dataclass
class Merge:
    """Staging lives in the session's own temporary schema and goes with the transaction, however that ends.

    Of several rows of one key in a chunk the highest version wins, NULL being the lowest; a row of the target is left alone
    where its version is higher. Rows of the target that the source has no more stay.
    """

    chunked: ChunkedTable
    key: MergeKey
    after: Callable[[str], None]
    _staging: str = field(default="", init=False)

    def begin(self, connection: PgConnection, request: LoadRequest) -> str:
        self._staging = quoted("pg_temp", staging_name(request))
        # Of the target's types, so that rows are compared as its index compares them.
        _run(
            connection,
            f"CREATE TEMPORARY TABLE {quoted(staging_name(request))} ON COMMIT DROP AS"
            f" SELECT {self.chunked.column_list} FROM {self.chunked.name} WITH NO DATA",
        )
        self.after("staged")
        return self._staging

    def finish(self, connection: PgConnection, copied: int) -> int:
        """Upsert what was staged; give how many staged rows are in the target, or outdone there by a newer one.

        Errors: ChunkFailedError for keys that are NULL or occur more than once, with their number and no value.
        """
        self._require_keys(connection)
        merged = _affected(connection, self._upsert())
        self.after("merged")
        if merged == copied:
            return copied
        # Outdone by a newer row of chunk or target, or dropped by a trigger: only what is there tells them apart.
        return copied - max(0, _count(connection, self._due_count()) - merged)

    def content(self, connection: PgConnection, _request: LoadRequest) -> SliceContent:
        """Give the staged rows, once the target is known to hold each as it was staged, or a newer one."""
        differing = _count(connection, self._differing_count())
        if differing:
            raise ContentDiffersError(
                f"{differing} rows of the target are not what was merged into it; the chunk was rolled back",
                where=f"target table {self.chunked.table}",
                next_step="look for triggers on the target that change rows",
            )
        query = content_query(self._staging, row_text(self.chunked), None)
        return read_content(connection, query, self.chunked.timezone)

    def _require_keys(self, connection: PgConnection) -> None:
        nulls = " OR ".join(f"{quoted(name)} IS NULL" for name in self.key.columns)
        found = _count(connection, f"SELECT count(*) FROM {self._staging} WHERE {nulls}")
        if found:
            raise ChunkFailedError(
                f"{found} rows of the source have NULL in their unique_key ({', '.join(self.key.columns)})",
                next_step="mend the rows, or name a unique_key without NULL; the chunk was rolled back",
            )
        doubled = _count(connection, self._doubled_count())
        if doubled:
            of_version = f" with one highest {self.key.version}" if self.key.version else ""
            out = (
                "mend the source"
                if self.key.version
                else "mend the source, or name the version_column that orders rows of one key"
            )
            raise ChunkFailedError(
                f"{doubled} keys of unique_key ({', '.join(self.key.columns)}) occur more than once in the chunk"
                f"{of_version}: which row is to stay is not known",
                next_step=f"{out}; the chunk was rolled back",
            )

    def _doubled_count(self) -> str:
        keys = _list(self.key.columns)
        rows = self._staging
        if self.key.version is not None:
            rows = (
                f"(SELECT {keys}, rank() OVER (PARTITION BY {keys} ORDER BY {quoted(self.key.version)}"
                f" DESC NULLS LAST) AS {quoted(_PLACE)} FROM {self._staging}) ranked WHERE {quoted(_PLACE)} = 1"
            )
        return f"SELECT count(*) FROM (SELECT FROM {rows} GROUP BY {keys} HAVING count(*) > 1) doubled"

    def _winners(self) -> str:
        """Give one row a key, in key order: two transactions that meet in several rows lock them in one order."""
        keys, columns, version = _list(self.key.columns), self.chunked.column_list, self.key.version
        if version is None:
            return f"SELECT {columns} FROM {self._staging} ORDER BY {keys}"
        return (
            f"SELECT DISTINCT ON ({keys}) {columns} FROM {self._staging}"
            f" ORDER BY {keys}, {quoted(version)} DESC NULLS LAST"
        )

    def _upsert(self) -> str:
        chunked, key = self.chunked, self.key
        # A key alone is set to itself, so that its row is locked and counted like any other.
        changed = [name for name in chunked.columns if name not in key.columns] or [key.columns[0]]
        assignments = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in changed)
        newer = ""
        if key.version is not None:
            version = quoted(key.version)
            newer = f" WHERE excluded.{version} >= old.{version} OR old.{version} IS NULL"
        return (
            f"INSERT INTO {chunked.name} AS old ({chunked.column_list}) OVERRIDING SYSTEM VALUE {self._winners()}"
            f" ON CONFLICT ({_list(key.columns)}) DO UPDATE SET {assignments}{newer}"
        )

    def _due_count(self) -> str:
        """Count the keys that had to be written: those of which the target holds no newer row."""
        return self._count_without(self._newer())

    def _differing_count(self) -> str:
        """Count the keys of which the target holds neither a newer row nor the staged one, column by column."""
        staged = f"{row_text(self.chunked, 'old')} = {row_text(self.chunked, 'new')}"
        return self._count_without(f"({self._newer()} OR {staged})")

    def _newer(self) -> str:
        if self.key.version is None:
            return "false"
        version = quoted(self.key.version)
        return f"(old.{version} > new.{version} OR (new.{version} IS NULL AND old.{version} IS NOT NULL))"

    def _count_without(self, condition: str) -> str:
        """Count the keys for which no row of the target meets a condition between `old` and `new`."""
        same = " AND ".join(f"old.{quoted(name)} = new.{quoted(name)}" for name in self.key.columns)
        return (
            f"SELECT count(*) FROM ({self._winners()}) new"
            f" WHERE NOT EXISTS (SELECT FROM {self.chunked.name} old WHERE {same} AND {condition})"
        )


_PLACE = "dpone place"


def staging_name(request: LoadRequest) -> str:
    """Name one attempt's staging: run, chunk and attempt, whatever their length, within 63 bytes."""
    named = "\x1f".join((request.run_key, str(request.chunk.index), str(request.attempt)))
    digest = hashlib.sha256(named.encode()).hexdigest()[:20]
    return f"dpone_staging_{digest}_{request.chunk.index}_{request.attempt}"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, names))


def _run(connection: PgConnection, text: str) -> None:
    run_batch(connection, (Statement("merge", text.replace("%", "%%"), {}),))


def _affected(connection: PgConnection, text: str) -> int:
    return run_batch(connection, (Statement("merge", text.replace("%", "%%"), {}),))[0].rowcount


def _count(connection: PgConnection, text: str) -> int:
    row = run_batch(connection, (Statement("count", text.replace("%", "%%"), {}),))[0].fetchone()
    return int(row[0]) if row is not None else 0
