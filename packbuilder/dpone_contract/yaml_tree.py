"""Strict YAML 1.2 (core schema) to plain values with the position of each, or findings that say what to mend.

Only this module names the YAML library. It refuses duplicate keys, unquoted dates, unquoted braces, merge keys, tags,
several documents and keys that are not text; `no`, `on` and `1:30` are text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding

Path = tuple[str | int, ...]
Position = tuple[int, int]

MAX_BYTES = 1024 * 1024
_MAX_VALUES = 100_000
_NULL = ("", "~", "null", "Null", "NULL")
_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_INTEGER = re.compile(r"^[-+]?[0-9]+$")
_BASED_INTEGER = re.compile(r"^0o[0-7]+$|^0x[0-9a-fA-F]+$")
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_DATE = re.compile(r"^\d{4}-\d{1,2}-\d{1,2}([Tt ].*)?$")


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

    def report(self, code: ErrorCode, at: Path, message: str, next_step: str = "") -> None:
        """Add a finding at the position of a path."""
        line, column = self.position(at)
        self.findings.append(Finding(self.path, line, column, code, message, next_step))


def parse_yaml(text: str, path: str) -> YamlTree:
    """Read one YAML document. `path` only names the file in findings; nothing is raised for bad text."""
    tree = YamlTree(path)
    if len(text.encode()) > MAX_BYTES:
        tree.report(ErrorCode.MANIFEST_INVALID, (), f"the file is larger than {MAX_BYTES} bytes", "split it")
        return tree
    try:
        nodes = list(YAML(typ="rt", pure=True).compose_all(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = str(error.problem or error).split("\n")[0]
        tree.findings.append(
            Finding(path, line, column, ErrorCode.MANIFEST_INVALID, f"not YAML: {problem}", _hint(problem))
        )
        return tree
    except RecursionError:
        tree.report(ErrorCode.MANIFEST_INVALID, (), "the file is nested too deeply", "write it flatter")
        return tree
    except (YAMLError, ValueError) as error:
        tree.report(
            ErrorCode.MANIFEST_INVALID, (), f"not YAML: {str(error).splitlines()[0]}", "write plain text"
        )
        return tree
    documents = [node for node in nodes if node is not None]
    if not documents:
        tree.report(ErrorCode.MANIFEST_INVALID, (), "the file is empty", "start with `dpone init`")
    elif len(documents) > 1:
        tree.report(
            ErrorCode.MANIFEST_INVALID, (), "the file holds several documents", "keep one, without ---"
        )
    else:
        tree.value = _Builder(tree).build(documents[0], ())
    return tree


def _hint(problem: str) -> str:
    if "\\t" in problem or "tab" in problem:
        return "indent with spaces, not with tabs"
    return "look at the indentation and quotes of this line and the one above"


def _is_tagged(node: Node) -> bool:
    """Whether a node's tag stands in the text: only such a tag has a handle, or is none of YAML's own."""
    return node.ctag.handle is not None or not str(node.tag).startswith("tag:yaml.org,2002:")


@dataclass
class _Builder:
    tree: YamlTree
    count: int = 0
    open_nodes: list[int] = field(default_factory=list)

    def build(self, node: Node, path: Path) -> JsonValue:
        self.tree.positions.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        self.count += 1
        if self.count > _MAX_VALUES or id(node) in self.open_nodes:
            if self.count <= _MAX_VALUES + 1:
                message = f"the file unfolds to more than {_MAX_VALUES} values"
                self._refuse(path, message, "split it; write anchors out")
            self.count = _MAX_VALUES + 1
            return None
        if _is_tagged(node):
            self._refuse(path, f"tags ({node.tag}) are not allowed", "write a plain value")
            return None
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self.open_nodes.append(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self.build(child, (*path, index)) for index, child in enumerate(node.value)]
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
        finally:
            self.open_nodes.pop()
        return None

    def _mapping(self, node: MappingNode, path: Path) -> JsonValue:
        found: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            position = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if not isinstance(key_node, ScalarNode):
                self._refuse_at(position, "braces without quotes", 'quote the token: "{{ ds }}"')
                return "{{ }}"
            key = str(key_node.value)
            at = (*path, key)
            if key == "<<" and key_node.style is None:
                self._refuse_at(position, "merge keys (<<) are not part of YAML 1.2", "write the keys out")
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

    def _scalar(self, node: ScalarNode, path: Path) -> JsonValue:
        text = str(node.value)
        if node.style is not None:
            return text
        if _DATE.match(text):
            self._refuse(path, f"unquoted date {text}", f'write it as text: "{text}"')
            return text
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if _INTEGER.match(text):
            return int(text)
        if _BASED_INTEGER.match(text):
            return int(text, 0)
        if _FLOAT.match(text):
            return float(text)
        return text

    def _refuse(self, path: Path, message: str, next_step: str) -> None:
        self.tree.report(ErrorCode.MANIFEST_INVALID, path, message, next_step)

    def _refuse_at(self, position: Position, message: str, next_step: str) -> None:
        line, column = position
        code = ErrorCode.MANIFEST_INVALID
        self.tree.findings.append(Finding(self.tree.path, line, column, code, message, next_step))
