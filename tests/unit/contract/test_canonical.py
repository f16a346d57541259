"""One value has one byte string, whichever of the two functions gives it, and what JSON cannot hold has none."""

import hashlib
import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from dpone_contract.canonical import canonical_json, canonical_json_of_plain, fingerprint

LIMIT = 2**53 - 1
NAMES = st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCXYZ_", max_size=8)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-LIMIT, LIMIT) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_the_fast_function_gives_the_same_bytes_for_plain_values(value):
    assert canonical_json(value) == canonical_json_of_plain(value)


@given(PLAIN)
def test_canonical_bytes_are_the_value(value):
    assert value == json.loads(canonical_json(value))


@given(st.dictionaries(NAMES, PLAIN, max_size=5))
def test_the_order_of_keys_changes_nothing(value):
    turned = dict(reversed(value.items()))
    assert canonical_json(value) == canonical_json(turned)
    assert canonical_json_of_plain(value) == canonical_json_of_plain(turned)


@pytest.mark.parametrize(
    "value, data",
    [
        ({"b": 1, "a": [True, None, ""]}, b'{"a":[true,null,""],"b":1}'),
        ('\u20ac$\u000f\nA\'B"\\"/\u2028\x7f', '"\u20ac$\\u000f\\nA\'B\\"\\\\\\"/\u2028\x7f"'.encode()),
        (LIMIT, b"9007199254740991"),
        (-LIMIT, b"-9007199254740991"),
        (1.0, b"1"),
    ],
)
def test_canonical_bytes_are_those_of_the_standard(value, data):
    assert data == canonical_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), LIMIT + 1, -LIMIT - 1, {1: 2}, "\ud800", {1}])
def test_what_json_cannot_hold_has_no_canonical_bytes(value):
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_the_fast_function_refuses_what_is_no_json(value):
    with pytest.raises(ValueError):  # noqa: PT011  # the class is the promise
        canonical_json_of_plain(value)


def test_a_fingerprint_is_the_sha256_of_canonical_bytes():
    assert fingerprint({"b": 1, "a": 2}) == "sha256:" + hashlib.sha256(b'{"a":2,"b":1}').hexdigest()
