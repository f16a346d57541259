"""What each inner mode begins with in the crash tests: its manifest, what stands in the target before, its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.integration.campaigns import FIRST_DAY, History, manifest_text

KEY = "[day, id]"
UNIQUE = "CREATE UNIQUE INDEX history_key ON target.history (day, id)"
OLD = """
INSERT INTO target.history (day, id, note)
SELECT day, id, 'old' FROM source.history WHERE id % 20 < 3
"""


@dataclass(frozen=True)
class Scenario:
    """`chunks` is how many days are loaded, one a chunk; `before_commit` the steps of its data transaction."""

    mode: str
    chunks: int
    before_commit: tuple[str, ...]
    prepare: Callable[[History], None]
    key: str | None = None

    @property
    def victim(self) -> int:
        """The chunk that is broken: the last but one, or the only one."""
        return max(1, self.chunks - 1)

    def text(self) -> str:
        """Give the manifest."""
        return mode_text(self.mode, self.chunks, key=self.key)


def mode_text(
    mode: str,
    chunks: int = 3,
    *,
    key: str | None = None,
    version: str | None = None,
    first: str = FIRST_DAY.isoformat(),
    last: str | None = None,
    step: str = "1d",
    name: str = "history",
) -> str:
    """Give a manifest of one mode."""
    told = f"    unique_key: {key}\n" if key else ""
    told += f"    version_column: {version}\n" if version else ""
    text = manifest_text(chunks, first=first, last=last, name=name).replace("step: 1d", f"step: {step}")
    return text.replace("    backfill:\n", f"{told}    backfill:\n      inner_mode: {mode}\n")


def prepare_merge(history: History) -> None:
    """Let the target have a key, and rows of it that the load has to update."""
    history.sql(UNIQUE)
    history.sql(OLD)


REPLACE = Scenario(
    "replace", 3, ("guarded", "deleted", "copying", "copied", "before commit"), History.add_stale_rows
)
APPEND = Scenario("incremental_append", 3, ("guarded", "copying", "copied", "before commit"), lambda _: None)
MERGE = Scenario(
    "incremental_merge",
    3,
    ("guarded", "staged", "copying", "copied", "merged", "before commit"),
    prepare_merge,
    KEY,
)
FULL_REFRESH = Scenario(
    "full_refresh", 1, ("guarded", "deleted", "copying", "copied", "before commit"), History.add_stale_rows
)
SCENARIOS = {scenario.mode: scenario for scenario in (REPLACE, APPEND, MERGE, FULL_REFRESH)}
