"""Fixtures that every test may ask for: one embedded PostgreSQL a session, one fresh database a test."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from quickstart.embedded_postgres import EmbeddedPostgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A started server of this test session, gone with it however it ends."""
    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URI of an empty database of this test, dropped afterwards with whatever session is still on it."""
    name = f"test_{uuid.uuid4().hex}"
    postgres.create_database(name)
    yield postgres.uri(name)
    with psycopg.connect(postgres.uri(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
