"""Fixtures that every test may ask for: one embedded PostgreSQL a session, one fresh database a test.

The databases are on the embedded server, or on the one that DPONE_TEST_POSTGRES_DSN (a URI of a superuser) names.
"""

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from quickstart.embedded_postgres import EmbeddedPostgres

# A shell starts background jobs with SIGINT ignored, and children inherit that: then no test could send them Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A started server of this test session, gone with it however it ends."""
    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def server_uri(request: pytest.FixtureRequest) -> str:
    """The URI of a superuser on the server that tests create their databases on."""
    named = os.environ.get("DPONE_TEST_POSTGRES_DSN")
    uri: str = named or request.getfixturevalue("postgres").uri()
    return uri


@contextmanager
def created_database(server_uri: str) -> Iterator[str]:
    """The URI of an empty database, dropped afterwards with whatever session is still on it."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_uri, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlsplit(server_uri)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(server_uri, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database(server_uri: str) -> Iterator[str]:
    """The URI of an empty database of this test."""
    with created_database(server_uri) as uri:
        yield uri


@pytest.fixture(scope="module")
def shared_database(server_uri: str) -> Iterator[str]:
    """The URI of a database that the tests of one module share, each leaving it empty."""
    with created_database(server_uri) as uri:
        yield uri
