"""A first project passes its check, and nothing is ever overwritten."""

import pytest

from dpone_contract.errors import UsageError
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.init import FirstProject, render_project, require_absent
from dpone_packbuilder.project import project_of_texts


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


@pytest.mark.parametrize("name", ["workloads.yaml", "workloads.yml", "orders_history.yaml"])
def test_a_file_in_the_way_is_named(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=f"{name} exists already"):
        require_absent(tmp_path, ("workloads.yaml", "orders_history.yaml"))
