"""What a server says of a bad row reaches a person without the row's values."""

from __future__ import annotations

import psycopg
import pytest

from dpone_contract.errors import ChunkFailedError, DatabaseFailedError, TableMissingError
from dpone_runtime.adapters.postgres.connect import safe_message, translate

SECRET = "hunter2"


@pytest.fixture
def connection(shared_database):
    with psycopg.connect(shared_database, autocommit=True) as found:
        yield found


@pytest.fixture(autouse=True)
def _tables(connection):
    connection.execute(
        "CREATE TABLE t (i integer PRIMARY KEY, v varchar(3), n numeric(3,1) CHECK (n < 50), d date, j jsonb, "
        "k text NOT NULL DEFAULT 'x', b boolean)"
    )
    connection.execute("INSERT INTO t (i) VALUES (99)")
    yield
    connection.execute("DROP TABLE t")


@pytest.mark.parametrize(
    "statement, values, shown",
    [
        ("SELECT %s::text::integer", ["hunter2"], "invalid input syntax for type integer"),
        ("SELECT %s::text::integer", ['hunter2 "quoted" at home'], "invalid input syntax for type integer"),
        ("SELECT %s::text::integer", ["hunter2\nsecond line"], "invalid input syntax for type integer"),
        ("SELECT %s::text::integer", ["99999999999"], "is out of range for type integer"),
        ("SELECT %s::text::numeric", ["hunter2"], "invalid input syntax for type numeric"),
        ("SELECT %s::text::date", ["hunter2"], "invalid input syntax for type date"),
        ("SELECT %s::text::date", ["2013-99-99"], "date/time field value out of range"),
        ("SELECT %s::text::jsonb", ['{"hunter2'], "invalid input syntax for type json"),
        ("SELECT %s::text::boolean", ["hunter2"], "invalid input syntax for type boolean"),
        ("SELECT %s::text::uuid", ["hunter2"], "invalid input syntax for type uuid"),
        ("SELECT %s::text::integer[]", ["{hunter2"], "malformed array literal"),
        ("SELECT to_date(%s, 'YYYY')", ["hunter2"], "invalid value"),
        ("SELECT %s::text::interval", ["hunter2"], "invalid input syntax for type interval"),
        ("INSERT INTO t (i, v) VALUES (1, %s)", ["hunter2"], "value too long for type character varying(3)"),
        ("INSERT INTO t (i, n) VALUES (1, %s::text::numeric)", ["99999.5"], "numeric field overflow"),
        ("INSERT INTO t (i, n) VALUES (1, %s::text::numeric)", ["99.5"], "violates check constraint"),
        ("INSERT INTO t (i) VALUES (%s)", [99], "duplicate key value violates unique constraint"),
        ("INSERT INTO t (i, k) VALUES (%s, NULL)", [99999], "null value in column"),
        ("SELECT convert_from(%s, 'UTF8')", [b"\xffhunter2"], "invalid byte sequence for encoding"),
    ],
)
def test_no_value_of_a_row_is_told(connection, statement, values, shown):
    with pytest.raises(psycopg.Error) as failure:
        connection.execute(statement, values)
    error = translate(failure.value, "loading public.t")
    text = f"{error!s} {error.to_payload()}"
    for value in values:
        told = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        assert told not in text
    assert not any(
        secret in text for secret in (SECRET, "99999", "2013-99", "99.5", "quoted", "second line", "0xff")
    )
    assert shown in safe_message(failure.value)
    assert isinstance(error, ChunkFailedError)
    assert "SQLSTATE" in error.message


@pytest.mark.parametrize(
    "statement, kind",
    [
        ("SELECT * FROM nowhere", TableMissingError),
        ("SELECT * FROM nowhere.t", TableMissingError),
        ("SELECT nothing FROM t", DatabaseFailedError),
        ("SET statement_timeout = 1; SELECT pg_sleep(5)", DatabaseFailedError),
    ],
)
def test_other_errors_keep_their_names(connection, statement, kind):
    with pytest.raises(psycopg.Error) as failure:
        connection.execute(statement)
    connection.execute("RESET statement_timeout")
    assert type(translate(failure.value, "loading")) is kind
    assert failure.value.diag.message_primary == safe_message(failure.value)


def test_a_broken_connection_says_that_committed_chunks_stay(shared_database):
    with psycopg.connect(shared_database, autocommit=True) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(psycopg.Error) as failure:
            connection.execute("SELECT 1")
    error = translate(failure.value, "loading public.t")
    assert isinstance(error, DatabaseFailedError)
    assert "committed chunks are skipped" in error.next_step


@pytest.mark.parametrize(
    "raised", ["RAISE EXCEPTION 'no %', NEW.v", "RAISE check_violation USING MESSAGE = 'no ' || NEW.v"]
)
def test_the_words_of_a_trigger_are_left_to_the_servers_log(connection, raised):
    connection.execute(
        f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {raised}; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    try:
        with pytest.raises(psycopg.Error) as failure:
            connection.execute("INSERT INTO t (i, v) VALUES (1, 'xyz')")
    finally:
        connection.execute("DROP FUNCTION refuse CASCADE")
    error = translate(failure.value, "loading public.t")
    assert "xyz" not in f"{error!s} {error.to_payload()}"
    assert "a trigger or function refused a row" in error.message
