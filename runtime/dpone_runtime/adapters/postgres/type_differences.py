"""In what two types differ, part by part, and which types cannot be carried into another database at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpone_runtime.ports.type_structure import TypeKind, TypeStructure

_NAMES_OBJECTS = re.compile(r"reg[a-z]+")
_INTERNAL = re.compile(r"pg_(node_tree|ndistinct|dependencies|mcv_list|brin_\w+)|gtsvector|any\w+")


def refusals_of(place: str, structure: TypeStructure) -> Iterator[str]:
    """Say of each part of a type why its values cannot be carried into another database.

    `place` is the column, or the attribute within it.
    """
    if structure.builtin and structure.kind is TypeKind.BASE:
        if _NAMES_OBJECTS.fullmatch(structure.name):
            yield f"{place} is {structure.name}: a number that names an object of its own database only"
        elif _INTERNAL.fullmatch(structure.name):
            yield f"{place} is {structure.name}, which no server reads"
    for part in structure.parts:
        yield from refusals_of(_within(place, structure, part.name), part.type)


def differences(place: str, source: TypeStructure, target: TypeStructure) -> Iterator[str]:
    """Say in what a type of the source and one of the target differ; nothing where values of both are the same.

    Names count for the types that come with the server or an extension. What somebody has made is compared by what it is made
    of: an enum by its labels, a composite by its attributes, a range by what it spans.
    """
    if source.kind is target.kind is TypeKind.ENUM:
        yield from _differing_labels(place, source, target)
    elif source.kind is target.kind is TypeKind.COMPOSITE:
        yield from _differing_attributes(place, source, target)
    elif source.kind is target.kind and source.parts and target.parts and not _is_of_base(source):
        yield from differences(_within(place, source, ""), source.parts[0].type, target.parts[0].type)
    elif source.kind is not target.kind or _known_as(source) != _known_as(target):
        yield f"{place} is {source.full_name} in the source and {target.full_name} in the target"


def _differing_labels(place: str, source: TypeStructure, target: TypeStructure) -> Iterator[str]:
    if source.labels != target.labels:
        missing = [label for label in source.labels if label not in target.labels]
        what = f"the target's lacks {missing[0]!r}" if missing else "they differ in order or number"
        yield f"{place} is the enum {source.name}, whose labels must be the same on both sides: {what}"


def _differing_attributes(place: str, source: TypeStructure, target: TypeStructure) -> Iterator[str]:
    names, into_names = ([part.name for part in structure.parts] for structure in (source, target))
    if names != into_names:
        yield (
            f"{place} is made of {', '.join(names)} in the source's {source.name} and of {', '.join(into_names)} in the target's "
            f"{target.name}: name and order must be the same"
        )
        return
    for part, into in zip(source.parts, target.parts, strict=True):
        yield from differences(_within(place, source, part.name), part.type, into.type)


def _is_of_base(structure: TypeStructure) -> bool:
    """Whether it is an array of a type that only its name describes: then the array's name is told."""
    return structure.kind is TypeKind.ARRAY and structure.parts[0].type.kind is TypeKind.BASE


def _known_as(structure: TypeStructure) -> tuple[str, ...]:
    """Give what a type that is no more than a name is known as: one of an extension may stand in any schema."""
    if structure.kind is TypeKind.ARRAY:
        return _known_as(structure.parts[0].type)
    if structure.builtin:
        return (structure.full_name,)
    return (structure.extension, structure.name.rpartition(".")[2], structure.modifiers)


def _within(place: str, structure: TypeStructure, part: str) -> str:
    match structure.kind:
        case TypeKind.COMPOSITE:
            return f"{place}.{part}"
        case TypeKind.ARRAY:
            return f"{place}[]"
        case _:
            return f"{place}'s bound"
