"""No tracked text names a folder of one machine or the host of a package index."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Put together here, so that this file does not hold what it looks for.
MACHINE_PATHS = (
    "/" + "work/",
    "/" + "farm/",
    "/" + "tmp/dev",
    "/" + "tmp/tools",
    "/" + "root/.",
    "." + "library/",
)
INDEX_HOSTS = (
    "pypi" + ".org",
    "python" + "hosted.org",
    "registry.npm" + "js",
    "deb." + "debian",
    "proxy.golang" + ".org",
)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("needle", [*MACHINE_PATHS, *INDEX_HOSTS])
def test_no_tracked_text_names(needle):
    found = []
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" not in content and needle.encode() in content:
            found.append(path.relative_to(ROOT).as_posix())
    assert [] == found
