"""Named queries: `.sql` files cut into blocks that begin with `-- name:`; parameters are `:name`, tables `{name}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

_NAME = re.compile(r"^-- name: ([a-z_]+)\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_TABLE = re.compile(r"\{([a-z_]+)\}")
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


@dataclass(frozen=True)
class Statement:
    """One query in the driver's own parameter style, with its values."""

    name: str
    text: str
    values: Mapping[str, object]


class Queries:
    """The queries of one dialect, table names filled in."""

    def __init__(self, blocks: Mapping[str, str], tables: Mapping[str, str]) -> None:
        self._blocks = dict(blocks)
        self._texts = {name: _fill(text, tables) for name, text in blocks.items()}

    def names(self) -> frozenset[str]:
        """Give the names of all queries; the same in every dialect."""
        return frozenset(self._texts)

    def statement(self, name: str, /, **values: object) -> Statement:
        """Give a query with its values; KeyError for a name that does not exist."""
        return Statement(name, self._texts[name], values)

    def for_tables(self, tables: Mapping[str, str]) -> Queries:
        """Give the same queries over other tables."""
        return Queries(self._blocks, tables)


def load_blocks(package: str, *files: str) -> dict[str, str]:
    """Read the blocks of a package's `.sql` files; parameters become `%(name)s`, as psycopg has them."""
    blocks: dict[str, str] = {}
    for file in files:
        text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
        parts = _NAME.split(text)[1:]
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in blocks:
                raise ValueError(f"query {name} stands twice in {package}")
            bare = _COMMENT.sub("", body).strip().rstrip(";")
            blocks[name] = _PARAMETER.sub(r"%(\1)s", bare.replace("%", "%%"))
    return blocks


def _fill(text: str, tables: Mapping[str, str]) -> str:
    # In one pass: a quoted name may hold `{chunks}` itself.
    return _TABLE.sub(lambda found: tables.get(found[1], found[0]).replace("%", "%%"), text)
