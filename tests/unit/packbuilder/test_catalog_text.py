"""A further workload is put into a catalog's text without touching the rest of it, or not at all."""

import pytest

from dpone_contract.yaml_tree import parse_yaml
from dpone_packbuilder.catalog_text import find_extended_catalog

ENTRY = """\
  second:
    manifest: second.yaml # here
    airflow:
      mapping: { mode: internal }
"""
FIRST = """\
# the catalog
workloads:
  first: # of all
    manifest: first.yaml
"""


def indented(entry, by):
    return "".join(" " * by + line[2:] for line in entry.splitlines(keepends=True))


@pytest.mark.parametrize(
    "before, entry, after",
    [
        pytest.param(FIRST, ENTRY, "", id="at the end"),
        pytest.param(FIRST + "\n# the end\n\n", ENTRY, "", id="after a comment at the end"),
        pytest.param(FIRST, ENTRY, "defaults:\n  airflow: {}\n", id="before another block"),
        pytest.param(FIRST, ENTRY, "\n# what holds for all\n\ndefaults: {}\n", id="before a commented block"),
        pytest.param("defaults: {}\n" + FIRST, ENTRY, "", id="after another block"),
        pytest.param("workloads:\n    first: {}\n", indented(ENTRY, 4), "", id="indented by four"),
        pytest.param("workloads:\n first:\n  x: 1\n", indented(ENTRY, 1), "", id="indented by one"),
        pytest.param("workloads:\r\n  first: {}\r\n", ENTRY.replace("\n", "\r\n"), "", id="ends of Windows"),
        pytest.param("workloads:\n  first: &f {}\n  other: *f\n", ENTRY, "", id="anchors"),
        pytest.param(FIRST + "  # a remark inside\n", ENTRY, "defaults: {}\n", id="a remark inside"),
    ],
)
def test_the_entry_stands_after_the_last_workload(before, entry, after):
    found = find_extended_catalog(before + after, ENTRY, "second")
    assert before + entry + after == found
    assert list(parse_yaml(str(found), "f").value["workloads"])[-1] == "second"


def test_a_last_line_without_an_end_gets_one():
    assert FIRST + ENTRY == find_extended_catalog(FIRST.rstrip("\n"), ENTRY, "second")


@pytest.mark.parametrize(
    "text",
    [
        "workloads: { first: { manifest: first.yaml } }\n",
        "workloads:\n  first:\n    manifest: |\n      a\n# content of no comment\n",
        "{ workloads: { first: {} } }\n",
        "workloads:\n",
        "workloads: {}\n",
        "workloads: []\n",
        "- workloads\n",
        "",
        "workloads:\n  first: {}\n  first: {}\n",
        "workloads:\n  first: 2024-01-01\n",
        "workloads:\n  second: {}\n",
        "workloads: &w\n  first: {}\ndefaults: *w\n",
        "workloads:\n  first: {}\n---\nworkloads: {}\n",
        "--- # one document\nworkloads:\n  first: {}\n...\n",
    ],
)
def test_what_cannot_be_done_safely_is_not_done(text):
    found = find_extended_catalog(text, ENTRY, "second")
    if found is not None:  # the literal ends before the line that only looks like a comment
        assert found.replace(ENTRY, "") == text
        assert parse_yaml(found, "f").findings == []
        assert "content of no comment" in text


def test_a_name_that_is_no_bare_word_is_found():
    entry = '  "a b":\n    manifest: x\n'
    found = find_extended_catalog(FIRST, entry, "a b")
    assert found == FIRST + entry
    assert find_extended_catalog(str(found), entry, "a b") is None
