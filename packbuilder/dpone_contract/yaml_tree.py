"""Strict YAML 1.2 (core schema) to plain values with the position of each, or findings that say what to mend.

It refuses duplicate keys, unquoted dates, unquoted braces, merge keys, tags, several documents, keys that are not text and
numbers that a double cannot hold; `no`, `on` and `1:30` are text. An anchor and its aliases are written out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.yaml_nodes import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    Node,
    NodeKind,
    YamlProblemError,
    compose_yaml,
)

__all__ = ["MAX_BYTES", "Path", "Position", "YamlTree", "parse_yaml"]

Path = tuple[str | int, ...]
Position = tuple[int, int]

_NULL = ("", "~", "null", "Null", "NULL")
_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED_INTEGER = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([Tt ].*)?")
_NO_TEXT = ("a text holds NUL or half of a surrogate pair", "remove the escape \\0 or \\uD800..\\uDFFF")
_MAX_DIGITS = 400
"""Longer numbers are beyond a double, and Python refuses to convert very long ones."""


@dataclass
class YamlTree:
    """A document's value, the position of each key and value by its path, and what was found wrong."""

    path: str
    value: JsonValue = None
    positions: dict[Path, Position] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def position(self, path: Path) -> Position:
        """Give the nearest known position of a path: its own, else its parent's."""
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions.get(path, (1, 1))

    def below(self, path: Path) -> YamlTree:
        """Give what stands at a path as a tree of its own, with findings of its own; nothing where nothing stands there."""
        value: JsonValue = self.value
        for part in path:
            if isinstance(value, dict):
                value = value.get(str(part))
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                value = value[part]
            else:
                value = None
        found = YamlTree(self.path, value)
        for inner in _paths_in(value):
            if (*path, *inner) in self.positions:
                found.positions[inner] = self.positions[(*path, *inner)]
        return found

    def report(self, code: ErrorCode, at: Path, message: str, next_step: str = "") -> None:
        """Add a finding at the position of a path."""
        self.report_at(self.position(at), code, message, next_step)

    def report_at(self, position: Position, code: ErrorCode, message: str, next_step: str) -> None:
        """Add a finding at a position."""
        line, column = position
        self.findings.append(Finding(self.path, line, column, code, message, next_step))


def parse_yaml(text: str, path: str) -> YamlTree:
    """Read one YAML document. `path` only names the file in findings; nothing is raised for bad text."""
    tree = YamlTree(path)
    invalid = ErrorCode.MANIFEST_INVALID
    try:
        documents = compose_yaml(text)
    except YamlProblemError as problem:
        tree.report_at((problem.line, problem.column), invalid, problem.message, problem.next_step)
        return tree
    if not documents:
        tree.report(invalid, (), "the file is empty", "start with `dpone init`")
    elif len(documents) > 1:
        tree.report(invalid, (), "the file holds several documents", "keep one, without ---")
    else:
        tree.value = _Builder(tree).build(documents[0], ())
        tree.findings = list(dict.fromkeys(tree.findings))  # what stands below an anchor is met once an alias
    return tree


@dataclass
class _Builder:
    tree: YamlTree
    count: int = 0
    open_nodes: list[int] = field(default_factory=list)

    def build(self, node: Node, path: Path) -> JsonValue:
        self.tree.positions.setdefault(path, (node.line, node.column))
        self.count += 1
        if self.count > MAX_VALUES:
            if self.count == MAX_VALUES + 1:
                message = f"the file unfolds to more than {MAX_VALUES} values"
                self._refuse(path, message, "split it; write anchors out")
            return None
        if node.tag is not None:
            self._refuse(path, f"tags ({node.tag}) are not allowed", "write a plain value")
            return None
        if node.kind is NodeKind.SCALAR:
            return self._scalar(node, path)
        if id(node) in self.open_nodes or len(self.open_nodes) == MAX_DEPTH:
            self._refuse(path, "an anchor stands within itself, or too deeply in others", "write it out")
            self.count = MAX_VALUES + 1  # said once
            return None
        self.open_nodes.append(id(node))
        try:
            if node.kind is NodeKind.SEQUENCE:
                return [self.build(child, (*path, index)) for index, child in enumerate(node.children)]
            return self._mapping(node, path)
        finally:
            self.open_nodes.pop()

    def _mapping(self, node: Node, path: Path) -> JsonValue:
        found: dict[str, JsonValue] = {}
        pairs = iter(node.children)
        for key_node, value_node in zip(pairs, pairs, strict=True):
            position = (key_node.line, key_node.column)
            if key_node.kind is not NodeKind.SCALAR:
                self._refuse_at(position, "braces without quotes", 'quote the token: "{{ ds }}"')
                return "{{ }}"
            key = key_node.text
            at = (*path, key)
            if not _is_text(key):
                self._refuse_at(position, *_NO_TEXT)
                continue
            if key == "<<" and not key_node.quoted:
                step = "write the keys out, or name the whole block with an anchor"
                self._refuse_at(position, "merge keys (<<) are not part of YAML 1.2", step)
                continue
            if key in found:
                first = self.tree.positions[at][0]
                self._refuse_at(
                    position, f"duplicate key {key!r}", f"it stands already on line {first}; keep one"
                )
                continue
            self.tree.positions[at] = position
            found[key] = self.build(value_node, at)
        return found

    def _scalar(self, node: Node, path: Path) -> JsonValue:
        text = node.text
        if not _is_text(text):
            self._refuse(path, *_NO_TEXT)
            return None
        if node.quoted:
            return text
        if _DATE.fullmatch(text):
            self._refuse(path, f"unquoted date {text}", f'write it as text: "{text}"')
            return text
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        number = _number(text)
        if number is None:
            return text
        if len(text) > _MAX_DIGITS or not math.isfinite(number):
            self._refuse(path, "a number is too large", "put quotes around it if it is text")
            return text
        return number

    def _refuse(self, path: Path, message: str, next_step: str) -> None:
        self.tree.report(ErrorCode.MANIFEST_INVALID, path, message, next_step)

    def _refuse_at(self, position: Position, message: str, next_step: str) -> None:
        self.tree.report_at(position, ErrorCode.MANIFEST_INVALID, message, next_step)


def _paths_in(value: JsonValue, path: Path = ()) -> Iterator[Path]:
    """Give the path of a value and of everything within it."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths_in(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths_in(inner, (*path, index))


def _is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8 and be kept by a database: no half of a surrogate pair, no NUL."""
    return (text.isascii() and "\0" not in text) or re.search("[\0\ud800-\udfff]", text) is None


def _number(text: str) -> int | float | None:
    """Give the number that a plain scalar is; one too long to convert is infinite, what is no number is None."""
    if text[0] not in "+-.0123456789":
        return None
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) <= _MAX_DIGITS else math.inf
    if _BASED_INTEGER.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else None
