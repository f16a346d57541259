"""The campaign that the crash tests break."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.campaigns import History, opened_history


@pytest.fixture
def history(database: str, tmp_path: Path) -> Iterator[History]:
    """Ten days of rows, an empty target, and `dpone` to load them with."""
    with opened_history(database, tmp_path) as opened:
        yield opened
