"""JSON text to plain values, without what JSON parsers let pass: duplicate names, NaN, infinities, endless nesting."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import NoReturn

MAX_SAFE_INTEGER = 2**53 - 1


def parse_strict_json(text: str | bytes) -> object:
    """Read one JSON value.

    Errors: ValueError, also for a duplicate name, a number that is none or too large for a double, and nesting too deep.
    """
    return _parse(text, _read_float, int)


def parse_plain_json(text: str | bytes) -> object:
    """Read one JSON value that is plain, so that `canonical_json_of_plain` gives its canonical bytes.

    Errors: ValueError as `parse_strict_json`, and for a fraction, an exponent or an integer beyond 2^53 - 1.
    """
    return _parse(text, _refuse_float, _read_safe_integer)


def _parse(
    text: str | bytes, read_float: Callable[[str], float], read_integer: Callable[[str], int]
) -> object:
    try:
        return json.loads(
            # Decoded here, since json.loads would take UTF-16 and a byte order mark too.
            text.decode() if isinstance(text, bytes) else text,
            object_pairs_hook=_require_unique,
            parse_constant=_refuse_constant,
            parse_float=read_float,
            parse_int=read_integer,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _require_unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _read_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _refuse_float(_text: str) -> NoReturn:
    raise ValueError("a number is no integer")


def _read_safe_integer(text: str) -> int:
    number = int(text)
    if abs(number) > MAX_SAFE_INTEGER:
        raise ValueError("a number is too large")
    return number
