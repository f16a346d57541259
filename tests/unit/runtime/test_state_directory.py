"""A run's files stand where the manifest says, else the environment, else under the current directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_contract.environment import STATE_DIR
from dpone_contract.manifest import Manifest
from dpone_runtime.state_directory import file_stem, state_directory
from tests.factories import make_manifest

FROM_ENVIRONMENT = {STATE_DIR: "/var/lib/dpone"}


def manifest_with(state_dir: str | None) -> Manifest:
    manifest = make_manifest()
    campaign = manifest.backfill.model_copy(update={"state_dir": state_dir})
    strategy = manifest.sink.strategy.model_copy(update={"backfill": campaign})
    return manifest.model_copy(update={"sink": manifest.sink.model_copy(update={"strategy": strategy})})


def test_the_manifest_goes_first():
    assert Path("state") == state_directory(manifest_with("state"), FROM_ENVIRONMENT)


def test_the_environment_goes_second():
    assert Path("/var/lib/dpone") == state_directory(manifest_with(None), FROM_ENVIRONMENT)
    assert "DPONE_BACKFILL_STATE_DIR" == STATE_DIR


def test_the_current_directory_is_where_it_stands_else():
    assert Path(".dpone/backfill") == state_directory(manifest_with(None), {})
    assert Path(".dpone/backfill") == state_directory(manifest_with(""), {STATE_DIR: ""})


@pytest.mark.parametrize("run_key", ["orders-2024", "public_flights-0123456789abcdef", "a", "2013.v1_final"])
def test_a_plain_key_names_its_file(run_key):
    assert run_key == file_stem(run_key)


ODD = [
    "..",
    ".hidden",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\x00b",
    "",
    " ",
    "za\u017c\u00f3\u0142\u0107",
    "x" * 129,
    "orders.execution",
    "orders.journal",
    "orders.lock",
    "orders.json",
    "orders\n",
]


@pytest.mark.parametrize("run_key", ODD)
def test_an_odd_key_never_leaves_the_folder_nor_meets_a_file_of_another_campaign(run_key, tmp_path):
    stem = file_stem(run_key)
    assert tmp_path == (tmp_path / f"{stem}.json").resolve().parent
    assert stem.isascii()
    assert len(stem) < 128
    assert not stem.endswith((".execution", ".journal", ".lock", ".json"))
    assert stem != run_key


def test_no_two_keys_share_a_name():
    keys = [*ODD, "a_b", "orders", "a b", "a-b", "campaign"]
    assert len(keys) == len({file_stem(key).lower() for key in keys})
