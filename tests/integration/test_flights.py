"""The example data is complete, a spoiled day is mended exactly, and a digest tells equal tables from different ones."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import psycopg
import pytest

from quickstart.embedded_postgres import EmbeddedPostgres
from quickstart.flights import (
    FIRST_DAY,
    LAST_DAY,
    ContentDigest,
    content_digest,
    create_target,
    load_flights,
    mend_day,
    spoil_day,
)

DAY = date(2013, 7, 4)


@pytest.fixture(scope="module")
def loaded(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    """A connection to a database of this module with `source.flights` filled; every test rolls its changes back."""
    postgres.create_database("flights")
    with psycopg.connect(postgres.uri("flights")) as connection:
        assert load_flights(connection) == 336_776
        yield connection


@pytest.fixture
def connection(loaded: psycopg.Connection) -> Iterator[psycopg.Connection]:
    with loaded.transaction(force_rollback=True):
        yield loaded


def test_a_year_of_flights_is_there(connection: psycopg.Connection) -> None:
    row = connection.execute(
        "SELECT count(*), count(DISTINCT flight_date), min(flight_date), max(flight_date) FROM source.flights"
    ).fetchone()
    assert row == (336_776, 365, FIRST_DAY, LAST_DAY)


def test_na_became_null_and_the_date_agrees_with_its_parts(connection: psycopg.Connection) -> None:
    row = connection.execute(
        "SELECT count(*) FILTER (WHERE dep_time IS NULL), count(*) FILTER (WHERE tailnum IS NULL),"
        " count(*) FILTER (WHERE flight_date <> make_date(year, month, day)) FROM source.flights"
    ).fetchone()
    assert row == (8_255, 2_512, 0)


def test_a_day_is_found_through_an_index(connection: psycopg.Connection) -> None:
    plan = connection.execute("EXPLAIN SELECT * FROM source.flights WHERE flight_date = %s", [DAY]).fetchall()
    assert "flights_pkey" in "\n".join(line for (line,) in plan)


def test_a_copied_table_has_the_same_digest_in_any_order_and_time_zone(
    connection: psycopg.Connection,
) -> None:
    create_target(connection)
    connection.execute(
        "INSERT INTO analytics.flights SELECT * FROM source.flights ORDER BY distance, time_hour"
    )
    expected = content_digest(connection, "source.flights")
    connection.execute("SET LOCAL TimeZone = 'Asia/Tokyo'")
    assert content_digest(connection, "analytics.flights") == expected
    assert connection.execute("SHOW TimeZone").fetchone() == ("Asia/Tokyo",)


def test_one_changed_value_changes_the_digest(connection: psycopg.Connection) -> None:
    before = content_digest(connection, "source.flights")
    connection.execute(
        "UPDATE source.flights SET tailnum = 'N1' WHERE ctid = (SELECT min(ctid) FROM source.flights)"
    )
    after = content_digest(connection, "source.flights")
    assert after != before
    assert after == replace(before, digest=after.digest)


def test_an_empty_table_has_a_digest(connection: psycopg.Connection) -> None:
    create_target(connection)
    assert content_digest(connection, "analytics.flights") == ContentDigest(rows=0, digest="0" * 32)


def test_a_table_name_is_no_sql(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        content_digest(connection, 'source.flights"; DROP TABLE x; --')


def test_a_mended_day_equals_the_original(connection: psycopg.Connection) -> None:
    before = content_digest(connection, "source.flights")
    key = spoil_day(connection, DAY)
    assert spoil_day(connection, DAY) == key
    spoiled = connection.execute("SELECT flight_date FROM source.flights WHERE distance <= 0").fetchall()
    assert spoiled == [(DAY,)]
    assert mend_day(connection, DAY) == key
    assert content_digest(connection, "source.flights") == before


def test_the_target_refuses_a_spoiled_day(connection: psycopg.Connection) -> None:
    create_target(connection)
    spoil_day(connection, DAY)
    with pytest.raises(psycopg.errors.CheckViolation, match="flights_distance_is_positive"):
        connection.execute(
            "INSERT INTO analytics.flights SELECT * FROM source.flights WHERE flight_date = %s", [DAY]
        )


def test_a_day_without_flights_cannot_be_spoiled(connection: psycopg.Connection) -> None:
    with pytest.raises(LookupError):
        spoil_day(connection, date(2014, 1, 1))


def test_a_fixture_database_is_empty(database: str) -> None:
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regclass('source.flights')").fetchone() == (None,)
