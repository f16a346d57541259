"""Holding a pod in the middle of a chunk: its rows pass a constraint of the target that waits until the test lets them."""

from __future__ import annotations

from tests.integration.campaigns import FIRST_DAY, LAPSE, History
from tests.waiting import wait_until

# A lock a day. Shared by whoever loads it, for as long as its transaction lasts.
GATE = f"""
CREATE FUNCTION target.let_through(day date) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4711, day - date '{FIRST_DAY}' + 1);
    RETURN true;
END $$;
ALTER TABLE target.history ADD CONSTRAINT gate CHECK (target.let_through(day));
"""


class HeldChunks:
    """Chunks whose rows wait."""

    def __init__(self, history: History, chunks: int) -> None:
        self._history = history
        history.sql(GATE)
        for index in range(1, chunks + 1):
            history.sql("SELECT pg_advisory_lock(4711, %s)", index)

    def reached(self, chunk_index: int) -> bool:
        """Whether a lane waits with the rows of a chunk."""
        text = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 4711 AND objid = %s AND NOT granted"
        return bool(self._history.value(text, chunk_index))

    def wait_for(self, chunk_index: int) -> None:
        """Wait until one does."""
        wait_until(lambda: self.reached(chunk_index), 60, f"the load of chunk {chunk_index}")

    def lapse_lease(self, chunk_index: int) -> None:
        """Let the lease of a chunk have lapsed."""
        self._history.sql(f"{LAPSE} AND chunk_index = {chunk_index}")

    def release(self, chunk_index: int) -> None:
        """Let its rows pass from here on."""
        self._history.sql("SELECT pg_advisory_unlock(4711, %s)", chunk_index)
