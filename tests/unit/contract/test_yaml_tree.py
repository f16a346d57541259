"""YAML is read strictly, every refusal has its place, and nothing is raised for bad text."""

import pytest

from dpone_contract import yaml_nodes
from dpone_contract.yaml_nodes import MAX_DEPTH, MAX_VALUES
from dpone_contract.yaml_tree import parse_yaml


def only(text):
    tree = parse_yaml(text, "file.yaml")
    (finding,) = tree.findings
    assert finding.path == "file.yaml"
    return finding


@pytest.mark.parametrize(
    "text, value",
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("0123", 123),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("-7", -7),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        (".nan", ".nan"),
        ("true", True),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("null", None),
        ("~", None),
        ("", None),
        ('"2024-01-01"', "2024-01-01"),
        ("'null'", "null"),
        ('"7"', "7"),
        ("[1, a]", [1, "a"]),
        ("{x: 1}", {"x": 1}),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("caf\u00e9 \U0001f600", "caf\u00e9 \U0001f600"),
    ],
)
def test_a_value_is_read_as_yaml_1_2_says(text, value):
    tree = parse_yaml(f"a: {text}", "file.yaml")
    assert (tree.findings, tree.value) == ([], {"a": value})


def test_every_key_and_value_has_its_position():
    tree = parse_yaml("a:\n  b: 1\n  c:\n    - x\n    - y: 2\n", "file.yaml")
    assert tree.positions[("a",)] == (1, 1)
    assert tree.positions[("a", "b")] == (2, 3)
    assert tree.positions[("a", "c", 0)] == (4, 7)
    assert tree.positions[("a", "c", 1, "y")] == (5, 7)


def test_an_unknown_path_has_the_position_of_its_parent():
    tree = parse_yaml("a:\n  b: 1\n", "file.yaml")
    assert tree.position(("a", "missing", "deeper")) == (1, 1)
    assert tree.position(()) == (1, 1)


@pytest.mark.parametrize(
    "text, line, column, message, hint",
    [
        ("a: 1\na: 2", 2, 1, "duplicate key 'a'", "line 1"),
        ("a:\n  b: 1\n  'b': 2", 3, 3, "duplicate key 'b'", "line 2"),
        ("a: 2024-01-01", 1, 1, "unquoted date 2024-01-01", '"2024-01-01"'),
        ("a: 2024-1-1", 1, 1, "unquoted date 2024-1-1", '"2024-1-1"'),
        ("a: [2024-01-01]", 1, 5, "unquoted date 2024-01-01", '"2024-01-01"'),
        ("a: 2024-01-01T00:00:00Z", 1, 1, "unquoted date", "write it as text"),
        ("a: {{ ds }}", 1, 5, "braces without quotes", "quote the token"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, 3, "merge keys", "write the keys out"),
        ("a: !!python/object:os.system x", 1, 1, "tags", "plain value"),
        ("a: !secret x", 1, 1, "tags", "plain value"),
        ('a: !secret "x"', 1, 1, "tags", "plain value"),
        ("a: !!str 5", 1, 1, "tags", "plain value"),
        ("a: !set [x]", 1, 1, "tags", "plain value"),
        ("!!map\na: 1", 1, 1, "tags", "plain value"),
        ("? [1]\n: 2", 1, 3, "braces without quotes", ""),
        ("a: 1\n---\nb: 2", 1, 1, "several documents", "without ---"),
        ("a:\n\tb: 1", 2, 1, "not YAML", "spaces, not with tabs"),
        ("a: [1", 1, 6, "not YAML", "indentation and quotes"),
        ("a: b: c", 1, 5, "not YAML", "indentation and quotes"),
        ('a: "open', 1, 9, "not YAML", "indentation and quotes"),
        ("a: *missing", 1, 4, "not YAML: found undefined alias 'missing'", "&missing above"),
        ("a: &x {b: 1}\nc: {<<: *x, b: 2}", 2, 5, "merge keys", "write the keys out"),
        ("a: " + "9" * 5000, 1, 1, "a number is too large", "quotes around it"),
        ("a: 1e999", 1, 1, "a number is too large", "quotes around it"),
        ("a: 0x" + "f" * 5000, 1, 1, "a number is too large", "quotes around it"),
        ('a: "x\\0"', 1, 1, "a text holds NUL", "remove the escape"),
        ('a: "\u00e9\\ud800"', 1, 1, "half of a surrogate pair", "remove the escape"),
        ('"\\udc00": 1', 1, 1, "half of a surrogate pair", "remove the escape"),
        ("a: \x00", 1, 1, "not YAML", ""),
        ("", 1, 1, "the file is empty", "dpone init"),
        ("# only a comment\n", 1, 1, "the file is empty", "dpone init"),
        ("---\n---\n", 1, 1, "", ""),
    ],
)
def test_what_is_refused_has_a_place_and_a_hint(text, line, column, message, hint):
    finding = only(text)
    assert message in finding.message
    assert hint in finding.next_step
    assert (line, column) == (finding.line, finding.column)


def test_text_beyond_the_limit_is_not_parsed():
    assert "larger than" in only("a: " + "x" * (1024 * 1024)).message


@pytest.mark.parametrize(
    "text, value",
    [
        ("a: &x [1, 2]\nb: *x\n", {"a": [1, 2], "b": [1, 2]}),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("a: &x {b: &y [1]}\nc: *x\nd: *y\n", {"a": {"b": [1]}, "c": {"b": [1]}, "d": [1]}),
        ("&k a: 1\nb: *k\n", {"a": 1, "b": "a"}),
        ('"<<": 1\n', {"<<": 1}),
    ],
)
def test_anchors_are_written_out(text, value):
    tree = parse_yaml(text, "file.yaml")
    assert (tree.findings, tree.value) == ([], value)


def test_what_is_wrong_below_an_anchor_is_told_once():
    finding = only("a: &x {b: 2024-01-01}\nc: *x\n")
    assert (finding.line, finding.column) == (1, 8)


def test_anchors_that_unfold_without_end_are_refused():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert only("\n".join(levels)).message == f"the file unfolds to more than {MAX_VALUES} values"


@pytest.mark.parametrize(
    "text", ["a: &x [*x]", "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 9_000))]
)
def test_an_anchor_within_itself_or_within_very_many_is_refused_once(text):
    assert only(text).message == "an anchor stands within itself, or too deeply in others"


@pytest.mark.parametrize(
    "text",
    ["[" * 3_000, "a: " + "{a: " * 3_000, "- " * 3_000, "".join(" " * n + "a:\n" for n in range(1_200))],
    ids=["brackets", "braces", "dashes", "blocks"],
)
def test_deep_nesting_is_refused_where_it_begins_to_be_too_deep(text):
    finding = only(text)
    assert finding.message == "the file is nested too deeply"
    assert finding.line <= MAX_DEPTH + 1
    assert finding.column <= 5 * MAX_DEPTH


def test_what_is_nested_as_deeply_as_allowed_is_read():
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_yaml(text, "file.yaml").findings == []
    assert only(f"[{text}]").message == "the file is nested too deeply"


@pytest.mark.parametrize("text", ["a: [" + "1," * 500_000 + "]", "a:\n" + "- 1\n" * 250_000])
def test_a_megabyte_of_tiny_values_is_refused_before_it_is_parsed(text, monkeypatch):
    monkeypatch.setattr(yaml_nodes, "YAML", None)
    assert only(text).message == f"the file has more than {MAX_VALUES} lines, commas and colons"


def test_every_finding_of_a_file_is_given():
    tree = parse_yaml("a: 2024-01-01\nb: {{ ds }}\na: 1\n", "file.yaml")
    assert [finding.line for finding in tree.findings] == [1, 2, 3]


@pytest.mark.parametrize(
    "path, value, place, position",
    [
        (("a", "b"), {"c": [1, {"d": 2}]}, ("c", 1, "d"), (3, 14)),
        (("a", "b", "c", 1), {"d": 2}, ("d",), (3, 14)),
        (("a", "b", "c", 7), None, (), (1, 1)),
        (("a", "x"), None, (), (1, 1)),
    ],
)
def test_what_stands_below_a_path_is_a_tree_with_places_of_the_file(path, value, place, position):
    tree = parse_yaml("a:\n  b:\n    c: [1, { d: 2 }]\n", "file.yaml")
    below = tree.below(path)
    assert (below.path, below.value, below.position(place)) == ("file.yaml", value, position)
    below.report("DPONE_MANIFEST_INVALID", (), "a finding of its own")
    assert tree.findings == []
