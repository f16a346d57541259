"""Airflow may retry up to three times where a chunk's commit is replay-safe, else never."""

import json

import pytest

from dpone_contract.manifest import InnerMode, Manifest
from dpone_packbuilder.retry_authority import retry_authority
from tests.unit.packbuilder.project_files import manifest


def authority(**changes):
    return retry_authority(Manifest.model_validate_json(json.dumps(manifest(**changes))))


@pytest.mark.parametrize("mode", list(InnerMode))
@pytest.mark.parametrize("backend", ["audit_schema", None])
def test_rows_committed_with_their_ledger_may_be_retried_whatever_the_mode(mode, backend):
    found = authority(backfill__inner_mode=mode.value, backfill__state__backend=backend)
    assert found.max_retries == 3
    assert found.reason.startswith(f"{mode.value} ")
    assert "together with the ledger; committed chunks are skipped" in found.reason


def test_a_publication_that_keeps_what_was_live_may_be_retried_since_it_happens_once():
    found = authority(backfill__publication={"mode": "shadow_swap"})
    assert found.max_retries == 3
    assert found.reason.endswith("committed chunks are skipped, and the ledger has the tables exchanged once")


def test_without_a_swap_nothing_is_dropped_and_retain_backup_says_nothing():
    found = authority(backfill__publication={"mode": "direct", "retain_backup": False})
    assert found.max_retries == 3
    assert "exchanged" not in found.reason


@pytest.mark.parametrize(
    "changes, reason",
    [
        (
            {"backfill__inner_mode": "incremental_append", "backfill__state__backend": "local_file"},
            "not committed together",
        ),
        ({"backfill__state__backend": "local_file"}, "not committed together"),
        ({"sink__type": "clickhouse"}, "not certified"),
        ({"sink__type": "mssql"}, "not certified"),
        (
            {"backfill__publication": {"mode": "shadow_swap", "retain_backup": False}},
            "drops what was live (retain_backup: false)",
        ),
    ],
)
def test_anything_else_may_not_be_retried_and_says_why(changes, reason):
    found = authority(**changes)
    assert found.max_retries == 0
    assert reason in found.reason
