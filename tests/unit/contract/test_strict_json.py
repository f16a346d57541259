"""JSON is read without what its parsers let pass."""

import pytest

from dpone_contract.strict_json import MAX_SAFE_INTEGER, parse_plain_json, parse_strict_json

READERS = pytest.mark.parametrize("parse", [parse_strict_json, parse_plain_json])


@READERS
@pytest.mark.parametrize(
    "text, value",
    [
        ("{}", {}),
        ('{"a": [1, "b", null, true]}', {"a": [1, "b", None, True]}),
        (b'"caf\xc3\xa9"', "caf\u00e9"),
        (str(MAX_SAFE_INTEGER), MAX_SAFE_INTEGER),
        (str(-MAX_SAFE_INTEGER), -MAX_SAFE_INTEGER),
    ],
)
def test_plain_values_are_read(parse, text, value):
    assert value == parse(text)


@READERS
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{'a': 1}",
        '{"a": 1, "a": 1}',
        '[{"b": {"a": 1, "a": 2}}]',
        "NaN",
        "[Infinity]",
        '{"a": -Infinity}',
        "1e999",
        "[-1e400]",
        "9" * 5_000,
        "[" * 100_000,
        '{"a":' * 100_000,
        b"\xff",
        "\ufeff{}",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        "{}".encode("utf-32-le"),
        "1 2",
    ],
)
def test_what_is_no_strict_json_is_refused(parse, text):
    with pytest.raises(ValueError):  # noqa: PT011  # the class is the promise
        parse(text)


@pytest.mark.parametrize("text", ["1.0", "1.5", "1e3", str(MAX_SAFE_INTEGER + 1), str(-MAX_SAFE_INTEGER - 1)])
def test_plain_json_has_safe_integers_alone(text):
    assert parse_strict_json(text) == float(text)
    with pytest.raises(ValueError, match="a number is"):
        parse_plain_json(text)
