"""The ledger's queries: the same names in every dialect, each used, each used one there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dpone_runtime.adapters.sql.queries import load_blocks

ADAPTERS = Path(__file__).parents[2] / "runtime" / "dpone_runtime" / "adapters"
LEDGER_FILES = ("ledger.sql", "schema.sql")
DIALECTS = sorted(path.parent.name for path in ADAPTERS.glob("*/ledger.sql"))
FOLDERS = sorted({path.parent.name for path in ADAPTERS.glob("*/*.sql")})


def blocks_of(folder: str) -> dict[str, str]:
    files = sorted(path.name for path in (ADAPTERS / folder).glob("*.sql"))
    return load_blocks(f"dpone_runtime.adapters.{folder}", *files)


def called_names(folder: Path) -> set[str]:
    """Every string literal of a folder's modules: queries are asked for by their names."""
    found: set[str] = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def asked_for(folder: Path) -> set[str]:
    """The names that a folder's modules ask for: the first argument of `statement(...)`, `query(...)` and `_read(...)`."""
    found: set[str] = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if name in ("statement", "query", "_read") and isinstance(first, ast.Constant):
                found.add(str(first.value))
    return found


def test_there_is_a_dialect():
    assert "postgres" in DIALECTS


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_has_the_same_names(dialect):
    expected = set(load_blocks("dpone_runtime.adapters.postgres", "ledger.sql"))
    assert expected == set(load_blocks(f"dpone_runtime.adapters.{dialect}", "ledger.sql"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_name_that_the_ledger_asks_for_exists(dialect):
    asked = asked_for(ADAPTERS / "sql")
    assert {"read_campaign", "count_live", "renew_chunk"} <= asked
    assert set() == asked - set(load_blocks(f"dpone_runtime.adapters.{dialect}", *LEDGER_FILES))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_that_a_dialect_asks_for_exists(folder):
    assert set() == asked_for(ADAPTERS / folder) - set(blocks_of(folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_query_is_used(folder):
    used = called_names(ADAPTERS / folder) | called_names(ADAPTERS / "sql")
    assert set() == set(blocks_of(folder)) - used


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_row_means_something_where_a_write_may_match_none(dialect):
    text = (ADAPTERS / dialect / "ledger.sql").read_text(encoding="utf-8")
    for block in text.split("-- name: ")[1:]:
        name, _, body = block.partition("\n")
        comments = " ".join(line for line in body.splitlines() if line.startswith("--"))
        if any(word in body for word in ("UPDATE {", "INSERT INTO {")):
            assert "No row" in comments or "NULL" in comments, name
