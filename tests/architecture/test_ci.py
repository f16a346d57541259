"""`.ci/run` insists on every Python of the matrix, and finds one that pyenv has without making it active."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REACHED = "an environment is made"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder to stand alone on PATH, with Python 3.11 and a `python3` that ends the script where it starts to work."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("dirname", "sed", "sort", "id"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    write_program(folder / "python3.11", "exit 0")
    write_program(folder / "python3", f"echo {REACHED}; exit 9")
    return folder


def write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def run_ci(programs: Path) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, str(ROOT / ".ci/run")],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_missing_python_fails_with_one_clear_line(programs: Path) -> None:
    done = run_ci(programs)
    assert (
        1,
        "",
        "python3.12, which compat-matrix/matrix.toml asks for, is neither on PATH nor known to pyenv\n",
    ) == (done.returncode, done.stdout, done.stderr)


def test_a_python_that_pyenv_has_is_found_behind_its_failing_shim(programs: Path) -> None:
    prefix = programs.parent / "versions/3.12.1"
    write_program(prefix / "bin/python3.12", "exit 0")
    write_program(prefix / "bin/python3", "echo another python3; exit 8")
    # As pyenv's shims do: of an inactive version they run what else is on PATH, if anything is.
    write_program(programs / "python3.12", f'case "$PATH" in *:{prefix}/bin) exit 0;; esac; exit 127')
    write_program(programs / "pyenv", f'[ "$*" = "prefix 3.12" ] && echo {prefix}')
    done = run_ci(programs)
    assert (9, f"{REACHED}\n", "") == (done.returncode, done.stdout, done.stderr)


def test_a_version_that_pyenv_lacks_is_missing(programs: Path) -> None:
    write_program(programs / "pyenv", "echo nothing there >&2; exit 1")
    done = run_ci(programs)
    assert (1, "") == (done.returncode, done.stdout)
    assert 1 == done.stderr.count("\n")
