"""A file holds one idea: no module and no SQL file of a package is longer than 400 lines."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "airflow_provider_dpone",
    "packbuilder/dpone_contract",
    "packbuilder/dpone_packbuilder",
    "runtime/dpone_runtime",
)
MAX_LINES = 400


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_is_longer_than_400_lines(package):
    files = [path for path in (ROOT / package).rglob("*") if path.suffix in {".py", ".sql"}]
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files
    }
    assert lines, "the package is empty"
    assert {} == {name: count for name, count in lines.items() if count > MAX_LINES}
