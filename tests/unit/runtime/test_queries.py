"""Named queries: blocks of a file, `:name` for values, `{name}` for tables, everything else as it stands."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from dpone_runtime.adapters.sql.queries import Queries, load_blocks


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    """Give a function that reads blocks out of text, as if it lay in a package."""
    (tmp_path / "queried_package").mkdir()
    (tmp_path / "queried_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    def read(*texts: str) -> dict[str, str]:
        names = []
        for number, text in enumerate(texts):
            names.append(f"{number}.sql")
            (tmp_path / "queried_package" / names[-1]).write_text(text, encoding="utf-8")
        return load_blocks("queried_package", *names)

    yield read
    found: ModuleType | None = sys.modules.pop("queried_package", None)
    assert found is not None


def only(found: dict[str, str]) -> str:
    (text,) = found.values()
    return text


def test_blocks_begin_with_their_names(blocks):
    found = blocks(
        "-- A file.\n\n-- name: one\nSELECT 1;\n\n-- name: two_too\n-- No row: never.\nSELECT\n 2\n",
        "-- name: x\nX",
    )
    assert {"one": "SELECT 1", "two_too": "SELECT\n 2", "x": "X"} == found


def test_a_name_stands_once(blocks):
    with pytest.raises(ValueError, match="one stands twice"):
        blocks("-- name: one\nSELECT 1", "-- name: one\nSELECT 2")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("SELECT :run_key", "SELECT %(run_key)s"),
        ("(:a,:b)", "(%(a)s,%(b)s)"),
        ("x=:a::bigint", "x=%(a)s::bigint"),
        ("'x'::text || y::date", "'x'::text || y::date"),
        ("a[1:2]", "a[1:2]"),
        ("LIKE 'dpone%'", "LIKE 'dpone%%'"),
        ("7 % :a", "7 %% %(a)s"),
        ("x -- not a whole line :a\n", "x -- not a whole line %(a)s"),
        ("  -- a whole line with :a and 100%\nSELECT 1", "SELECT 1"),
    ],
)
def test_parameters_casts_and_percent_signs(blocks, text, expected):
    assert expected == only(blocks(f"-- name: one\n{text}"))


def test_tables_are_filled_in_and_their_percent_signs_survive():
    queries = Queries({"one": "SELECT %(a)s FROM {chunks} JOIN {chunks}"}, {"chunks": '"od%d"."c"'})
    statement = queries.statement("one", a=5)
    assert ("one", 'SELECT %(a)s FROM "od%%d"."c" JOIN "od%%d"."c"', {"a": 5}) == (
        statement.name,
        statement.text,
        statement.values,
    )
    assert 'SELECT %(a)s FROM "x" JOIN "x"' == queries.for_tables({"chunks": '"x"'}).statement("one").text


def test_a_query_that_does_not_exist_is_an_error():
    queries = Queries({"one": "SELECT 1"}, {})
    assert {"one"} == queries.names()
    with pytest.raises(KeyError):
        queries.statement("two")


def test_a_value_may_be_called_name():
    assert {"name": "x"} == Queries({"one": "SELECT %(name)s"}, {}).statement("one", name="x").values
