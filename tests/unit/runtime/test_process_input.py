"""Where a process comes from, and what the command line may change of it."""

from __future__ import annotations

import pytest

from dpone_contract.errors import ManifestInvalidError, NotSupportedError, PackInvalidError, UsageError
from dpone_contract.process import plan_campaign
from dpone_runtime.command_options import Overrides
from dpone_runtime.process_input import process_of_manifest, process_of_pack, read_manifest
from tests.factories import DIGEST, make_pack, make_process, make_process_plan, write_pack_file
from tests.unit.packbuilder.project_files import as_yaml, manifest


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "orders.yaml"
    found.write_text(as_yaml(manifest()), encoding="utf-8")
    return found


def chunk_of(process):
    return process.manifest.backfill.chunk


def test_without_overrides_the_manifest_stands(path):
    process = process_of_manifest(path, Overrides())
    assert read_manifest(path).replaced(gitops=None, description=None) == process.manifest
    assert not process.mapping.mapped


@pytest.mark.parametrize(
    "override, read",
    [
        ({"column": "other_day"}, lambda process: chunk_of(process).column == "other_day"),
        ({"from_": "2013-01-02"}, lambda process: chunk_of(process).from_ == "2013-01-02"),
        ({"to": "2019-12-31"}, lambda process: chunk_of(process).to == "2019-12-31"),
        ({"step": "1mo"}, lambda process: chunk_of(process).step == "1mo"),
        ({"kind": "date"}, lambda process: chunk_of(process).kind.value == "date"),
        ({"inner_mode": "replace"}, lambda process: process.manifest.backfill.inner_mode.value == "replace"),
        ({"parallel_workers": 3}, lambda process: process.manifest.backfill.parallel_workers == 3),
        ({"max_chunks": 77}, lambda process: process.manifest.backfill.max_chunks == 77),
        ({"backfill_id": "mine"}, lambda process: plan_campaign(process).plan.run_key == "mine"),
    ],
)
def test_each_override_changes_its_key_alone(path, override, read):
    before, after = process_of_manifest(path, Overrides()), process_of_manifest(path, Overrides(**override))
    assert read(after)
    untouched = {"chunk", "inner_mode", "parallel_workers", "max_chunks", "backfill_id"}
    same = before.manifest.backfill.model_dump(exclude=untouched)
    assert same == after.manifest.backfill.model_dump(exclude=untouched)
    assert before.manifest.source == after.manifest.source


@pytest.mark.parametrize(
    "override, option",
    [
        ({"kind": "weeks"}, "--kind"),
        ({"inner_mode": "upsert"}, "--inner-mode"),
        ({"parallel_workers": 0}, "--parallel-workers"),
        ({"parallel_workers": 65}, "--parallel-workers"),
        ({"max_chunks": 0}, "--max-chunks"),
        ({"column": ""}, "--column"),
    ],
)
def test_an_override_that_does_not_fit_names_its_option(path, override, option):
    with pytest.raises(UsageError, match=option):
        process_of_manifest(path, Overrides(**override))


def test_an_override_cannot_ask_for_what_a_manifest_cannot(path):
    merging = {"unique_key": ["id"], "version_column": "version"}
    text = as_yaml(
        manifest(
            backfill__inner_mode="incremental_merge",
            **{f"sink__strategy__{key}": value for key, value in merging.items()},
        )
    )
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotSupportedError, match="not supported yet"):
        process_of_manifest(path, Overrides(inner_mode="partition_replace"))


def test_a_folder_may_be_named_in_place_of_the_manifests(path):
    assert "here" == process_of_manifest(path, Overrides(state_dir="here")).manifest.backfill.state_dir


@pytest.mark.parametrize(
    "content, reason",
    [(None, "there is no file"), (b"\xff\xfe", "UTF-8"), (b"x: [", "m.yaml"), (b"#" * 2_000_000, "")],
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path, content, reason):
    path = tmp_path / "m.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ManifestInvalidError) as refusal:
        read_manifest(path)
    assert reason in str(refusal.value)


def test_a_folder_is_no_manifest(tmp_path):
    with pytest.raises(ManifestInvalidError, match="is a folder"):
        read_manifest(tmp_path)


# Packs.


def test_a_process_of_a_pack(tmp_path):
    pack = make_pack()
    path = write_pack_file(tmp_path, pack)
    expected = pack.processes[0].process
    assert expected == process_of_pack(path, None, None)
    assert expected == process_of_pack(path, "flights_history", pack.fingerprint)


def test_a_pack_of_several_processes_needs_a_name(tmp_path):
    processes = tuple(make_process_plan(make_process(name)) for name in ("one", "two"))
    path = write_pack_file(tmp_path, make_pack(processes=processes))
    assert "two" == process_of_pack(path, "two", None).name
    for name in (None, "three"):
        with pytest.raises(UsageError) as refusal:
            process_of_pack(path, name, None)
        assert "one, two" in refusal.value.next_step


def test_another_pack_than_the_one_named_is_refused(tmp_path):
    path = write_pack_file(tmp_path, make_pack())
    with pytest.raises(PackInvalidError, match="fingerprint"):
        process_of_pack(path, None, DIGEST)


def test_a_pack_that_is_missing_or_damaged_is_refused(tmp_path):
    with pytest.raises(PackInvalidError):
        process_of_pack(tmp_path / "none.json", None, None)
    path = write_pack_file(tmp_path, make_pack())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PackInvalidError):
        process_of_pack(path, None, None)
