"""Random values of many types, as the server reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]
AWKWARD = "\t\n\r\\N.,;:\"'{}()[]<>&| NULL%"
WORDS = st.text(st.one_of(st.sampled_from(AWKWARD), st.characters(codec="utf-8", exclude_characters="\0")))
FLOATS = st.floats().map(repr)
LAST_DAY, LAST_DAY_OF_TIMESTAMPS = 2147483493, 109203526
LIMIT = 2**63


@dataclass(frozen=True)
class RandomColumn:
    """A column's type, and values for `expression`, in which each `%s` is one of a tuple or the value itself."""

    type: str
    values: Strategy
    expression: str = ""

    @property
    def written(self) -> str:
        """The expression of a value."""
        return self.expression or f"%s::text::{self.type}"


def integers(bits: int) -> Strategy:
    """Whole numbers of so many bits."""
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).map(str)


def joined(*parts: Strategy, pattern: str) -> Strategy:
    """Values put into a pattern."""
    return st.tuples(*parts).map(lambda values: pattern.format(*values))


def lists(element: Strategy, pattern: str = "{{{}}}", *, least: int = 0) -> Strategy:
    """Elements with commas between them, in brackets."""
    return st.lists(element, min_size=least, max_size=4).map(lambda found: pattern.format(",".join(found)))


def spans(bound: Strategy, key: Callable[[Any], Any]) -> Strategy:
    """Ranges over bounds; some are open or empty."""
    pairs = st.tuples(bound, bound).map(lambda pair: sorted(pair, key=key))
    closed = pairs.map(lambda pair: f"[{pair[0]},{pair[1]}]")
    return st.one_of(closed, pairs.map(lambda pair: f"({pair[0]},)"), st.just("empty"), st.just("(,)"))


def julian(last: int) -> Strategy:
    """Days since the first that PostgreSQL knows."""
    return st.integers(1, last).map(lambda day: f"J{day}")


def clock(microseconds: int) -> str:
    """A time of the day."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"


CLOCKS = st.integers(0, 24 * 3600 * 1_000_000).map(clock)
OFFSETS = joined(st.sampled_from("+-"), st.integers(0, 14), st.integers(0, 59), pattern="{}{:02}:{:02}")
DOCUMENTS = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), WORDS
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=5,
).map(json.dumps)
POINTS = joined(FLOATS, FLOATS, pattern="({},{})")
ADDRESSES = st.one_of(
    st.tuples(st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(0, 32)),
    st.tuples(st.integers(0, 2**128 - 1).map(IPv6Address), st.integers(0, 128)),
).map(lambda pair: f"{pair[0]}/{pair[1]}")
NUMBERS = st.one_of(
    st.sampled_from(("NaN", "Infinity", "-Infinity")),
    joined(st.integers(), st.integers(-300, 300), pattern="{}e{}"),
)
MOODS = st.sampled_from(("sad", "", "a,b\\", "☃"))

PLAIN: tuple[RandomColumn, ...] = (
    RandomColumn("boolean", st.sampled_from("tf")),
    RandomColumn("smallint", integers(16)),
    RandomColumn("integer", integers(32)),
    RandomColumn("bigint", integers(64)),
    RandomColumn("numeric", NUMBERS),
    RandomColumn("numeric(12,3)", st.integers(-(10**12) + 1, 10**12 - 1).map(lambda number: f"{number}e-3")),
    RandomColumn("real", st.floats(width=32).map(repr)),
    RandomColumn("double precision", FLOATS),
    RandomColumn(
        "money", st.integers(-LIMIT, LIMIT - 1).map(lambda cents: f"{cents}e-2"), "%s::numeric::money"
    ),
    RandomColumn("text", WORDS),
    RandomColumn("character varying(5)", WORDS.map(lambda word: word[:5])),
    RandomColumn("character(5)", WORDS.map(lambda word: word[:5])),
    RandomColumn('"char"', st.integers(0, 255).map(lambda code: f"\\{code:03o}")),
    RandomColumn("bytea", st.binary().map(lambda value: "\\x" + value.hex())),
    RandomColumn("date", st.one_of(julian(LAST_DAY), st.sampled_from(("infinity", "-infinity")))),
    RandomColumn("time", CLOCKS),
    RandomColumn("time with time zone", joined(CLOCKS, OFFSETS, pattern="{}{}")),
    RandomColumn("timestamp", joined(julian(LAST_DAY_OF_TIMESTAMPS), CLOCKS, pattern="{} {}")),
    RandomColumn(
        "timestamptz", joined(julian(LAST_DAY_OF_TIMESTAMPS - 2), CLOCKS, OFFSETS, pattern="{} {}{}")
    ),
    RandomColumn(
        "interval",
        st.tuples(integers(32), integers(32), st.integers(-LIMIT + 1, LIMIT - 1)).map(
            lambda parts: "{} mons {} days {} microseconds".format(*parts)
        ),
    ),
    RandomColumn("uuid", st.uuids().map(str)),
    RandomColumn("json", DOCUMENTS),
    RandomColumn("jsonb", DOCUMENTS),
    RandomColumn("inet", ADDRESSES),
    RandomColumn("macaddr", st.binary(min_size=6, max_size=6).map(lambda value: value.hex())),
    RandomColumn("bit varying", st.text("01")),
    RandomColumn("tsvector", WORDS, "to_tsvector('simple', %s)"),
    RandomColumn("point", POINTS),
    RandomColumn("polygon", lists(POINTS, "({})", least=1)),
    RandomColumn("int4range", spans(st.integers(-(2**31), 2**31 - 2), int)),
    RandomColumn("int8multirange", lists(spans(st.integers(-LIMIT, LIMIT - 2), int))),
    RandomColumn("xid8", st.integers(0, 2**64 - 1).map(str)),
    RandomColumn("tid", joined(st.integers(0, 2**32 - 1), st.integers(0, 65535), pattern="({},{})")),
    RandomColumn("integer[]", lists(st.one_of(st.just("NULL"), integers(32)))),
    RandomColumn("text[]", st.lists(st.one_of(st.none(), WORDS), max_size=4), "%s::text[]"),
    RandomColumn("source.mood", MOODS),
)
MADE: tuple[RandomColumn, ...] = (
    RandomColumn(
        "source.mood[]", st.lists(st.one_of(st.none(), MOODS), max_size=4), "%s::text[]::source.mood[]"
    ),
    RandomColumn(
        "source.made",
        st.tuples(*(st.one_of(st.none(), values) for values in (integers(32), WORDS, FLOATS, MOODS))),
        "ROW(%s::text, %s::text, %s::text, %s::text)::source.made",
    ),
    RandomColumn(
        "source.made[]",
        st.tuples(st.one_of(st.none(), WORDS), st.one_of(st.none(), WORDS)),
        "ARRAY[ROW(1, %s::text, 'NaN', ''), NULL, ROW(NULL, %s::text, '-0', NULL)]::source.made[]",
    ),
    RandomColumn("source.mood_range", st.sampled_from(("empty", '["",☃]', '(sad,"a,b\\\\")', "(,)"))),
)
"""Types that only text carries."""
