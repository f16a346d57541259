"""The catalog's entry is over the manifest, the manifest over the catalog's defaults, and those over the built-in ones."""

import pytest

from dpone_packbuilder.policy import execution_place, mapping_place, resolve_execution, resolve_policy
from dpone_packbuilder.project import project_of_texts
from tests.unit.packbuilder.project_files import as_yaml, manifest


def load(*, entry=None, in_manifest=None, defaults=None):
    catalog = {"workloads": {"orders": {"manifest": "orders.yaml", **({"airflow": entry} if entry else {})}}}
    if defaults:
        catalog["defaults"] = {"airflow": defaults}
    changes = {"gitops__airflow__mapping": in_manifest} if in_manifest else {}
    texts = {"workloads.yaml": as_yaml(catalog), "orders.yaml": as_yaml(manifest(**changes))}
    project = project_of_texts(texts, "workloads.yaml")
    assert project.findings == ()
    return project.workloads[0]


def test_nothing_authored_gives_the_built_in_defaults():
    policy = resolve_policy(load())
    assert (policy.mode, policy.limits.max_items, policy.limits.max_active, policy.limits.pool) == (
        "internal",
        200,
        16,
        "dpone_backfill",
    )


def test_each_key_is_taken_from_the_first_layer_that_sets_it():
    policy = resolve_policy(
        load(
            entry={"mapping": {"mode": "summary"}},
            in_manifest={"mode": "visible", "max_items": 50},
            defaults={"mapping": {"mode": "visible", "max_items": 60, "pool": "shared"}},
        )
    )
    assert (policy.mode, policy.limits.max_items, policy.limits.pool) == ("summary", 50, "shared")


@pytest.mark.parametrize(
    "key, path, keys",
    [
        ("mode", "workloads.yaml", ("workloads", "orders", "airflow", "mapping", "mode")),
        ("max_items", "orders.yaml", ("gitops", "airflow", "mapping", "max_items")),
        ("pool", "workloads.yaml", ("defaults", "airflow", "mapping", "pool")),
        ("max_active", "workloads.yaml", ("workloads", "orders", "airflow", "mapping")),
    ],
)
def test_the_place_of_a_key_is_in_the_layer_that_sets_it(key, path, keys):
    found = load(
        entry={"mapping": {"mode": "summary"}},
        in_manifest={"max_items": 50},
        defaults={"mapping": {"pool": "shared"}},
    )
    place = mapping_place(found, key)
    assert (path, keys) == (place.tree.path, place.path)


def test_execution_falls_back_to_the_defaults_key_by_key():
    found = load(entry={"execution": {"retries": 0}}, defaults={"execution": {"retries": 2, "owner": "data"}})
    execution = resolve_execution(found)
    assert (execution.retries, execution.owner, execution.dag_id) == (0, "data", None)
    assert execution_place(found, "owner").path == ("defaults", "airflow", "execution", "owner")
