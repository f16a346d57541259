"""One more workload in the text of a catalog, every other character of it kept."""

from __future__ import annotations

import textwrap

from dpone_contract.yaml_tree import YamlTree, parse_yaml

BLOCK_INDENT = 2
"""How far an entry is indented as it is rendered, and as it is pasted."""


def find_extended_catalog(text: str, entry: str, name: str) -> str | None:
    """Give a catalog's text with an entry after its last workload, or None where that cannot be done safely.

    `entry` is the text of one workload, indented by two. Safe means: the text between is inserted as a whole, and what is read
    afterwards is what was read before and the entry.
    """
    tree = parse_yaml(text, "catalog")
    wanted = parse_yaml(f"workloads:\n{entry}", "entry")
    if tree.findings or wanted.findings or not isinstance(tree.value, dict):
        return None
    workloads, added = tree.value.get("workloads"), wanted.value
    if not isinstance(workloads, dict) or not isinstance(added, dict) or not workloads or name in workloads:
        return None
    lines = text.splitlines(keepends=True)
    at = _end_of_workloads(tree, lines)
    extended = "".join([*lines[:at], _fitted(tree, lines[:at], entry, next(iter(workloads))), *lines[at:]])
    found = parse_yaml(extended, "catalog")
    entries = added["workloads"]
    assert isinstance(entries, dict)  # it was just read from a text that begins so
    expected = {**tree.value, "workloads": {**workloads, **entries}}
    return extended if not found.findings and found.value == expected else None


def _end_of_workloads(tree: YamlTree, lines: list[str]) -> int:
    """Give the number of lines up to the end of the workloads; comments above the next block belong to that."""
    begin = tree.position(("workloads",))[0]
    assert isinstance(tree.value, dict)  # as the caller has seen
    others = [tree.position((key,))[0] for key in tree.value]
    end = min((line - 1 for line in others if line > begin), default=len(lines))
    while end < len(lines) and end > begin and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return end


def _fitted(tree: YamlTree, before: list[str], entry: str, first: str) -> str:
    """Give an entry as the lines around it are: their indentation, their ends."""
    column = tree.position(("workloads", first))[1]
    fitted = textwrap.indent(textwrap.dedent(entry), " " * (column - 1))
    separator = "" if before[-1].endswith(("\n", "\r")) else "\n"
    ends = "\r\n" if before[0].endswith("\r\n") else "\n"
    return (separator + fitted).replace("\n", ends)
