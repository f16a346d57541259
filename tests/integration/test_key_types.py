"""Types of unique_key and version_column: rows are told apart and ordered by them, so the server must be able to sort them."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import History
from tests.integration.inner_modes import KEY, mode_text
from tests.integration.test_inner_modes import load, require_done, require_refused

UNORDERED = {
    "a key": ("json", "[day, odd]", None, "odd of unique_key is json, a type without an order"),
    "a version": ("point", KEY, "odd", "odd of version_column is point, a type without an order"),
    "an array": ("xml[]", KEY, "odd", "odd of version_column is xml[]"),
    "a composite": ("source.odd", KEY, "odd", "odd of version_column is source.odd"),
}


@pytest.mark.parametrize("created", [True, False], ids=["created", "existing"])
@pytest.mark.parametrize("type_name, key, version, told", UNORDERED.values(), ids=UNORDERED)
def test_a_key_or_version_that_no_server_orders_is_refused_by_name(
    history: History, created: bool, type_name: str, key: str, version: str | None, told: str
) -> None:
    history.sql("CREATE TYPE source.odd AS (a integer, b json)")
    for side in ("source", "target"):
        history.sql(f"ALTER TABLE {side}.history ADD odd {type_name}")
    history.sql("DROP TABLE target.history" if created else "CREATE UNIQUE INDEX ON target.history (day, id)")
    text = mode_text("incremental_merge", key=key, version=version)
    for command in (("run",), ("backfill", "plan", "--connect")):
        refused = history.run(*command, history.manifest(text))
        assert 2 == refused.exit_code, refused.output
        assert told in refused.stderr
    assert not history.has_ledger_rows()
    assert created == (history.value("SELECT to_regclass('target.history')") is None)


@pytest.mark.parametrize("type_name", ["timestamptz", "source.mood", "source.ordered", "integer[]", "uuid"])
def test_a_version_of_any_type_with_an_order_will_do(history: History, type_name: str) -> None:
    history.sql(
        "CREATE TYPE source.mood AS ENUM ('sad', 'glad'); CREATE TYPE source.ordered AS (a integer, b date)"
    )
    history.sql(f"DROP TABLE target.history; ALTER TABLE source.history ADD v {type_name}")
    require_done(load(history, "incremental_merge", key=KEY, version="v"))


def test_a_version_that_the_source_lacks_is_refused_before_the_target_is_created(history: History) -> None:
    history.sql("DROP TABLE target.history")
    refused = load(history, "incremental_merge", key=KEY, version="V")
    require_refused(refused, "DPONE_COLUMNS_DIFFER", "V of version_column")
    assert history.value("SELECT to_regclass('target.history')") is None
