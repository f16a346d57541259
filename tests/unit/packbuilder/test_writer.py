"""A release is written whole: packs, then the index; what it wrote before and has dropped is removed, nothing else."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_contract.canonical import fingerprint
from dpone_contract.errors import PackInvalidError, UsageError
from dpone_contract.pack import parse_pack
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.compiler import compile_pack
from dpone_packbuilder.project import load_project
from dpone_packbuilder.release_index import dump_release_index, parse_release_index
from dpone_packbuilder.writer import write_pack, write_release, write_whole
from tests.unit.packbuilder.project_files import workload, write_project


def compile_packs(folder, *names):
    write_project(folder, workloads={name: workload() for name in names})
    planned = review_project(load_project(folder)).planned
    return tuple(compile_pack(plan, release="r1", deployment="prod") for plan in planned)


def release(out, packs):
    return write_release(out, packs, release="r1", deployment="prod")


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_every_pack_has_a_folder_and_the_index_names_it(tmp_path):
    packs = compile_packs(tmp_path / "project", "one", "two")
    index = release(tmp_path / "out", packs).index
    assert files_in(tmp_path / "out") == [
        "one/airflow-pack.json",
        "release-index.json",
        "two/airflow-pack.json",
    ]
    assert (index.release, index.deployment) == ("r1", "prod")
    for pack, entry in zip(packs, index.packs, strict=True):
        data = (tmp_path / "out" / entry.path).read_bytes()
        assert (parse_pack(data), len(data), pack.fingerprint) == (pack, entry.size_bytes, entry.fingerprint)


def test_the_index_is_read_back_as_it_was_written(tmp_path):
    index = release(tmp_path / "out", compile_packs(tmp_path / "project", "one")).index
    data = (tmp_path / "out" / "release-index.json").read_bytes()
    assert parse_release_index(data) == index
    assert dump_release_index(index) == data


@pytest.mark.parametrize(
    "change", [{"release": "r2"}, {"packs": []}, {"schema": "dpone.release-index.v2"}, {"more": 1}]
)
def test_a_changed_index_is_refused(tmp_path, change):
    release(tmp_path / "out", compile_packs(tmp_path / "project", "one"))
    document = json.loads((tmp_path / "out" / "release-index.json").read_bytes())
    with pytest.raises(PackInvalidError):
        parse_release_index(json.dumps({**document, **change}).encode())


def test_an_index_that_names_a_foreign_path_is_refused(tmp_path):
    index = release(tmp_path / "out", compile_packs(tmp_path / "project", "one")).index
    foreign = index.replaced(packs=(index.packs[0].replaced(path="../mine/airflow-pack.json"),))
    document = {key: value for key, value in foreign.to_document().items() if key != "fingerprint"}
    sealed = {**document, "fingerprint": fingerprint(document)}
    with pytest.raises(PackInvalidError, match="a path that is not its workload's own"):
        parse_release_index(json.dumps(sealed).encode())


def test_whoever_reads_while_a_file_is_replaced_reads_the_old_one_to_its_end(tmp_path):
    write_whole(tmp_path / "file", b"old content")
    with (tmp_path / "file").open("rb") as reader:
        write_whole(tmp_path / "file", b"new")
        assert reader.read() == b"old content"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_second_build_of_the_same_input_writes_nothing(tmp_path):
    packs = compile_packs(tmp_path / "project", "one")
    release(tmp_path / "out", packs)
    again = release(tmp_path / "out", packs)
    assert again.written == ()
    assert [path.name for path in again.unchanged] == ["airflow-pack.json", "release-index.json"]


def test_a_workload_that_was_dropped_is_removed(tmp_path):
    packs = compile_packs(tmp_path / "project", "one", "two")
    release(tmp_path / "out", packs)
    removed = release(tmp_path / "out", packs[:1]).removed
    assert removed == (tmp_path / "out" / "two" / "airflow-pack.json",)
    assert files_in(tmp_path / "out") == ["one/airflow-pack.json", "release-index.json"]
    assert not (tmp_path / "out" / "two").exists()


def test_nothing_else_in_the_folder_is_removed(tmp_path):
    packs = compile_packs(tmp_path / "project", "one", "two")
    release(tmp_path / "out", packs)
    for name in ("note.txt", "two/note.txt", "three/airflow-pack.json"):
        (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_text("mine")
    release(tmp_path / "out", packs[:1])
    assert files_in(tmp_path / "out") == [
        "note.txt",
        "one/airflow-pack.json",
        "release-index.json",
        "three/airflow-pack.json",
        "two/note.txt",
    ]


def test_a_dropped_pack_that_somebody_changed_is_kept(tmp_path):
    packs = compile_packs(tmp_path / "project", "one", "two")
    release(tmp_path / "out", packs)
    changed = tmp_path / "out" / "two" / "airflow-pack.json"
    changed.write_bytes(changed.read_bytes().replace(b"prod", b"test"))
    assert release(tmp_path / "out", packs[:1]).removed == ()
    assert changed.exists()


def test_an_index_that_somebody_changed_removes_nothing(tmp_path):
    packs = compile_packs(tmp_path / "project", "one", "two")
    release(tmp_path / "out", packs)
    index = tmp_path / "out" / "release-index.json"
    index.write_bytes(index.read_bytes().replace(b'"two/', b'"../two/'))
    assert release(tmp_path / "out", packs[:1]).removed == ()


def test_no_draft_is_left_behind(tmp_path):
    release(tmp_path / "out", compile_packs(tmp_path / "project", "one"))
    assert [name for name in files_in(tmp_path / "out") if name.endswith(".tmp")] == []


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError, match="No space left on device"):
        write_whole(path, b"new")
    assert (path.read_bytes(), files_in(tmp_path)) == (b"old", ["file"])


def test_a_folder_that_cannot_be_made_is_told_without_a_traceback(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match="cannot write"):
        release(tmp_path / "out", compile_packs(tmp_path / "project", "one"))


def test_one_pack_is_written_and_found_unchanged(tmp_path):
    (pack,) = compile_packs(tmp_path / "project", "one")
    assert write_pack(pack, tmp_path / "pack.json") is True
    assert write_pack(pack, tmp_path / "pack.json") is False


def test_others_may_read_what_was_written(tmp_path):
    mask = os.umask(0o022)
    try:
        write_whole(tmp_path / "file", b"x")
    finally:
        os.umask(mask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "step, content", [("written", b"old"), ("synced", b"old"), ("replaced", b"new" * 100_000)]
)
def test_whoever_is_killed_while_writing_leaves_the_old_file_or_the_new_one(tmp_path, step, content):
    path = tmp_path / "airflow-pack.json"
    write_whole(path, b"old")
    root = Path(__file__).parents[3]
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.packbuilder.killed_write", str(path), step],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "packbuilder")])},
        stdout=subprocess.PIPE,
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"stopped\n"
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    assert path.read_bytes() == content
    # What the dead one left behind is in nobody's way.
    write_whole(path, b"next")
    assert path.read_bytes() == b"next"
