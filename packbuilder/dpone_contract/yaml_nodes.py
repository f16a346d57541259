"""YAML text to nodes with positions, bounded in depth and number while it is read. Only this module names the YAML library.

The nodes are made of the parser's events: what a round trip needs (comments, styles, resolved tags) is never built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
MAX_VALUES = 50_000


class NodeKind(Enum):
    """What a node is; an alias stands for the node of its anchor."""

    SCALAR = auto()
    SEQUENCE = auto()
    MAPPING = auto()


@dataclass(eq=False, slots=True)
class Node:
    """A scalar's text, a sequence's nodes, or a mapping's keys and values in turn; line and column count from one."""

    kind: NodeKind
    line: int
    column: int
    text: str = ""
    quoted: bool = False
    tag: str | None = None
    children: list[Node] = field(default_factory=list)


class YamlProblemError(Exception):
    """What keeps a text from being read, with its place and the way out. It never leaves the contract."""

    def __init__(self, message: str, next_step: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.line = line
        self.column = column


def compose_yaml(text: str) -> list[Node]:
    """Give the root node of each document of a text that has one.

    Errors: YamlProblemError for what is no YAML, too large or nested too deeply. The size is looked at first: the parser
    needs some 50 microseconds a value.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise YamlProblemError(f"the file is larger than {MAX_BYTES} bytes", "split it")
    if text.count(",") + text.count("\n") + text.count(": ") > MAX_VALUES:
        raise YamlProblemError(f"the file has more than {MAX_VALUES} lines, commas and colons", "split it")
    try:
        return list(_Composer(YAML(typ="safe", pure=True).parse(text)).documents())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = str(error.problem or error).split("\n", maxsplit=1)[0]
        raise YamlProblemError(f"not YAML: {problem}", _hint(problem), line, column) from error
    except (YAMLError, ValueError) as error:
        raise YamlProblemError(f"not YAML: {str(error).splitlines()[0]}", "write plain text") from error


def _hint(problem: str) -> str:
    if "\\t" in problem or "tab" in problem:
        return "indent with spaces, not with tabs"
    return "look at the indentation and quotes of this line and the one above"


@dataclass
class _Composer:
    events: Iterator[Event]
    anchors: dict[str, Node] = field(default_factory=dict)

    def documents(self) -> Iterator[Node]:
        for event in self.events:
            if (node := self.node(event, 0)) is not None:
                yield node

    def node(self, event: Event, depth: int) -> Node | None:
        """Give the node that an event begins, None for an event that begins none."""
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, ScalarEvent):
            node = Node(NodeKind.SCALAR, line, column, str(event.value), event.style is not None)
        elif isinstance(event, MappingStartEvent):
            node = Node(NodeKind.MAPPING, line, column)
        elif isinstance(event, SequenceStartEvent):
            node = Node(NodeKind.SEQUENCE, line, column)
        elif isinstance(event, AliasEvent):
            return self._anchored(event, line, column)
        else:
            return None
        if event.ctag is not None:
            node.tag = str(event.ctag)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        if node.kind is not NodeKind.SCALAR:
            self._fill(node, depth + 1)
        return node

    def _fill(self, node: Node, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise YamlProblemError(
                "the file is nested too deeply", "write it flatter", node.line, node.column
            )
        for event in self.events:
            if isinstance(event, MappingEndEvent | SequenceEndEvent):
                return
            if (child := self.node(event, depth)) is not None:
                node.children.append(child)

    def _anchored(self, event: AliasEvent, line: int, column: int) -> Node:
        if event.anchor not in self.anchors:
            problem = f"not YAML: found undefined alias {event.anchor!r}"
            raise YamlProblemError(problem, f"name the value with &{event.anchor} above", line, column)
        return self.anchors[event.anchor]
