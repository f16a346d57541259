"""A run's files stand where the manifest says, else the environment, else under the current directory."""

from __future__ import annotations

from pathlib import Path

from dpone_contract.environment import STATE_DIR
from dpone_contract.manifest import Manifest
from dpone_runtime.state_directory import state_directory
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
