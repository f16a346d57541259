"""An error is told in one, two or three lines."""

import pytest

from dpone_contract.error_text import render_error
from dpone_contract.errors import UsageError


@pytest.mark.parametrize(
    "error, text",
    [
        (UsageError("no"), "error DPONE_USAGE: no"),
        (UsageError("no", where="a:1:2"), "error DPONE_USAGE: no\n  at: a:1:2"),
        (UsageError("no", next_step="yes", secret="x"), "error DPONE_USAGE: no\n  next: yes"),
    ],
)
def test_an_error_has_code_message_place_and_way_out(error, text):
    assert render_error(error) == text
