"""The campaign that the crash tests break."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.attempts import Attempt, claimed_attempt
from tests.integration.campaigns import History, opened_history
from tests.integration.file_history import FileHistory


@pytest.fixture
def history(database: str, tmp_path: Path) -> Iterator[History]:
    """Ten days of rows, an empty target, and `dpone` to load them with."""
    with opened_history(database, tmp_path) as opened:
        yield opened


@pytest.fixture
def file_history(database: str, tmp_path: Path) -> Iterator[FileHistory]:
    """The same, its ledger in a folder."""
    opened = FileHistory(database, tmp_path)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def attempt(history: History, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempt]:
    """A claimed chunk of an open campaign, and a lane of this very process to load it."""
    for name, value in history.environ.items():
        monkeypatch.setenv(name, value)
    with claimed_attempt(history) as claimed:
        yield claimed
