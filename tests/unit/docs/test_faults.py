"""The crash matrix in the documentation is the one that is tested."""

from pathlib import Path

from tests.integration.crash_matrix import render_fates

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"


def test_the_page_ends_with_the_matrix():
    _, _, matrix = PAGE.read_text(encoding="utf-8").partition("test_crash_matrix.py`.\n\n")
    assert render_fates() == matrix, "paste what tests.integration.crash_matrix.render_fates gives"
