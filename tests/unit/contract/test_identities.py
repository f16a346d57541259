"""What each change of a manifest moves: a campaign's key, its plan, its meaning, or only the process that runs."""

import json

import pytest

from dpone_contract.manifest import Manifest
from dpone_contract.mapping_policy import MappingOptions, resolve_mapping_policy
from dpone_contract.process import build_process, config_hash, plan_campaign, process_digest
from tests.unit.packbuilder.project_files import manifest as manifest_document

NOTHING: set[str] = set()
PROCESS_ALONE = {"process digest"}
MEANING = {"config hash", "process digest"}
WINDOW = {"run key", "plan hash", "process digest"}
ALL = {"run key", "plan hash", "config hash", "process digest"}
PINNED = {"backfill__backfill_id": "orders-2024"}


def identities(mapping=None, **changes):
    manifest = Manifest.model_validate_json(json.dumps(manifest_document(**changes)))
    process = build_process(manifest, resolve_mapping_policy(MappingOptions(**(mapping or {}))))
    campaign = plan_campaign(process)
    assert config_hash(process) == campaign.config_hash
    return {
        "run key": campaign.plan.run_key,
        "plan hash": campaign.plan_hash,
        "config hash": campaign.config_hash,
        "process digest": process_digest(process),
    }


def moved(before, after):
    return {name for name in before if before[name] != after[name]}


def test_the_same_manifest_gives_the_same_identities():
    assert moved(identities(), identities()) == NOTHING


@pytest.mark.parametrize(
    "mapping",
    [
        {"mode": "visible"},
        {"mode": "summary"},
        {"max_items": 5},
        {"max_active": 5},
        {"pool": "other"},
    ],
)
def test_how_airflow_shows_a_campaign_moves_the_process_alone(mapping):
    assert moved(identities(), identities(mapping)) == PROCESS_ALONE


@pytest.mark.parametrize(
    "changes, expected",
    [
        # Left out of the process: for people, or Airflow's alone.
        ({"description": "other"}, NOTHING),
        ({"gitops": {"airflow": {"mapping": {"mode": "summary"}}}}, NOTHING),
        # How it runs.
        ({"name": "other"}, PROCESS_ALONE),
        ({"backfill__parallel_workers": 8}, PROCESS_ALONE),
        ({"backfill__retry_policy": "failed_only"}, PROCESS_ALONE),
        ({"backfill__lease_ttl_minutes": 30}, PROCESS_ALONE),
        ({"backfill__max_chunks": 500}, PROCESS_ALONE),
        ({"backfill__stop_after_failures": 3}, PROCESS_ALONE),
        ({"backfill__verify": "strict"}, PROCESS_ALONE),
        ({"backfill__state__schema": "audit"}, PROCESS_ALONE),
        ({"sink__create_target": "never"}, PROCESS_ALONE),
        # One thing under two names.
        ({"backfill__inner_mode": "replace"}, PROCESS_ALONE),
        ({"source__connection_ref": None, "source__connection_id": "operations"}, PROCESS_ALONE),
        ({"chunk__kind": "date"}, PROCESS_ALONE),
        ({"backfill__inner_mode": None}, NOTHING),
        # What is loaded, and how it is merged.
        ({"source__connection_ref": "other"}, MEANING),
        ({"source__table__name": "other"}, MEANING),
        ({"source__table__schema": "other"}, MEANING),
        ({"source__type": "mssql"}, MEANING),
        ({"source__columns": ["id"]}, MEANING),
        ({"source__exclude_columns": ["note"]}, MEANING),
        ({"source__where": "id > 0"}, MEANING),
        ({"sink__connection_ref": "other"}, MEANING),
        ({"sink__type": "mssql"}, MEANING),
        ({"sink__strategy__unique_key": ["id"]}, MEANING),
        ({"sink__strategy__version_column": "updated_at"}, MEANING),
        ({"sink__strategy__only_new_rows": True}, MEANING),
        ({"backfill__publication": {"mode": "shadow_swap"}}, MEANING),
        # The window.
        ({"chunk__from": "2023-12-31"}, WINDOW),
        ({"chunk__to": "2024-01-11"}, WINDOW),
        ({"chunk__step": "2d"}, WINDOW),
        ({"chunk__kind": "timestamp"}, WINDOW),
        ({"backfill__chunk": {"column": "order_date", "boundaries": ["2024-01-01", "2024-01-11"]}}, WINDOW),
        ({"backfill__chunk": {"column": "order_date", "buckets": 10}}, WINDOW),
        ({"backfill__backfill_id": "orders-2024"}, WINDOW),
        # The window and what it means.
        ({"chunk__column": "shipped_on"}, ALL),
        ({"chunk__timezone": "Europe/Berlin"}, ALL),
        ({"chunk__nulls": "ignore"}, ALL),
        ({"chunk__nulls": "include"}, ALL),
        ({"sink__table__name": "other"}, ALL),
        ({"sink__table__schema": "other"}, ALL),
        ({"backfill__inner_mode": "incremental_append"}, ALL),
    ],
)
def test_a_change_moves_what_it_means_and_nothing_else(changes, expected):
    assert expected == moved(identities(), identities(**changes))


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"chunk__step": "2d"}, {"plan hash", "process digest"}),
        ({"chunk__to": "2024-01-11"}, {"plan hash", "process digest"}),
        ({"chunk__column": "shipped_on"}, MEANING),
        ({"backfill__inner_mode": "incremental_append"}, MEANING),
        ({"sink__table__name": "other"}, MEANING),
        ({"backfill__parallel_workers": 8}, PROCESS_ALONE),
    ],
)
def test_a_pinned_campaign_keeps_its_key_and_shows_the_drift(changes, expected):
    assert expected == moved(identities(**PINNED), identities(**PINNED, **changes))
