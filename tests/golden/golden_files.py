"""One way to compare with a golden file, and to accept a difference on purpose."""

import json
import os
from pathlib import Path

ACCEPT = "DPONE_UPDATE_GOLDEN"


def assert_golden_text(path: Path, text: str) -> None:
    """Compare text with a golden file; with DPONE_UPDATE_GOLDEN=1 it is written first."""
    if os.environ.get(ACCEPT) == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def assert_golden(path: Path, data: bytes) -> None:
    """Compare JSON bytes with a golden file: first as values, so that a difference is readable, then byte by byte.

    With DPONE_UPDATE_GOLDEN=1 the file is written first.
    """
    if os.environ.get(ACCEPT) == "1":
        path.write_bytes(data)
    golden = path.read_bytes()
    assert json.loads(golden) == json.loads(data)
    assert golden == data
