"""Types compared part by part: the same for what comes with a server by name, for what somebody has made by what it is made of."""

from __future__ import annotations

import pytest

from dpone_contract.errors import ColumnsDifferError
from dpone_contract.manifest import TableName
from dpone_runtime.adapters.postgres.created_target import create_target_statements
from dpone_runtime.adapters.postgres.type_differences import differences, refusals_of
from dpone_runtime.ports.connectors import Column, TableShape
from dpone_runtime.ports.type_structure import TypeKind, TypePart, TypeStructure
from tests.campaign_factories import SOURCE

INTEGER, TEXT, REGCLASS = map(TypeStructure, ("integer", "text", "regclass"))
WORD = TypeStructure("s.word", builtin=False, binary=False)


def enum(name="s.mood", labels=("a", "b")) -> TypeStructure:
    return TypeStructure(name, TypeKind.ENUM, builtin=False, labels=labels)


def composite(name="s.pair", **attributes: TypeStructure) -> TypeStructure:
    parts = tuple(TypePart(part, structure) for part, structure in attributes.items())
    return TypeStructure(name, TypeKind.COMPOSITE, builtin=False, binary=False, parts=parts)


def array(element: TypeStructure) -> TypeStructure:
    return TypeStructure(
        f"{element.full_name}[]", TypeKind.ARRAY, element.builtin, parts=(TypePart("", element),)
    )


def spanning(bound: TypeStructure, name="s.span", kind=TypeKind.RANGE) -> TypeStructure:
    return TypeStructure(name, kind, builtin=False, binary=False, parts=(TypePart("", bound),))


def of_extension(name: str, modifiers="", extension="vector") -> TypeStructure:
    return TypeStructure(name, builtin=False, binary=False, modifiers=modifiers, extension=extension)


@pytest.mark.parametrize(
    "source, target",
    [
        (INTEGER, INTEGER),
        (array(INTEGER), array(INTEGER)),
        (enum(), enum("t.feeling")),
        (composite(a=INTEGER, b=array(enum())), composite("t.other", a=INTEGER, b=array(enum("t.feeling")))),
        (spanning(enum()), spanning(enum("t.feeling"), "t.span")),
        (of_extension("s.vector", "(3)"), of_extension("tools.vector", "(3)")),
        (WORD, TypeStructure("t.word", builtin=False)),
    ],
)
def test_what_is_made_of_the_same_is_the_same(source, target):
    assert [] == list(differences("c", source, target))


@pytest.mark.parametrize(
    "source, target, told",
    [
        (INTEGER, TEXT, "c is integer in the source and text in the target"),
        (array(INTEGER), array(TEXT), "c is integer[] in the source and text[] in the target"),
        (array(INTEGER), INTEGER, "c is integer[] in the source and integer in the target"),
        (array(enum()), array(TEXT), "c[] is s.mood in the source and text in the target"),
        (enum(labels=("a",)), enum(), "c is the enum s.mood, whose labels must be the same on both sides"),
        (composite(a=INTEGER), composite(a=TEXT), "c.a is integer in the source and text in the target"),
        (composite(a=INTEGER), composite(A=INTEGER), "c is made of a in the source"),
        (composite(a=array(composite(b=TEXT))), composite(a=array(composite(b=INTEGER))), "c.a[].b is text"),
        (spanning(INTEGER), spanning(TEXT), "c's bound is integer in the source and text in the target"),
        (
            spanning(INTEGER),
            TypeStructure("int4range", TypeKind.RANGE),
            "c is s.span in the source and int4range",
        ),
        (of_extension("s.vector", "(3)"), of_extension("s.vector", "(2)"), "c is s.vector(3) in the source"),
        (
            of_extension("s.vector"),
            of_extension("s.vector", extension="other"),
            "c is s.vector in the source",
        ),
        (
            WORD,
            TypeStructure("t.phrase", builtin=False),
            "c is s.word in the source and t.phrase in the target",
        ),
    ],
)
def test_what_differs_is_told_with_its_place(source, target, told):
    (found,) = differences("c", source, target)
    assert told in found


def test_every_difference_is_told_at_once():
    source, target = composite(a=INTEGER, b=TEXT, c=TEXT), composite(a=TEXT, b=INTEGER, c=TEXT)
    assert 2 == len(list(differences("c", source, target)))


@pytest.mark.parametrize(
    "structure, told",
    [
        (REGCLASS, "c is regclass: a number that names an object of its own database only"),
        (array(TypeStructure("regrole")), "c[] is regrole: a number"),
        (TypeStructure("pg_node_tree"), "c is pg_node_tree, which no server reads"),
        (TypeStructure("anyarray"), "c is anyarray, which no server reads"),
        (composite(a=INTEGER, b=composite(c=array(REGCLASS))), "c.b.c[] is regclass"),
    ],
)
def test_what_another_database_cannot_read_is_said(structure, told):
    (found,) = refusals_of("c", structure)
    assert told in found


@pytest.mark.parametrize(
    "name", ["integer", "pg_lsn", "pg_snapshot", "oid", "aclitem", "regular"], ids=lambda name: name
)
def test_what_another_database_can_read_is_not_refused(name):
    assert [] == list(refusals_of("c", TypeStructure(name, builtin=name != "regular")))


# Types that a created target needs.


def created(structure: TypeStructure, known: tuple[TypeStructure, ...] = ()) -> str:
    shape = TableShape(SOURCE, (Column("c", structure, nullable=True),))
    names = {one.name: one for one in known}
    return create_target_statements(shape, TableName(schema="t", name="new"), (), "c", names)[1]


@pytest.mark.parametrize(
    "structure, statements",
    [
        (enum(labels=("it's", "b\\")), "CREATE TYPE s.mood AS ENUM ('it''s', E'b\\\\');"),
        (array(composite(a=INTEGER)), 'CREATE TYPE s.pair AS ("a" integer);'),
        (
            composite(a=array(enum(labels=("x",)))),
            "CREATE TYPE s.mood AS ENUM ('x'); CREATE TYPE s.pair AS (\"a\" s.mood[]);",
        ),
        (spanning(INTEGER), "CREATE TYPE s.span AS RANGE (subtype = integer);"),
        (
            spanning(spanning(INTEGER), "s.spans", TypeKind.MULTIRANGE),
            "CREATE TYPE s.span AS RANGE (subtype = integer);",
        ),
        (of_extension("s.vector", "(3)"), 'CREATE EXTENSION "vector";'),
        (WORD, "/* the type s.word, as the source's database has it */"),
    ],
)
def test_a_type_that_the_targets_database_lacks_is_refused_with_what_makes_it(structure, statements):
    with pytest.raises(ColumnsDifferError) as refusal:
        created(structure)
    assert f"run there first: {statements}" == refusal.value.next_step


def test_types_that_are_known_are_used_by_name():
    known = (enum(), composite(a=enum()), of_extension("s.vector"))
    assert '"c" s.pair[]' in created(array(composite(a=enum())), known)
    assert '"c" s.vector(3)' in created(of_extension("s.vector", "(3)"), known)


def test_a_known_type_that_is_made_otherwise_is_refused():
    with pytest.raises(ColumnsDifferError, match=r"types of the same names: c\.a is integer in the source"):
        created(composite(a=INTEGER), (composite(a=TEXT),))
