"""The table of type pairs: which go into which, by what cast, and that nothing else does."""

from __future__ import annotations

import pytest

from dpone_runtime.adapters.postgres.type_pairs import Conversion, find_conversion, split_type

INSTANT, WALL_CLOCK = "timestamp with time zone", "timestamp without time zone"


@pytest.mark.parametrize(
    "source, target, cast",
    [
        ("smallint", "integer", "integer"),
        ("smallint", "bigint", "bigint"),
        ("smallint", "numeric", "numeric"),
        ("smallint", "numeric(5)", "numeric"),
        ("smallint", "numeric(7,2)", "numeric"),
        ("smallint", "real", "real"),
        ("integer", "bigint", "bigint"),
        ("integer", "double precision", "double precision"),
        ("integer", "numeric(10,0)", "numeric"),
        ("bigint", "numeric(19,0)", "numeric"),
        ("real", "double precision", "double precision"),
        ("numeric(12,2)", "numeric", ""),
        ("numeric(12,2)", "numeric(14,4)", ""),
        ("numeric(3,-2)", "numeric(5,0)", ""),
        ("character varying(5)", "text", ""),
        ("character varying(5)", "character varying(6)", ""),
        ("text", "character varying", ""),
        ("character(5)", "character(6)", ""),
        ("character(5)", "character varying(5)", "character varying"),
        ("character(5)", "text", "text"),
        ("date", WALL_CLOCK, WALL_CLOCK),
        ("date", "timestamp(0) without time zone", WALL_CLOCK),
        ("timestamp(3) without time zone", WALL_CLOCK, ""),
        ("timestamp(3) with time zone", "timestamp(6) with time zone", ""),
        ("interval day to second(2)", "interval", ""),
        ("bit(3)", "bit varying(3)", "bit varying"),
        ("cidr", "inet", "inet"),
        ("macaddr", "macaddr8", "macaddr8"),
        ("json", "text", "text"),
    ],
)
def test_a_wider_type_takes_every_value(source, target, cast):
    assert Conversion(cast) == find_conversion(source, target)


@pytest.mark.parametrize(
    "source, target",
    [
        ("smallint", "numeric(4,0)"),
        ("integer", "smallint"),
        ("integer", "real"),
        ("integer", "numeric(10,1)"),
        ("bigint", "double precision"),
        ("bigint", "numeric(18,0)"),
        ("double precision", "real"),
        ("double precision", "numeric"),
        ("real", "numeric"),
        ("numeric", "numeric(1000,500)"),
        ("numeric(12,2)", "numeric(12,3)"),
        ("numeric(12,2)", "numeric(11,2)"),
        ("numeric", "double precision"),
        ("numeric(3,0)", "integer"),
        ("integer", "text"),
        ("text", "character varying(9)"),
        ("text", "character(5)"),
        ("character varying(5)", "character(5)"),
        ("character(5)", "character varying(4)"),
        ("bpchar", "character(5)"),
        (WALL_CLOCK, INSTANT),
        (INSTANT, WALL_CLOCK),
        (WALL_CLOCK, "date"),
        ("time with time zone", "time without time zone"),
        ("interval", "interval day to second(2)"),
        ("interval", "interval(3)"),
        ("bit varying(3)", "bit(3)"),
        ("bit varying", "bit varying(3)"),
        ("inet", "cidr"),
        ("json", "jsonb"),
        ("jsonb", "json"),
        ("integer[]", "bigint[]"),
        ("character varying(5)[]", "text"),
        ("character varying(5)[]", "character varying(6)[]"),
        ("integer", "integer[]"),
    ],
)
def test_what_could_lose_something_has_no_way(source, target):
    assert find_conversion(source, target, "UTC") is None


def test_a_date_becomes_an_instant_in_a_named_zone_only():
    assert find_conversion("date", INSTANT) is None
    found = find_conversion("date", "timestamp(3) with time zone", "Europe/Berlin")
    assert Conversion("timestamp AT TIME ZONE 'Europe/Berlin'") == found


@pytest.mark.parametrize(
    "type_name, split",
    [
        ("integer", ("integer", ())),
        ("numeric(12,-3)", ("numeric", (12, -3))),
        ("timestamp(3) without time zone", (WALL_CLOCK, (3,))),
        ("numeric(5,2)[]", ("numeric(5,2)[]", ())),
    ],
)
def test_a_type_is_split_into_base_and_modifiers(type_name, split):
    assert split == split_type(type_name)
