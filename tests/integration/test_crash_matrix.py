"""The crash matrix, run: whoever is killed at whatever step, a new run has every row in the target once, by content.

By default any two of step, victim, inner mode and kind of run meet in some case; DPONE_TEST_CRASH_MATRIX=all runs them all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.campaigns import History, mapped_process
from tests.integration.child_runs import Fault, Finished, Run
from tests.integration.crash_matrix import (
    PUBLISHED,
    STEPS,
    Case,
    Entry,
    Fate,
    Mode,
    Publication,
    Victim,
    every_case,
    pairwise_cases,
    render_results,
)
from tests.integration.fault_lane import (
    BEFORE_LOAD,
    FAULTS_VARIABLE,
    HOLD,
    KILL_BOTH,
    KILL_COORDINATOR,
    KILL_LANE,
)
from tests.integration.inner_modes import SCENARIOS, Scenario
from tests.integration.publications import receipt, relation, shadow, status, swapped
from tests.integration.run_with_faults import GRACE_VARIABLE, RENEWAL_VARIABLE, SILENCE_VARIABLE

SELECTION_VARIABLE = "DPONE_TEST_CRASH_MATRIX"
CASES = tuple(every_case()) if os.environ.get(SELECTION_VARIABLE) == "all" else pairwise_cases()
KILL = {Victim.LANE: KILL_LANE, Victim.COORDINATOR: KILL_COORDINATOR, Victim.BOTH: KILL_BOTH}
RENEWED = """
SELECT lease_expires_at > started_at + interval '90 s' FROM dpone_audit.__dpone__backfill_chunks WHERE status = 'running'
"""
OF_NO_CHUNK = (
    "campaign opened",
    "lanes open",
    "every chunk told",
    "completed",
    *(step.name for step in STEPS if step.publications == (Publication.SHADOW,)),
)


@pytest.fixture(scope="module")
def matrix(request: pytest.FixtureRequest) -> Iterator[dict[Case, bool]]:
    """What came of each case; printed at the end."""
    results: dict[Case, bool] = {}
    yield results
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        reporter.write_line("")
        reporter.write_line(render_results(results))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_new_run_loads_every_row_once(history: History, case: Case, matrix: dict[Case, bool]) -> None:
    matrix[case] = False
    Broken(history, case).run()
    matrix[case] = True


class Broken:
    """One case on one history."""

    def __init__(self, history: History, case: Case) -> None:
        self.history = history
        self.case = case
        self.fate: Fate = case.fate
        self.scenario: Scenario = SCENARIOS[case.mode]
        self.chunk = 1 if case.step.first_chunk else self.scenario.victim
        self.aside = case.publication is Publication.SHADOW

    def run(self) -> None:
        self.scenario.prepare(self.history)
        self.live_before, self.relation_before = self.live(), relation(self.history)
        slice_before = [] if self.aside else self.history.versions(self.chunk)
        broken = self.start(self.faults())
        done = broken.finish()
        assert self.fate.exit_code == done.exit_code, done.output
        assert "Traceback" not in done.output
        assert broken.reached(*self.fault())
        if self.fate.exit_code == 0:
            self.require_counted(done)
        broken.wait_until_nothing_is_left()
        self.require_left(slice_before)

        committed = {index: self.versions(index) for index in self.committed_chunks()}
        self.history.lapse_leases()
        done = self.start(None).finish()
        assert 0 == done.exit_code, done.output
        assert done.outcome is not None
        assert done.outcome.backfill is not None
        assert self.scenario.chunks - len(committed) == done.outcome.backfill.chunks_committed
        assert committed == {index: self.history.versions(index) for index in committed}
        self.require_all()
        if self.aside:
            self.require_published()

    def live(self) -> list[tuple[object, ...]]:
        """Give every row of the live table with its version."""
        return self.history.sql("SELECT ctid::text, xmin::text, t::text FROM target.history t ORDER BY ctid")

    def versions(self, chunk_index: int) -> list[tuple[object, ...]]:
        """Give a slice where the lanes have written it; none of a shadow that was not made."""
        if not self.aside or status(self.history) == "published":
            return self.history.versions(chunk_index)
        found = shadow(self.history)
        assert found is not None
        return self.history.versions(chunk_index, found)

    def start(self, faults: list[Fault] | None) -> Run:
        text = self.scenario.text()
        if self.aside:
            text = swapped(mode=None, text=text)
        # A lane that is held waits for a renewal, which comes at once.
        environ = {RENEWAL_VARIABLE: "0"} if faults and self.case.step.during else {}
        if self.case.entry is Entry.MAPPED:
            return self.history.start_item(mapped_process(text=text), faults=faults, environ=environ)
        return self.history.start("run", self.history.manifest(text), faults=faults, environ=environ)

    def fault(self) -> tuple[str, int]:
        """Give the step as the watchers know it."""
        step = self.case.step.name
        return BEFORE_LOAD if step == "sent" else step, 0 if step in OF_NO_CHUNK else self.chunk

    def faults(self) -> list[Fault]:
        found = [(*self.fault(), KILL[self.case.victim])]
        if self.case.step.during is not None:
            found.append((self.case.step.during, self.chunk, HOLD))
        if self.case.step.after is not None:
            found.append((self.case.step.after, self.chunk, KILL_LANE))
        return found

    def committed_chunks(self) -> list[int]:
        chunks = self.history.chunks()
        return [index for index, (status, _) in chunks.items() if status == "committed"]

    def require_counted(self, done: Finished) -> None:
        """Require the run to tell every chunk, those too that a dead lane could not tell of."""
        assert done.outcome is not None
        assert done.outcome.backfill is not None
        rows = 20 * self.scenario.chunks
        assert (self.scenario.chunks, rows, rows) == (
            done.outcome.backfill.chunks_committed,
            done.outcome.backfill.rows_extracted,
            done.outcome.backfill.rows_loaded,
        )

    def require_left(self, slice_before: list[tuple[object, ...]]) -> None:
        """Require the broken run to have left what the matrix says."""
        found = self.history.chunks().get(self.chunk)
        assert self.fate.left == (found and found[0])
        if self.fate.left == "committed":
            assert 20 == len(self.versions(self.chunk))
        else:
            assert slice_before == self.versions(self.chunk)
        if self.aside:
            self.require_whole_or_untouched()
        if self.fate.left == "running":
            # Whoever comes next has to wait for ninety seconds at the most.
            assert 0 < self.history.lease_seconds() <= 90
        if self.fate.left == "running" and self.case.step.name == "renewed":
            assert self.history.value(RENEWED)

    def require_whole_or_untouched(self) -> None:
        """Require readers to see what they saw before, or all that was to be loaded."""
        published = self.fate.exit_code == 0 or self.fate is PUBLISHED
        assert published == (status(self.history) == "published")
        if published:
            assert 20 * self.scenario.chunks == self.history.value("SELECT count(*) FROM target.history")
        else:
            assert self.relation_before == relation(self.history)
            assert self.live_before == self.live()

    def require_published(self) -> None:
        """Require one swap: nothing but what was loaded is live, and what was live is kept as it was."""
        found = receipt(self.history)
        rows = 20 * self.scenario.chunks
        assert ("published", None) == (status(self.history), shadow(self.history))
        assert (self.relation_before, relation(self.history), rows) == (
            found["replaced_relation"],
            found["live_relation"],
            found["rows"],
        )
        assert rows == self.history.value("SELECT count(*) FROM target.history")
        assert self.relation_before == relation(self.history, found["backup"])
        kept = f"SELECT ctid::text, xmin::text, t::text FROM {found['backup']} t ORDER BY ctid"
        assert self.live_before == self.history.sql(kept)

    def require_all(self) -> None:
        """Require every chunk once, by the attempt that the matrix says."""
        events, attempts = self.fate.events, self.fate.events.count("claimed")
        plain = (("claimed", "committed"), ("committed", 1))
        for index in range(1, self.scenario.chunks + 1):
            wanted = (events, ("committed", attempts)) if index == self.chunk else plain
            assert wanted == (tuple(self.history.events(index)), self.history.chunks()[index])
        published = ["published"] if self.aside else []
        assert ["opened", "completed", *published] == self.history.events(None)
        self.history.require_loaded(self.scenario.chunks)
        if self.case.mode is Mode.REFRESH:
            assert 20 == self.history.value("SELECT count(*) FROM target.history")


# The matrix itself.


def test_the_matrix_has_every_step_of_every_mode() -> None:
    for scenario in SCENARIOS.values():
        told = {step.name for step in STEPS if Mode(scenario.mode) in step.modes}
        assert {*scenario.before_commit, "committed"} <= told
        others = {step for other in SCENARIOS.values() for step in other.before_commit} - {
            *scenario.before_commit
        }
        assert not others & told


def test_any_two_values_meet_in_some_case_that_is_run() -> None:
    every = set().union(*(case._pairs() for case in every_case()))
    assert every == set().union(*(case._pairs() for case in pairwise_cases()))
    assert [step.name for step in STEPS] == list(dict.fromkeys(case.step.name for case in pairwise_cases()))


# Faults are the tests' own.


def test_the_command_as_it_is_installed_meets_no_fault_whatever_its_environment(
    history: History, tmp_path: Path
) -> None:
    folder = tmp_path / "faults"
    folder.mkdir()
    names = [BEFORE_LOAD if step.name == "sent" else step.name for step in STEPS]
    faults = [(name, chunk, KILL_BOTH) for name in names for chunk in range(4)]
    (folder / "faults.json").write_text(json.dumps(faults), encoding="utf-8")
    environ = {
        FAULTS_VARIABLE: str(folder),
        SILENCE_VARIABLE: "0",
        GRACE_VARIABLE: "0",
        RENEWAL_VARIABLE: "0",
    }
    run = history.start("run", history.manifest(), environ=environ)
    done = run.finish()
    assert 0 == done.exit_code, done.output
    assert ["faults.json"] == [path.name for path in folder.iterdir()]
    history.require_loaded(3)


def test_nothing_that_is_shipped_knows_a_variable_of_the_tests() -> None:
    root = Path(__file__).parents[2]
    for package in ("airflow_provider_dpone", "packbuilder", "runtime"):
        for path in (root / package).rglob("*.py"):
            assert "DPONE_TEST" not in path.read_text(encoding="utf-8"), path
