"""What cannot be read is a finding with a place and a way out, never an exception."""

import os

import pytest

from dpone_packbuilder.project import load_project, project_of_texts
from tests.unit.packbuilder.project_files import as_yaml, line_of, manifest, workload, write_project


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def only_finding(root):
    (finding,) = load_project(root).findings
    assert finding.next_step
    return finding


def test_workloads_come_in_the_order_of_the_catalog(tmp_path):
    write_project(tmp_path, workloads={"zebra": workload(), "ant": workload()})
    project = load_project(tmp_path)
    assert [found.name for found in project.workloads] == ["zebra", "ant"]
    assert project.is_catalog


@pytest.mark.parametrize("name", ["workloads.yaml", "workloads.yml"])
def test_a_catalog_is_found_in_its_folder_or_named_itself(tmp_path, name):
    write_project(tmp_path)
    (tmp_path / "workloads.yaml").rename(tmp_path / name)
    for root in (tmp_path, tmp_path / name):
        project = load_project(root)
        assert (project.findings, [found.name for found in project.workloads]) == ((), ["orders"])


def test_a_manifest_given_alone_is_a_project_without_catalog(tmp_path):
    write_project(tmp_path)
    project = load_project(tmp_path / "orders.yaml")
    assert ([found.name for found in project.workloads], project.is_catalog) == (["orders"], False)


def test_a_manifest_is_relative_to_its_catalog(tmp_path):
    write_project(
        tmp_path / "a" / "b", workloads={"orders": workload(manifest_path="../orders.yaml")}, manifests={}
    )
    (tmp_path / "a" / "orders.yaml").write_text(as_yaml(manifest()))
    assert load_project(tmp_path / "a" / "b").workloads[0].manifest_tree.path == "a/orders.yaml"


def test_paths_are_shown_relative_to_the_current_folder(tmp_path, monkeypatch):
    write_project(tmp_path / "project", manifests={"orders.yaml": manifest(name="1x")})
    assert only_finding(tmp_path / "project").path == "project/orders.yaml"
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path / "beside")
    assert only_finding(tmp_path / "project").path == "../project/orders.yaml"


def test_a_missing_root_is_a_finding(tmp_path):
    finding = only_finding(tmp_path / "nothing")
    assert (finding.where, finding.message) == ("nothing", "the file does not exist")


def test_a_folder_without_a_catalog_names_init(tmp_path):
    finding = only_finding(tmp_path)
    assert finding.message == "the folder holds no workloads.yaml"
    assert "dpone init" in finding.next_step


def test_two_catalogs_in_one_folder_are_a_finding(tmp_path):
    write_project(tmp_path)
    (tmp_path / "workloads.yml").write_text("workloads: {}")
    assert "keep one" in only_finding(tmp_path).next_step


def test_a_missing_manifest_is_found_where_the_catalog_names_it(tmp_path):
    write_project(tmp_path, workloads={"orders": workload(manifest_path="order.yaml")})
    finding = only_finding(tmp_path)
    assert (finding.path, finding.line) == (
        "workloads.yaml",
        line_of(tmp_path / "workloads.yaml", "manifest"),
    )
    assert finding.next_step == "did you mean orders.yaml?"


def test_a_folder_in_place_of_a_manifest_is_a_finding(tmp_path):
    write_project(tmp_path, manifests={"other.yaml": manifest()})
    (tmp_path / "orders.yaml").mkdir()
    assert only_finding(tmp_path).message == "manifest orders.yaml: this is not a file"


def test_a_pipe_is_not_read(tmp_path):
    write_project(tmp_path, manifests={"other.yaml": manifest()})
    os.mkfifo(tmp_path / "orders.yaml")
    assert only_finding(tmp_path).message == "manifest orders.yaml: this is not a file"


def test_text_that_is_not_utf8_is_found_at_its_byte(tmp_path):
    write_project(tmp_path)
    (tmp_path / "orders.yaml").write_bytes(b"name: orders\nx: Z\xfcrich\n")
    assert only_finding(tmp_path).where == "orders.yaml:2:5"


def test_a_byte_order_mark_is_no_text(tmp_path):
    write_project(tmp_path)
    path = tmp_path / "orders.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_project(tmp_path).findings == ()


def test_an_empty_manifest_is_a_finding(tmp_path):
    write_project(tmp_path)
    (tmp_path / "orders.yaml").write_text("\n# nothing\n")
    assert only_finding(tmp_path).message == "the file is empty"


def test_a_huge_manifest_is_not_read(tmp_path):
    write_project(tmp_path)
    (tmp_path / "orders.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    assert only_finding(tmp_path).message.endswith("the file has 1048577 bytes, more than 1048576")


def test_a_catalog_that_is_a_list_is_a_finding(tmp_path):
    (tmp_path / "workloads.yaml").write_text("- one\n")
    assert only_finding(tmp_path).message == "the file is not a block of keys"


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "a" * 129])
def test_a_workload_name_that_is_no_folder_name_is_a_finding(tmp_path, name):
    (tmp_path / "workloads.yaml").write_text(f'workloads:\n  "{name}":\n    manifest: orders.yaml\n')
    finding = only_finding(tmp_path)
    assert (finding.line, finding.column) == (2, 3)


def test_a_shared_manifest_is_read_once(tmp_path):
    reads = []
    texts = {
        "workloads.yaml": as_yaml({"workloads": {"one": workload(), "two": workload()}}),
        "orders.yaml": as_yaml(manifest(name="1x")),
    }

    class Counted(dict):
        def __getitem__(self, name):
            reads.append(name)
            return super().__getitem__(name)

    project = project_of_texts(Counted(texts), "workloads.yaml")
    assert reads == ["workloads.yaml", "orders.yaml"]
    assert len(project.findings) == 1
