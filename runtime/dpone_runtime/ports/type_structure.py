"""What a column's type is made of, down to the types that the server brings; domains count as the type that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class TypeKind(StrEnum):
    """What a type is. An array's part is its element, a range's what it spans, a multirange's its range."""

    BASE = "base"
    ENUM = "enum"
    COMPOSITE = "composite"
    ARRAY = "array"
    RANGE = "range"
    MULTIRANGE = "multirange"


@dataclass(frozen=True)
class TypeStructure:
    """A type with its parts; those of a type that comes with the server are not told, its name says all."""

    name: str
    """Full, with modifiers. One that does not come with the server has its schema, and is quoted."""
    kind: TypeKind = TypeKind.BASE
    builtin: bool = True
    binary: bool = True
    """Whether another database reads its binary form, which for some types holds numbers of its own database."""
    modifiers: str = ""
    """Those of a type that does not come with the server; they follow its name."""
    extension: str = ""
    labels: tuple[str, ...] = ()
    """Those of an enum, in their order."""
    parts: tuple[TypePart, ...] = ()

    @property
    def full_name(self) -> str:
        """The name as it stands in a column's declaration."""
        return self.name + self.modifiers

    def made(self) -> Iterator[TypeStructure]:
        """Give each type in it that somebody has made, after those that it is made of itself."""
        for part in self.parts:
            yield from part.type.made()
        if not self.builtin and self.kind is not TypeKind.ARRAY:
            yield self


@dataclass(frozen=True)
class TypePart:
    """An attribute of a composite type, or the nameless part of another."""

    name: str
    type: TypeStructure
