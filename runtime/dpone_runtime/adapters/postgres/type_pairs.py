"""Which Postgres type holds every value of another, and the cast that the source's SELECT needs for it; all else is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Modifiers = tuple[int, ...]
"""What stands in a type's brackets: a length, a precision, precision and scale; empty where there are none."""

_FULL_PRECISION = 6
_MODIFIED = re.compile(r"(.*?)\((-?\d+)(?:,(-?\d+))?\)(.*)")
_INSTANT = "timestamp with time zone"
_WALL_CLOCK = "timestamp without time zone"


@dataclass(frozen=True)
class Conversion:
    """How a value gets from one type into another: `cast` follows `column::` in the source's SELECT, empty for none."""

    cast: str = ""


def find_conversion(source: str, target: str, timezone: str | None = None) -> Conversion | None:
    """Give the lossless way from one full type name into another, or None where there is none.

    A date becomes an instant at midnight of `timezone`, and not at all without one. What single values do not fit (a date
    beyond the last timestamp) the server refuses when it meets them.
    """
    if source == target:
        return Conversion()
    source_base, source_modifiers = split_type(source)
    target_base, target_modifiers = split_type(target)
    if (source_base, target_base) == ("date", _INSTANT):
        return Conversion(f"timestamp AT TIME ZONE {_literal(timezone)}") if timezone else None
    if source_base.startswith("interval") and target == "interval":
        return Conversion()
    rule = _RULES.get((source_base, target_base))
    if rule is None or not rule.fits(source_modifiers, target_modifiers):
        return None
    return Conversion(rule.cast)


def split_type(type_name: str) -> tuple[str, Modifiers]:
    """Split `timestamp(3) without time zone` into base and modifiers; an array's are its elements', so it stays whole."""
    found = _MODIFIED.fullmatch(type_name)
    if found is None or type_name.endswith("[]"):
        return type_name, ()
    modifiers = tuple(int(text) for text in (found[2], found[3]) if text is not None)
    return (found[1] + found[4]).strip(), modifiers


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class _Rule:
    cast: str
    fits: Callable[[Modifiers, Modifiers], bool]


def _always(_source: Modifiers, _target: Modifiers) -> bool:
    return True


def _unlimited(_source: Modifiers, target: Modifiers) -> bool:
    return not target


def _longer(source: Modifiers, target: Modifiers) -> bool:
    return not target or (bool(source) and source[0] <= target[0])


def _finer(source: Modifiers, target: Modifiers) -> bool:
    return (source or (_FULL_PRECISION,))[0] <= (target or (_FULL_PRECISION,))[0]


def _wider(source: Modifiers, target: Modifiers) -> bool:
    """As many digits before the point and after it; `numeric(5)` has none after it."""
    if not target or not source:
        return not target
    (precision, scale), (into_precision, into_scale) = (*source, 0)[:2], (*target, 0)[:2]
    return into_scale >= scale and into_precision - into_scale >= precision - scale


def _digits(count: int) -> Callable[[Modifiers, Modifiers], bool]:
    """Room for whole numbers of so many digits."""
    return lambda _source, target: _wider((count, 0), target)


_RULES: dict[tuple[str, str], _Rule] = {
    ("smallint", "integer"): _Rule("integer", _always),
    ("smallint", "bigint"): _Rule("bigint", _always),
    ("smallint", "numeric"): _Rule("numeric", _digits(5)),
    ("smallint", "real"): _Rule("real", _always),
    ("smallint", "double precision"): _Rule("double precision", _always),
    ("integer", "bigint"): _Rule("bigint", _always),
    ("integer", "numeric"): _Rule("numeric", _digits(10)),
    ("integer", "double precision"): _Rule("double precision", _always),
    ("bigint", "numeric"): _Rule("numeric", _digits(19)),
    ("oid", "bigint"): _Rule("bigint", _always),
    ("real", "double precision"): _Rule("double precision", _always),
    ("numeric", "numeric"): _Rule("", _wider),
    ("character varying", "character varying"): _Rule("", _longer),
    ("character varying", "text"): _Rule("", _always),
    ("text", "character varying"): _Rule("", _unlimited),
    ("character", "character"): _Rule("", _longer),
    ("character", "bpchar"): _Rule("", _always),
    # Its padding holds nothing: the server's own cast drops it.
    ("character", "character varying"): _Rule("character varying", _longer),
    ("character", "text"): _Rule("text", _always),
    ("bpchar", "text"): _Rule("text", _always),
    ("name", "text"): _Rule("text", _always),
    ("json", "text"): _Rule("text", _always),
    ("uuid", "text"): _Rule("text", _always),
    ("date", _WALL_CLOCK): _Rule(_WALL_CLOCK, _always),
    (_WALL_CLOCK, _WALL_CLOCK): _Rule("", _finer),
    (_INSTANT, _INSTANT): _Rule("", _finer),
    ("time without time zone", "time without time zone"): _Rule("", _finer),
    ("time with time zone", "time with time zone"): _Rule("", _finer),
    ("bit", "bit varying"): _Rule("bit varying", _longer),
    ("bit varying", "bit varying"): _Rule("", _longer),
    ("cidr", "inet"): _Rule("inet", _always),
    ("macaddr", "macaddr8"): _Rule("macaddr8", _always),
}
"""Bases of source and target: the cast, and whether the modifiers of the one fit into those of the other."""
