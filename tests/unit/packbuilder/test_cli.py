"""The command answers fast, names what it does not know, ends with the exit code of the design, and shows no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_contract.errors import ExitCode
from dpone_packbuilder.cli import run_command_line
from tests.unit.packbuilder.project_files import manifest, workload, write_project

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def start(tmp_path, *arguments, path=(), flags=(), **environment):
    """Run the command in a process of its own."""
    folders = os.pathsep.join([*map(str, path), str(ROOT / "packbuilder")])
    return subprocess.run(
        [sys.executable, *flags, "-m", "dpone_packbuilder", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": folders, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def install(folder: Path, name: str, source: str, *entries: str) -> Path:
    """Make an installed distribution with one module and entry points of the group of verbs."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dpone.commands]\n" + "\n".join(entries) + "\n")
    (folder / f"{name}.py").write_text(source)
    return folder


def test_help_lists_verbs_and_exit_codes(capsys):
    assert run_command_line(["--help"]) == ExitCode.DONE
    output = capsys.readouterr().out
    for verb in ("init", "check", "pack", "schema", "version", "run", "backfill"):
        assert f"\n  {verb} " in output
    assert "  4  verification found a mismatch" in output


def test_help_imports_no_model_and_no_driver(tmp_path):
    result = start(tmp_path, "--help", flags=("-X", "importtime"))
    imported = {line.rsplit("|", 1)[-1].strip() for line in result.stderr.splitlines()}
    assert "typer" in imported
    assert (
        imported & {"pydantic", "rich", "ruamel.yaml", "psycopg", "dpone_runtime", "dpone_packbuilder.checks"}
        == set()
    )


def test_no_verb_shows_the_help_and_is_a_usage_error(capsys):
    assert run_command_line([]) == ExitCode.REFUSED
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message, next_step",
    [
        (["chek"], "there is no verb 'chek'", "did you mean `dpone check`?"),
        (["zzz"], "there is no verb 'zzz'", "see `dpone --help`"),
        (["--colour"], "No such option: --colour", "see `dpone --help`"),
        (["check", "--fromat", "json"], "No such option: --fromat", "see `dpone check --help`"),
        (["check", "--format", "xml"], "Invalid value for '--format'", "see `dpone check --help`"),
        (["check", "a", "b"], "unexpected extra argument", "see `dpone check --help`"),
        (["pack", "bild"], "No such command 'bild'", "see `dpone pack --help`"),
        (["pack", "build", "--release", ""], "--release is no name", ""),
        (["run", "x"], "the verb 'run' comes with dpone-runtime", "pip install dpone-runtime"),
        (
            ["backfill", "plan", "x"],
            "the verb 'backfill' comes with dpone-runtime",
            "pip install dpone-runtime",
        ),
        (["run", "--help"], "the verb 'run' comes with dpone-runtime", "pip install dpone-runtime"),
    ],
)
def test_a_usage_error_is_one_clear_message_and_exit_code_2(
    monkeypatch, capsys, arguments, message, next_step
):
    monkeypatch.setattr("dpone_packbuilder.cli.entry_points", lambda group: ())
    assert run_command_line(arguments) == ExitCode.REFUSED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error DPONE_USAGE: ")
    assert message in captured.err
    assert next_step in captured.err
    assert len(captured.err.splitlines()) <= 2


def test_a_verb_of_another_wheel_is_a_function_or_an_app(tmp_path):
    folder = install(
        tmp_path / "site",
        "extra",
        "import typer\n"
        "def run(name: str = 'you'):\n    print('hello', name)\n    raise typer.Exit(3)\n"
        "backfill = typer.Typer()\n"
        "@backfill.command('plan')\ndef plan():\n    print('planned')\n"
        "print('imported')\n",
        "run = extra:run",
        "backfill = extra:backfill",
        "more = extra:run",
    )
    run = start(tmp_path, "run", "--name", "me", path=[folder])
    assert (run.returncode, run.stdout) == (3, "imported\nhello me\n")
    plan = start(tmp_path, "backfill", "plan", path=[folder])
    assert (plan.returncode, plan.stdout) == (0, "imported\nplanned\n")
    help_ = start(tmp_path, "--help", path=[folder])
    assert "imported" not in help_.stdout
    assert "pip install" not in help_.stdout
    assert "\n  more " in help_.stdout


def test_a_verb_that_cannot_be_loaded_is_one_clear_message(tmp_path):
    folder = install(tmp_path / "site", "extra", "import nothing_of_this_name\n", "run = extra:run")
    result = start(tmp_path, "run", path=[folder])
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error DPONE_USAGE: the verb 'run' of extra cannot be loaded: ")
    assert "Traceback" not in result.stderr


def test_an_error_of_a_verb_ends_with_its_own_exit_code(tmp_path):
    source = (
        "from dpone_contract.errors import ChunkBusyError\n"
        "def run():\n    raise ChunkBusyError('chunk 3 is held', where='chunk 3', next_step='wait')\n"
    )
    result = start(tmp_path, "run", path=[install(tmp_path / "site", "extra", source, "run = extra:run")])
    assert (result.returncode, result.stderr) == (
        5,
        "error DPONE_BACKFILL_CHUNK_BUSY: chunk 3 is held\n  at: chunk 3\n  next: wait\n",
    )


def test_an_error_that_nobody_knows_is_reported_with_its_lines(tmp_path):
    source = "def run():\n    raise ZeroDivisionError('oops')\n"
    result = start(tmp_path, "run", path=[install(tmp_path / "site", "extra", source, "run = extra:run")])
    assert result.returncode == ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
    assert result.stderr.startswith("Traceback")
    assert result.stderr.splitlines()[-2] == "error DPONE_INTERNAL: ZeroDivisionError: oops"


def test_an_interrupt_is_told_without_a_traceback(tmp_path):
    source = "def run():\n    raise KeyboardInterrupt\n"
    result = start(tmp_path, "run", path=[install(tmp_path / "site", "extra", source, "run = extra:run")])
    assert result.returncode == ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
    assert result.stderr.strip().startswith("error DPONE_INTERRUPTED: stopped")


def test_a_first_project_can_be_checked_previewed_and_built(tmp_path):
    assert start(tmp_path, "init", "shop", "--mode", "summary").returncode == 0
    check = start(tmp_path, "check", "shop")
    assert (check.returncode, check.stdout, check.stderr) == (0, "checked 1 workload: no findings\n", "")
    preview = start(tmp_path, "pack", "preview", "shop")
    assert preview.returncode == 0
    assert "91 mapped tasks of 1 chunk " in preview.stdout
    build = start(tmp_path, "pack", "build", "shop", "--out", "packs")
    assert build.returncode == 0
    assert (tmp_path / "packs" / "orders_history" / "airflow-pack.json").exists()
    again = start(tmp_path, "init", "shop")
    assert (again.returncode, again.stdout) == (2, "")
    assert "shop/workloads.yaml has a workload orders_history already" in again.stderr


def test_check_gives_2_for_an_error_and_0_for_warnings(tmp_path, capsys):
    write_project(tmp_path / "bad", manifests={"orders.yaml": manifest(chunk__step="1x")})
    assert run_command_line(["check", "bad"]) == ExitCode.REFUSED
    assert "bad/orders.yaml:22:9  error  DPONE_BACKFILL_PLAN_INVALID" in capsys.readouterr().out
    write_project(tmp_path / "warned", manifests={"orders.yaml": manifest(backfill__lease_ttl_minutes=5)})
    assert run_command_line(["check", "warned"]) == ExitCode.DONE
    assert capsys.readouterr().out.endswith("checked 1 workload: 1 warning\n")


@pytest.mark.parametrize("path", ["missing", "missing/workloads.yaml", os.devnull])
def test_check_of_what_is_not_there_has_no_traceback(capsys, path):
    assert run_command_line(["check", path]) == ExitCode.REFUSED
    captured = capsys.readouterr()
    assert captured.out.endswith("checked 0 workloads: 1 error\n")
    assert captured.err == ""


def test_nothing_is_written_if_a_check_fails(tmp_path, capsys):
    write_project(
        tmp_path,
        workloads={"good": workload(), "bad": workload(retries=9)},
        manifests={"orders.yaml": manifest()},
    )
    assert run_command_line(["pack", "build", "--out", "packs"]) == ExitCode.REFUSED
    captured = capsys.readouterr()
    assert "DPONE_RETRY_AUTHORITY_EXCEEDED" in captured.out
    assert captured.err == "nothing was written\n"
    assert not (tmp_path / "packs").exists()


def test_a_build_tells_json(tmp_path, capsys):
    write_project(tmp_path, manifests={"orders.yaml": manifest(backfill__lease_ttl_minutes=5)})
    arguments = [
        "pack",
        "build",
        "--out",
        "packs",
        "--release",
        "abc",
        "--deployment",
        "prod",
        "--format",
        "json",
    ]
    assert run_command_line(arguments) == ExitCode.DONE
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["index"]["release"], document["index"]["deployment"]) == ("abc", "prod")
    assert document["written"] == ["packs/orders/airflow-pack.json", "packs/release-index.json"]
    assert "warning" in captured.err


def test_a_refused_build_tells_json_too(tmp_path, capsys):
    write_project(tmp_path, workloads={"orders": workload(retries=9)})
    assert run_command_line(["pack", "build", "--format", "json"]) == ExitCode.REFUSED
    assert json.loads(capsys.readouterr().out)["errors"] == 1


def test_no_pack_is_built_from_a_manifest_alone(tmp_path, capsys):
    write_project(tmp_path)
    assert run_command_line(["pack", "build", "orders.yaml"]) == ExitCode.REFUSED
    assert "this is a single manifest" in capsys.readouterr().err


def test_preview_of_one_workload_among_several(tmp_path, capsys):
    write_project(tmp_path, workloads={"one": workload(), "two": workload()})
    assert run_command_line(["pack", "preview", "--workload", "two", "--format", "json"]) == ExitCode.DONE
    assert [pack["workload"] for pack in json.loads(capsys.readouterr().out)["packs"]] == ["two"]


def test_preview_of_a_workload_that_is_not_there_suggests_one(tmp_path, capsys):
    write_project(tmp_path)
    assert run_command_line(["pack", "preview", "--workload", "order"]) == ExitCode.REFUSED
    assert "did you mean 'orders'?" in capsys.readouterr().err


def test_preview_keeps_its_document_apart_from_findings(tmp_path, capsys):
    write_project(tmp_path, workloads={"orders": workload(retries=9)})
    assert run_command_line(["pack", "preview"]) == ExitCode.REFUSED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "DPONE_RETRY_AUTHORITY_EXCEEDED" in captured.err


def test_version_names_every_wheel(capsys):
    assert run_command_line(["version"]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "dpone-packbuilder",
        "dpone-runtime",
        "airflow-provider-dpone",
    ]
    assert run_command_line(["--version"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("dpone")
