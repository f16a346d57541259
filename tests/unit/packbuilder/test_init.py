"""A first project and a further workload pass their check, and nothing is ever overwritten."""

import json
import re
from codecs import BOM_UTF8

import pytest
from jsonschema import Draft202012Validator

from dpone_contract.errors import ExitCode, UsageError
from dpone_contract.yaml_tree import parse_yaml
from dpone_packbuilder.checks import check_project, review_project
from dpone_packbuilder.cli import run_command_line
from dpone_packbuilder.init import FirstProject, render_project, require_absent
from dpone_packbuilder.project import load_project, project_of_texts
from dpone_packbuilder.schemas import SchemaKind, render_schema


@pytest.mark.parametrize("mode", ["internal", "visible", "summary"])
def test_a_first_project_passes_its_check(mode):
    files = render_project(FirstProject(mode=mode))
    assert list(files) == ["workloads.yaml", "orders_history.yaml"]
    assert check_project(project_of_texts(files, "workloads.yaml")) == ()


def test_options_arrive_in_the_files():
    files = render_project(
        FirstProject(
            "sales", "Shop.Order Lines", "dw.true", "no", "2020-02-29", "2021-02-28", "1mo", "visible"
        )
    )
    manifest = project_of_texts(files, "workloads.yaml").workloads[0].manifest
    assert manifest is not None
    assert (manifest.name, str(manifest.source.table), str(manifest.sink.table)) == (
        "sales",
        "Shop.Order Lines",
        "dw.true",
    )
    chunk = manifest.backfill.chunk
    assert chunk is not None
    assert (chunk.column, chunk.from_, chunk.to, chunk.step) == ("no", "2020-02-29", "2021-02-28", "1mo")


@pytest.mark.parametrize(
    "first, part",
    [
        (FirstProject(source_table="orders"), "--source-table 'orders' is not a table"),
        (FirstProject(target_table=".orders"), "--target-table '.orders' is not a table"),
        (FirstProject(first="2024-05-01"), "the window holds no chunk"),
        (FirstProject(first="1.5.2024"), "is neither a date"),
        (FirstProject(step="1h"), "does not fit date chunks"),
        (FirstProject(name="1st"), "'1st' is not allowed"),
        (FirstProject(name=""), "is not allowed"),
        (FirstProject(chunk_column=""), "column must have at least 1 character"),
        (FirstProject(mode="visible", last="2024-12-31"), "mode visible needs 366 tasks"),
        (FirstProject(chunk_column='a"\n  evil: 1'), ""),
    ],
)
def test_options_that_would_not_pass_the_check_are_refused(first, part):
    if part:
        with pytest.raises(UsageError) as caught:
            render_project(first)
        assert part in str(caught.value)
    else:  # strange, but a column may be called so; it must not become YAML
        files = render_project(first)
        manifest = project_of_texts(files, "workloads.yaml").workloads[0].manifest
        assert manifest is not None
        assert manifest.backfill.chunk is not None
        assert manifest.backfill.chunk.column == first.chunk_column


@pytest.mark.parametrize("name", ["workloads.yaml", "orders_history.yaml"])
def test_a_file_in_the_way_is_named(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=f"{name} exists already"):
        require_absent(tmp_path, ("workloads.yaml", "orders_history.yaml"))


# The command


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["init"]) == ExitCode.DONE
    return tmp_path


def init(*arguments):
    return run_command_line(["init", *arguments])


def test_both_files_begin_with_the_line_that_editors_read(project):
    for name, kind in (("workloads.yaml", "catalog"), ("orders_history.yaml", "manifest")):
        line = (project / name).read_text().splitlines()[0]
        found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", line)
        assert found is not None
        schema = project / found[1]
        assert schema.read_text() == render_schema(SchemaKind(kind))
        document = parse_yaml((project / name).read_text(), name).value
        assert Draft202012Validator(json.loads(schema.read_text())).is_valid(document)


def test_a_further_workload_is_added_and_the_rest_of_the_catalog_kept(project, capsys):
    catalog = project / "workloads.yaml"
    catalog.write_text("# mine\n" + catalog.read_text() + "\n# said at the end\ndefaults:\n  airflow: {}\n")
    before = catalog.read_text()
    assert init("--name", "second", "--target-table", "analytics.second") == ExitCode.DONE
    after = catalog.read_text()
    begin, _, end = before.partition("\n# said at the end")
    assert after.startswith(begin)
    assert after.endswith("\n# said at the end" + end)
    assert (project / "second.yaml").exists()
    assert "added second to workloads.yaml" in capsys.readouterr().out
    assert check_project(load_project(project)) == ()
    assert [found.name for found in load_project(project).workloads] == ["orders_history", "second"]


@pytest.mark.parametrize(
    "before", ["workloads: { a: { manifest: orders_history.yaml } }\n", "workloads:\n", "- 1\n"]
)
def test_an_entry_that_cannot_be_added_safely_is_printed(project, capsys, before):
    (project / "workloads.yaml").write_text(before)
    capsys.readouterr()
    assert init("--name", "second") == ExitCode.DONE
    output = capsys.readouterr().out
    assert (
        "workloads.yaml is left as it is; put this under its workloads:\n  second:\n    manifest:" in output
    )
    assert (project / "workloads.yaml").read_text() == before
    assert (project / "second.yaml").exists()


def test_bytes_around_the_entry_stay_as_they_are(project):
    catalog = project / "workloads.yaml"
    before = BOM_UTF8 + catalog.read_bytes().replace(b"\n", b"\r\n")
    catalog.write_bytes(before)
    assert init("--name", "second", "--target-table", "analytics.second") == ExitCode.DONE
    after = catalog.read_bytes()
    assert after.startswith(before)
    assert b"\n" not in after.replace(b"\r\n", b"")
    assert check_project(load_project(project)) == ()


def test_a_catalog_under_its_other_name_is_extended(project):
    (project / "workloads.yaml").rename(project / "workloads.yml")
    assert init("--name", "second", "--target-table", "analytics.second") == ExitCode.DONE
    assert not (project / "workloads.yaml").exists()
    assert len(load_project(project).workloads) == 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "has a workload orders_history already"),
        (["--name", "taken"], "taken.yaml exists already"),
        (["--name", "1st"], "'1st' is not allowed"),
        (["--name", "second", "--step", "1x"], "'1x' is not a step"),
        (["--name", "second", "--mode", "visible", "--to", "2025-12-31"], "mode visible needs"),
    ],
)
def test_a_refused_workload_changes_nothing(project, capsys, arguments, message):
    (project / "taken.yaml").write_text("mine")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert init(*arguments) == ExitCode.REFUSED
    assert message in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}


def test_an_error_that_was_there_before_does_not_stand_in_the_way(project):
    manifest = project / "orders_history.yaml"
    manifest.write_text(manifest.read_text().replace("nulls: fail", "nuls: fail"))
    assert init("--name", "second", "--target-table", "analytics.second") == ExitCode.DONE
    assert [found.message for found in check_project(load_project(project))] == ["unknown key 'nuls'"]


@pytest.mark.parametrize("name", ["workloads.yaml", "workloads.yml"])
def test_a_folder_in_place_of_the_catalog_is_told(tmp_path, capsys, name):
    (tmp_path / name).mkdir()
    assert init(str(tmp_path)) == ExitCode.REFUSED
    assert "this is not a file" in capsys.readouterr().err


def test_schemas_of_editors_are_refreshed_only_when_asked(project, capsys):
    schema = project / ".dpone" / "schemas" / "manifest.v1.schema.json"
    schema.write_text("{}")
    assert init("--name", "second") == ExitCode.DONE
    assert schema.read_text() == "{}"
    capsys.readouterr()
    assert run_command_line(["schema", "--refresh", "."]) == ExitCode.DONE
    assert schema.read_text() == render_schema(SchemaKind.MANIFEST)
    assert capsys.readouterr().out == (
        "unchanged .dpone/schemas/catalog.v1.schema.json\nwrote .dpone/schemas/manifest.v1.schema.json\n"
    )


# The verb `schema`


@pytest.mark.parametrize("kind", SchemaKind)
def test_a_schema_is_printed(capsys, kind):
    assert run_command_line(["schema", kind]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (render_schema(kind), "")


def test_the_kinds_of_schema_are_listed(capsys):
    assert run_command_line(["schema"]) == ExitCode.DONE
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SchemaKind)


@pytest.mark.parametrize(
    "arguments, message",
    [(["manifst"], "'manifst' is not one of"), (["manifest", "--refresh", "."], "takes no kind")],
)
def test_a_wrong_call_of_schema_is_a_usage_error(capsys, arguments, message):
    assert run_command_line(["schema", *arguments]) == ExitCode.REFUSED
    assert message in capsys.readouterr().err


def test_what_is_commented_out_makes_it_a_workload_of_pods():
    files = render_project(FirstProject())
    catalog = re.sub(r"\n +backend: process[^\n]*", "", files["workloads.yaml"])
    catalog = re.sub(r"\n    # (?=(?:  )?\w+:)", "\n    ", catalog)
    project = project_of_texts({**files, "workloads.yaml": catalog}, "workloads.yaml")
    review = review_project(project)
    assert review.findings == ()
    (pack,) = review.compile_packs(release="r", deployment="d")
    pod = pack.processes[0].pod
    assert (pod.namespace, [secret.variable for secret in pod.secrets or ()]) == (
        "loads",
        ["DPONE_CONN_SOURCE_DB", "DPONE_CONN_TARGET_DB"],
    )
