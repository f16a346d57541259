"""YAML is read strictly, every refusal has its place, and nothing is raised for bad text."""

import pytest

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
        ("a: *missing", 1, 4, "not YAML", "indentation and quotes"),
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


def test_anchors_are_written_out():
    tree = parse_yaml("a: &x [1, 2]\nb: *x\n", "file.yaml")
    assert (tree.findings, tree.value) == ([], {"a": [1, 2], "b": [1, 2]})


def test_anchors_that_unfold_without_end_are_refused():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert only("\n".join(levels)).message == "the file unfolds to more than 100000 values"


def test_an_anchor_within_itself_is_refused():
    assert only("a: &x [*x]").message == "the file unfolds to more than 100000 values"


def test_deep_nesting_is_refused_without_a_crash():
    assert only("[" * 3_000).message == "the file is nested too deeply"


def test_every_finding_of_a_file_is_given():
    tree = parse_yaml("a: 2024-01-01\nb: {{ ds }}\na: 1\n", "file.yaml")
    assert [finding.line for finding in tree.findings] == [1, 2, 3]
