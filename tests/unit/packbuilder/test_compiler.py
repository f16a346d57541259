"""A workload becomes a pack that its readers can prove, the same bytes for the same input."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_contract.mapping_plan import InternalMapping, MappingPlan
from dpone_contract.pack import dump_pack, parse_pack
from dpone_contract.pod import PodArguments
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.compiler import compile_pack
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.project_files import manifest, workload, write_project

ROOT = Path(__file__).parents[3]


def compile_one(tmp_path, *, entry=None, release="r1", **changes):
    folder = write_project(
        tmp_path, workloads={"orders": entry or workload()}, manifests={"orders.yaml": manifest(**changes)}
    )
    review = review_project(load_project(folder))
    assert review.errors == ()
    (planned,) = review.planned
    return compile_pack(planned, release=release, deployment="prod")


def test_a_pack_is_read_back_as_it_was_compiled(tmp_path):
    pack = compile_one(tmp_path)
    assert parse_pack(dump_pack(pack)) == pack


def test_a_mapped_pack_has_arguments_that_an_older_provider_does_not_know(tmp_path):
    plan = compile_one(tmp_path).processes[0]
    assert isinstance(plan.mapping, MappingPlan)
    assert (plan.kpo_kwargs, plan.mapped_kpo_kwargs) == (None, PodArguments())


def test_an_unmapped_pack_has_ordinary_arguments_and_no_labels(tmp_path):
    plan = compile_one(tmp_path, entry=workload(mapping={"mode": "internal"})).processes[0]
    assert plan.mapping == InternalMapping()
    assert (plan.kpo_kwargs, plan.mapped_kpo_kwargs, plan.labels) == (PodArguments(), None, ())


def test_ten_days_in_four_items_are_balanced_and_labelled(tmp_path):
    plan = compile_one(tmp_path).processes[0]
    assert isinstance(plan.mapping, MappingPlan)
    assert [item.chunks_count for item in plan.mapping.items] == [3, 3, 2, 2]
    assert plan.labels == (
        "2024-01-01 .. 2024-01-03",
        "2024-01-04 .. 2024-01-06",
        "2024-01-07 .. 2024-01-08",
        "2024-01-09 .. 2024-01-10",
    )


def test_mode_visible_has_one_item_a_chunk(tmp_path):
    plan = compile_one(tmp_path, entry=workload(mapping={"mode": "visible"})).processes[0]
    assert len(plan.labels) == 10
    assert plan.labels[-1] == "2024-01-10"


def test_what_is_not_authored_has_defaults(tmp_path):
    pack = compile_one(tmp_path)
    assert pack.dag.to_document() == {
        "dag_id": "orders",
        "catchup": False,
        "max_active_runs": 1,
        "tags": [],
        "retries": 0,
        "retry_delay_seconds": 60,
    }
    assert (pack.minimum_provider_version, pack.processes[0].task_id) == ("0.1.0", "orders")


def test_what_is_authored_is_in_the_pack(tmp_path):
    execution = {
        "dag_id": "shop.orders",
        "description": "all orders",
        "schedule": "@daily",
        "start_date": "2024-01-01",
        "max_active_runs": 2,
        "retries": 3,
        "retry_delay_seconds": 0,
        "tags": ["a", "b"],
        "owner": "data",
    }
    pack = compile_one(tmp_path, entry=workload(**execution, outlets=["postgres://w/analytics/orders"]))
    assert pack.dag.to_document() == {**execution, "catchup": False}
    assert pack.processes[0].outlets == ("postgres://w/analytics/orders",)
    assert pack.processes[0].retry_authority.max_retries == 3


def test_a_templated_window_leaves_no_sample_interval_in_the_pack(tmp_path):
    pack = compile_one(
        tmp_path, entry=workload(mapping={"mode": "internal"}), chunk__from="{{ ds }}", chunk__to="{{ ds }}"
    )
    assert b"2024-02-2" not in dump_pack(pack)


def test_what_concerns_people_alone_is_not_in_the_process(tmp_path):
    one = compile_one(tmp_path / "one")
    other = compile_one(
        tmp_path / "other", description="for people", gitops__airflow__mapping={"mode": "visible"}
    )
    assert one.processes[0].process_digest == other.processes[0].process_digest


def test_the_release_is_in_the_fingerprint_and_not_in_the_process(tmp_path):
    one, other = compile_one(tmp_path, release="r1"), compile_one(tmp_path, release="r2")
    assert one.fingerprint != other.fingerprint
    assert one.processes == other.processes


@pytest.mark.parametrize("seed", ["1", "2"])
def test_every_process_builds_the_same_bytes_whatever_its_hash_seed(tmp_path, seed):
    expected = dump_pack(compile_one(tmp_path / "project", release="r1"))
    arguments = ["pack", "build", "project", "--out", f"out{seed}", "--release", "r1", "--deployment", "prod"]
    subprocess.run(
        [sys.executable, "-m", "dpone_packbuilder", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "packbuilder")},
        check=True,
        capture_output=True,
    )
    assert (tmp_path / f"out{seed}" / "orders" / "airflow-pack.json").read_bytes() == expected


def test_a_review_gives_the_packs_that_its_plans_compile_to(tmp_path):
    write_project(tmp_path, workloads={"one": workload(), "two": workload(mapping={"mode": "internal"})})
    review = review_project(load_project(tmp_path))
    packs = tuple(compile_pack(plan, release="r", deployment="d") for plan in review.planned)
    assert packs == review.compile_packs(release="r", deployment="d")
    assert packs[1:] == review.compile_packs(release="r", deployment="d", workload="two")
