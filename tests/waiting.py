"""Waiting for a condition with a bound, the one place in the tests that sleeps."""

import time
from collections.abc import Callable

POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], bool], timeout: float = 10.0, what: str = "the condition") -> None:
    """Return as soon as `condition` holds, looked at every 20 ms.

    Errors: AssertionError, naming `what`, when it does not hold within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not hold within {timeout} s")
        time.sleep(POLL_SECONDS)
