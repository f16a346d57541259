"""The release index is what was built, field by field, or is refused with the way to mend it."""

import json
from copy import deepcopy

import pytest

from dpone_contract.errors import PackInvalidError
from dpone_packbuilder.release_index import build_release_index, dump_release_index, parse_release_index
from tests.factories import make_pack

INDEX = build_release_index("2024.1", "prod", ((make_pack("b"), 7), (make_pack("a"), 5)))
DATA = dump_release_index(INDEX)
DOCUMENT = json.loads(DATA)


def leaves(value, path=()):
    items = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if items is None:
        yield path
    for key, item in items or ():
        yield from leaves(item, (*path, key))


def flipped(path):
    document = deepcopy(DOCUMENT)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    value = holder[path[-1]]
    holder[path[-1]] = (
        value + 1 if isinstance(value, int) else value[:-1] + ("x" if value[-1] != "x" else "y")
    )
    return json.dumps(document).encode()


def test_packs_stand_in_the_order_of_their_names_whatever_order_they_came_in():
    assert [pack.workload for pack in INDEX.packs] == ["a", "b"]
    assert parse_release_index(DATA) == INDEX


@pytest.mark.parametrize("path", list(leaves(DOCUMENT)), ids=lambda path: ".".join(map(str, path)))
def test_one_changed_value_anywhere_is_found(path):
    with pytest.raises(PackInvalidError):
        parse_release_index(flipped(path))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        DATA[:-1],
        DATA.replace(b'"release":', b'"release":"other","release":'),
        DATA.replace(b'"size_bytes":5', b'"size_bytes":NaN'),
        DATA.replace(b'"size_bytes":5', b'"size_bytes":5.0'),
        DATA.replace(b'"size_bytes":5', b'"size_bytes":5,"size_bytes":5'),
        DATA.replace(b"release-index.v1", b"release-index.v2"),
        b"[" * 50_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_strict_index_is_refused(data):
    with pytest.raises(PackInvalidError, match="the release index"):
        parse_release_index(data)
