"""A connection's name is found in three places, and its secret leaves through none."""

from __future__ import annotations

import json
from urllib.parse import quote

import psycopg.conninfo
import pytest

from dpone_contract.environment import CONNECTIONS_DIR
from dpone_contract.errors import ConnectionInvalidError, ConnectionMissingError
from dpone_contract.manifest import DatabaseType
from dpone_runtime.connections import resolve_connection

SECRET = "p@ss:w/rd? %#"
URI = f"postgresql://loader:{quote(SECRET, safe='')}@db.example:6432/shop"
POSTGRES = DatabaseType.POSTGRES


def parsed(environ, name="shop", kind=POSTGRES):
    return psycopg.conninfo.conninfo_to_dict(resolve_connection(name, kind, environ).dsn)


EXPECTED = {"user": "loader", "password": SECRET, "host": "db.example", "port": "6432", "dbname": "shop"}


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
@pytest.mark.parametrize("variable", ["DPONE_CONN_SHOP", "AIRFLOW_CONN_SHOP"])
def test_a_uri_in_the_environment(variable, scheme):
    assert EXPECTED == parsed({variable: URI.replace("postgresql", scheme)})


def test_our_own_variable_goes_first():
    environ = {
        "DPONE_CONN_SHOP": URI,
        "AIRFLOW_CONN_SHOP": "postgresql://other/x",
        CONNECTIONS_DIR: "nowhere",
    }
    assert ("db.example", "DPONE_CONN_SHOP") == (
        parsed(environ)["host"],
        resolve_connection("shop", POSTGRES, environ).origin,
    )


def test_an_empty_variable_is_none():
    assert EXPECTED == parsed({"DPONE_CONN_SHOP": "  ", "AIRFLOW_CONN_SHOP": URI + "\n"})


@pytest.mark.parametrize("name", ["shop-eu.main", "SHOP_EU_MAIN", "shop_eu_main"])
def test_names_become_variables(name):
    assert EXPECTED == parsed({"DPONE_CONN_SHOP_EU_MAIN": URI}, name)


def test_airflow_json():
    fields = {
        "conn_type": "postgres",
        "login": "loader",
        "password": SECRET,
        "host": "db.example",
        "port": 6432,
        "schema": "shop",
        "extra": {"sslmode": "require", "options": "-c work_mem=8MB", "depth": 3},
    }
    further = {"sslmode": "require", "options": "-c work_mem=8MB"}
    assert {**EXPECTED, **further} == parsed({"AIRFLOW_CONN_SHOP": json.dumps(fields)})
    text = json.dumps({**fields, "extra": json.dumps(fields["extra"])})
    assert {**EXPECTED, **further} == parsed({"AIRFLOW_CONN_SHOP": text})


@pytest.mark.parametrize("extra", [None, "", {}, [1], 7, "[]"])
def test_airflow_json_with_an_extra_that_says_nothing(extra):
    fields = {"conn_type": "postgres", "host": "db.example", "extra": extra}
    assert {"host": "db.example"} == parsed({"AIRFLOW_CONN_SHOP": json.dumps(fields)})


@pytest.mark.parametrize("extra", ["words that are no JSON", "{broken"])
def test_an_extra_that_cannot_be_read_is_refused_since_it_may_have_asked_for_tls(extra):
    fields = {"conn_type": "postgres", "host": "db.example", "extra": extra}
    with pytest.raises(ConnectionInvalidError, match="extra is not JSON"):
        parsed({"AIRFLOW_CONN_SHOP": json.dumps(fields)})


def test_airflow_json_with_little_in_it():
    assert {"user": "me"} == parsed({"DPONE_CONN_SHOP": '{"conn_type": "postgres", "login": "me"}'})


def test_airflow_adds_keys_that_libpq_does_not_know():
    assert {**EXPECTED, "sslmode": "require"} == parsed(
        {"AIRFLOW_CONN_SHOP": f"{URI}?sslmode=require&__extra__=%7B%7D"}
    )


def test_options_with_spaces_survive():
    environ = {"DPONE_CONN_SHOP": f"{URI}?options=-c%20work_mem%3D8MB"}
    assert "-c work_mem=8MB" == parsed(environ)["options"]


def test_a_file_in_the_folder(tmp_path):
    (tmp_path / "shop").write_text(URI + "\n")
    environ = {CONNECTIONS_DIR: str(tmp_path)}
    assert EXPECTED == parsed(environ)
    assert "DPONE_CONNECTIONS_DIR/shop" == resolve_connection("shop", POSTGRES, environ).origin


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "shop").write_bytes(b"\xff\xfe")
    with pytest.raises(ConnectionInvalidError, match="cannot be read"):
        parsed({CONNECTIONS_DIR: str(tmp_path)})


def test_a_missing_connection_names_every_place(tmp_path):
    with pytest.raises(ConnectionMissingError) as missing:
        parsed({CONNECTIONS_DIR: str(tmp_path), "DPONE_CONN_OTHER": URI})
    for place in ("DPONE_CONN_SHOP", "AIRFLOW_CONN_SHOP", "DPONE_CONNECTIONS_DIR/shop"):
        assert place in missing.value.where
    assert "export DPONE_CONN_SHOP=" in missing.value.next_step


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        "hunter2@db/x",
        "loader:hunter2@db:5432/x",
        "mysql://loader:hunter2@db/x",
        "mssql://loader:hunter2@db/x",
        "postgresql:loader:hunter2@db",
        "postgresql://loader:hunter2@db:port/x",
        "postgresql://loader:hunter2@[db/x",
        "host=db password=hunter2",
        '{"conn_type": "postgres", "password": "hunter2"',
        '{"conn_type": "mysql", "password": "hunter2"}',
        '{"password": "hunter2"}',
        '{"conn_type": "postgres", "host": "db", "port": "hunter2"}',
    ],
)
def test_what_is_no_postgres_connection_is_refused_without_its_secret(text):
    with pytest.raises(ConnectionInvalidError) as refusal:
        parsed({"DPONE_CONN_SHOP": text})
    shown = f"{refusal.value!s} {refusal.value.to_payload()}"
    assert "hunter2" not in shown
    assert "DPONE_CONN_SHOP" in shown


def test_another_kind_than_the_manifest_says_is_refused():
    with pytest.raises(ConnectionInvalidError, match="mssql"):
        parsed({"DPONE_CONN_SHOP": URI}, kind=DatabaseType.MSSQL)


def test_no_secret_in_repr_or_text():
    found = resolve_connection("shop", POSTGRES, {"DPONE_CONN_SHOP": f"{URI}?password=hunter2"})
    shown = f"{found!r} {found!s} {found.shown}"
    assert "db.example:6432/shop" == found.shown
    for secret in (SECRET, quote(SECRET, safe=""), "hunter2", "loader"):
        assert secret not in shown
