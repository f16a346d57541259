"""The rows in which the catalog tells the types of columns, put together as structures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpone_runtime.adapters.postgres.batches import run_batch
from dpone_runtime.adapters.postgres.connect import PgConnection
from dpone_runtime.adapters.sql.queries import Statement
from dpone_runtime.ports.type_structure import TypeKind, TypePart, TypeStructure

_DOMAIN = "domain"


@dataclass
class _Node:
    part: str
    kind: str
    builtin: bool
    name: str
    modifiers: str
    binary: bool
    extension: str
    labels: tuple[str, ...]
    children: list[_Node] = field(default_factory=list, init=False)


def read_types(connection: PgConnection, statement: Statement) -> Mapping[int, tuple[str, TypeStructure]]:
    """Run `describe_types`; give each of its trees with the name that it was described under, by the number of that.

    Errors: psycopg.Error as the server gives it.
    """
    nodes = dict(map(_described, run_batch(connection, (statement,))[0].fetchall()))
    for path, node in nodes.items():
        if len(path) > 1:
            nodes[path[:-1]].children.append(node)
    return {path[0]: (node.part, _structure(node)) for path, node in nodes.items() if len(path) == 1}


def _described(row: Sequence[Any]) -> tuple[tuple[int, ...], _Node]:
    path, part, kind, builtin, name, modifiers, binary, extension, labels = row
    return tuple(path), _Node(part, kind, builtin, name, modifiers, binary, extension, tuple(labels))


def _structure(node: _Node) -> TypeStructure:
    if node.kind == _DOMAIN:
        return _structure(node.children[0])
    parts = tuple(TypePart(child.part, _structure(child)) for child in node.children)
    if node.kind == TypeKind.ARRAY:
        element = parts[0].type
        # It begins with the number of its element's type, which no domain has in common with another database.
        binary = element.builtin and element.binary and node.children[0].kind != _DOMAIN
        return TypeStructure(f"{element.full_name}[]", TypeKind.ARRAY, element.builtin, binary, parts=parts)
    kind = TypeKind(node.kind)
    return TypeStructure(
        node.name,
        kind,
        node.builtin,
        # An enum is its label. What else somebody has made may hold numbers of its database.
        kind is TypeKind.ENUM or (node.builtin and node.binary and kind is not TypeKind.COMPOSITE),
        node.modifiers,
        node.extension,
        node.labels,
        parts,
    )
